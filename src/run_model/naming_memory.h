// SPDX-License-Identifier: Apache-2.0
// What it takes to build a network once to know its weights by name: what every verb does first.
#pragma once

#include "run_model/model.h"

namespace snug::run_model {

/// A hostile config.json asks for thousands of layers in a few bytes: what would be killed while
/// the network is built is Error{out_of_budget} before.
void check_naming_memory(const Model& model);

}  // namespace snug::run_model
