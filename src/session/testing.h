// SPDX-License-Identifier: Apache-2.0
// What the tests of sessions share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "snug/error.h"
#include "snug/session.h"

namespace snug::session {

/// The text of the error that the call ends with; a failure where it is of another code, or none.
inline std::string refusal(const std::function<void()>& call,
                           ErrorCode code = ErrorCode::bad_config) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

/// What one part of the memory takes ("weights", "gradients"). All that is resident also depends on
/// the machine's speeds, by which plans have weights in a packed form or not, and is whole pages.
inline int64_t bytes_of_part(const PlanReport& plan, const std::string& part) {
  int64_t bytes = 0;
  for (const MemoryComponent& each : plan.components)
    if (each.name == part) bytes += each.bytes;
  return bytes;
}

/// Everything that a session keeps, to be compared.
inline std::string bytes_of(const Session& session) {
  std::string all;
  for (const TensorInfo& tensor : session.tensors()) {
    const auto bytes = session.view_bytes(tensor.name);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

}  // namespace snug::session
