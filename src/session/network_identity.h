// SPDX-License-Identifier: Apache-2.0
// What tells a saved session's network from another one with the same name and the same weights:
// its ops, their attributes and how they hang together. What an op of the caller's own computes is
// not seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compile/network_def.h"

namespace snug::session {

struct NetworkIdentity {
  std::map<std::string, int64_t> ops;  // how many of each
  std::string sha256;
};

[[nodiscard]] NetworkIdentity identity_of(const compile::NetworkDef& network,
                                          const compile::BuildRequest& request);

/// How `now` differs from `then`, for people: "3 x gelu where it had 0, ..."; empty where it
/// does not.
[[nodiscard]] std::string difference(const NetworkIdentity& then, const NetworkIdentity& now);

}  // namespace snug::session
