// SPDX-License-Identifier: Apache-2.0
// The network of examples/cpp/unet.cc, which is the example itself: its program is not run.
#include "example_networks.h"

#define main unet_main
#include "../../examples/cpp/unet.cc"

snug::Network corpus::unet_network() { return {"unet", unet}; }
