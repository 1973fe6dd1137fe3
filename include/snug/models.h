// SPDX-License-Identifier: Apache-2.0
// The library's model families as networks, for a loop of your own over snug/session.h. What the
// verbs of snug/run.h train is the same network.
//
//   snug::RunConfig config;
//   config.model = "bert-base-uncased";  // a folder; or a preset, or a config.json
//   const snug::Network network = snug::model_network(config);
//   snug::Session session(network, {.batch_rows = 32, .lengths = {64, 128},
//                                   .has_initial_values = false});
//   snug::load_weights(config, session);
#pragma once

#include "snug/config.h"
#include "snug/network.h"
#include "snug/session.h"

namespace snug {

/// The network that the keys of the model and its task name (model, task, num_labels, vocab_size,
/// hidden sizes, ...: docs/configuration.md); keys of data, training and budget are not read. The
/// task is that of the model's head, else classification, where `task` is "auto".
///
/// It reads, of texts (which have a length), "input_ids" i32(T), "attention_mask" boolean(T) and
/// maybe "token_type_ids" i32(T); of images "pixel_values" f32(H, W, C), normalised. Training reads
/// "labels": i32() of classification, f32(targets) of regression, f32(labels) of several labels,
/// i32(T) of tokens, where -100 does not count; and "row_weights", f32() or f32(T), which are 1
/// where rows do not give them. The output is "logits". Throws Error{bad_config|bad_data}.
[[nodiscard]] Network model_network(const RunConfig& config);

/// Fills the weights of a session of that network: from the model's folder, and those that it does
/// not have (all, where there is no folder) with their initial values. Throws Error{bad_config}
/// where the session is of another network, Error{bad_data} where the folder's weights are not
/// those of its config.json, Error{numeric} where one is not finite.
void load_weights(const RunConfig& config, Session& session);

}  // namespace snug
