// SPDX-License-Identifier: Apache-2.0
// The network of examples/cpp/two_towers.cc, which is the example itself: its program is not run.
#include "example_networks.h"

#define main two_towers_main
#include "../../examples/cpp/two_towers.cc"

snug::Network corpus::two_towers_network() { return {"two_towers", two_towers}; }
