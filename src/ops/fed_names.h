// SPDX-License-Identifier: Apache-2.0
// Names of the values that a step feeds beside the columns of the rows.
#pragma once

namespace snug {

inline constexpr const char* kRowWeights = "row_weights";  // f32; 0 for padding rows
inline constexpr const char* kInverseTotal = "inv_total";  // f32[]: 1 / weight of the global batch
inline constexpr const char* kRandomKey = "rng";           // i64[3]: seed, update, first slot
inline constexpr const char* kOwnKeyPrefix = "rng.";       // of more keys, each with its own seed

}  // namespace snug
