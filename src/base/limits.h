// SPDX-License-Identifier: Apache-2.0
// Limits that more than one part keeps.
#pragma once

#include <cstdint>

namespace snug {

/// Classes of one model: of the data, of a config.json and of the key num_labels.
inline constexpr int64_t kMaxLabels = 16384;

}  // namespace snug
