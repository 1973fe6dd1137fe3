// SPDX-License-Identifier: Apache-2.0
// The network of examples/cpp/seq2seq.cc, which is the example itself: its program is not run.
#include "example_networks.h"

#define main seq2seq_main
#include "../../examples/cpp/seq2seq.cc"

snug::Network corpus::seq2seq_network() { return {"seq2seq", sequence_to_sequence}; }
