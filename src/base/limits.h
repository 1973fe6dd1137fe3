// SPDX-License-Identifier: Apache-2.0
// Limits that more than one part keeps.
#pragma once

#include <cstdint>

namespace snug {

/// Classes of one model: of the data, of a config.json and of the key num_labels.
inline constexpr int64_t kMaxLabels = 16384;

/// Layers, or blocks of all stages, of one model: of a config.json and of the keys that say a
/// depth. Random numbers tell 2^20 layers apart, and a graph takes tens of KiB for each before
/// anything is known of it; nobody has published a network of a tenth as many.
inline constexpr int64_t kMaxLayers = 10000;

}  // namespace snug
