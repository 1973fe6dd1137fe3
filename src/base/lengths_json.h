// SPDX-License-Identifier: Apache-2.0
// Lengths in JSON: a number, or an object where they have names.
#pragma once

#include "snug/lengths.h"

namespace snug {

template <class Json>
[[nodiscard]] Json lengths_json(const Lengths& lengths) {
  if (!lengths.has_names()) return lengths.of();
  return lengths.by_name();
}

}  // namespace snug
