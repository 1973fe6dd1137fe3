// SPDX-License-Identifier: Apache-2.0
// Networks of examples/cpp that are no chains.
#pragma once

#include "snug/network.h"

namespace corpus {

[[nodiscard]] snug::Network unet_network();
[[nodiscard]] snug::Network seq2seq_network();
[[nodiscard]] snug::Network two_towers_network();

}  // namespace corpus
