// SPDX-License-Identifier: Apache-2.0
// Adapters written into the weights that they belong to: W + (alpha / r) B A in place of W.
#pragma once

#include <string>

#include "run_model/model.h"
#include "text/tokenizer.h"

namespace snug::run_model {

/// Writes the folder of a model that began with adapters, as if there had never been any: its
/// config.json, every weight in f32, tokenizer (null: it reads images) or preprocessor. The folder
/// appears whole or not at all; one weight at a time is in memory. Throws Error{bad_data} where the
/// adapters were trained on another base, Error{numeric} for a weight that is not finite.
void write_merged_model(const std::string& folder, const Model& model,
                        const text::Tokenizer* tokenizer);

}  // namespace snug::run_model
