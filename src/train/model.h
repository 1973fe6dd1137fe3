// SPDX-License-Identifier: Apache-2.0
// The model of a run, whichever it is: resolved from the run configuration once, then asked for
// graphs, initial weights and its config.json. A family is one alternative of `ModelConfig` and one
// set of overloads in model.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/image_file.h"
#include "data/label_map.h"
#include "models/bert.h"
#include "models/lstm.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/vgg.h"
#include "snug/config.h"

namespace snug::train {

using ModelConfig = std::variant<models::BertConfig, models::LstmConfig, models::MlpConfig,
                                 models::ResnetConfig, models::VggConfig>;

struct Model {
  std::string name;  // as the user wrote it
  ModelConfig config;
  std::string weights_folder;              // empty: all weights are fresh
  std::vector<std::string> labels;         // by id
  std::vector<std::string> ignored;        // fields of config.json that Snug does not know
  std::vector<std::string> fresh;          // weights that start fresh although there is a folder
  std::vector<std::string> unused;         // tensors of the folder that the model does not read
  data::LabelRule label_rule;              // how labels of data become ids
  data::ImageNormalization normalization;  // of images, as the weights were trained
  int64_t max_seq_length = 0;              // of the run, in tokens

  /// 0 where the model reads no tokens.
  [[nodiscard]] int64_t vocab_size() const;
  /// Side of the images that the model reads; 0 where it reads text.
  [[nodiscard]] int64_t image_size() const;
  [[nodiscard]] int64_t image_channels() const;
  /// The result of a row depends on the other rows of its micro-batch (batch norm).
  [[nodiscard]] bool has_batch_statistics() const;
  /// Longest sequence the model takes; 0: any.
  [[nodiscard]] int64_t max_positions() const;
  /// Repeated parts of the programs for rows of these lengths (layers; of a recurrent net, a few
  /// steps), as a measure of their size.
  [[nodiscard]] int64_t program_parts(std::span<const int64_t> lengths) const;
  /// What every layer of a deep recurrent net has once, whatever the length, in such parts.
  [[nodiscard]] int64_t layer_parts() const;
  [[nodiscard]] std::string config_json() const;
  /// The name of a weight in model.safetensors.
  [[nodiscard]] std::string stored_name(const std::string& parameter) const;
  models::SequenceModel build(GraphBuilder& builder, models::BatchShape shape,
                              const models::BuildOptions& options) const;
  [[nodiscard]] models::InitRule init_rule(const std::string& parameter, const Shape& shape) const;
};

/// What data and tokenizer say about the model. Zero or empty: not known, the configuration's own
/// value stays.
struct ModelFacts {
  int64_t vocab_size = 0;
  std::vector<std::string> labels;
};

/// Reads presets, config.json files and Hugging Face folders, whose weights are compared with their
/// config.json. Throws Error{bad_config|bad_data}.
[[nodiscard]] Model resolve_model(const RunConfig& config, const ModelFacts& facts);

}  // namespace snug::train
