// SPDX-License-Identifier: Apache-2.0
// The model of a run, whichever it is: read once (read_model.h), fitted to data when they are
// known, then asked for graphs, initial weights and its config.json. What differs between
// families is in src/models; nothing here knows one of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/image_file.h"
#include "data/image_frame.h"
#include "data/label_map.h"
#include "models/family.h"
#include "snug/config.h"
#include "snug/lora.h"
#include "tasks/task.h"
#include "text/text_limits.h"

namespace snug::run_model {

using models::ModelFacts;

struct Model {
  std::string name;  // as the user wrote it
  models::ArchitecturePtr architecture;
  const tasks::Task* task = nullptr;       // what it is trained for
  tasks::TaskSettings settings;            // of the task
  std::string kept_keys;                   // of them, that config.json says: "threshold: 0.9"
  models::ModelTraits traits;              // of `architecture`
  std::string config_file;                 // empty: a preset
  std::string weights_folder;              // empty: all weights are fresh
  LoraOptions lora;                        // its adapters; off: none
  std::string adapter_folder;              // that they begin with; empty: they are fresh
  std::vector<std::string> adapted;        // the maps that have one
  std::vector<std::string> beside;         // weights of that folder that are no adapters
  std::vector<std::string> labels;         // by id
  std::vector<std::string> ignored;        // fields of config.json that Snug does not know
  std::vector<std::string> fresh;          // weights that start fresh although there is a folder
  std::vector<std::string> reinitialized;  // weights of that folder that start fresh all the same
  int64_t resized_from = 0;  // rows of that folder's word embeddings, where there are more now
  std::vector<std::string> resized;        // the weights that have more rows for that
  std::string wrapper;                     // left out of the names in the folder: "module."
  std::vector<std::string> unused;         // tensors of the folder that the model does not read
  int64_t header_bytes = 0;                // of that folder's files and the adapters'
  data::LabelRule label_rule;              // how labels of data become ids
  data::ImageNormalization normalization;  // of images, as the weights were trained
  std::optional<data::ImageFrame> frame;   // of the images of a run; none: they are as they are
  std::string image_processor;             // the file that says so; empty: there is none
  text::TextLimits limits;                 // of the run's texts

  [[nodiscard]] const models::ModelFamily& family() const { return architecture->family(); }
  /// The size of the program for rows of this length.
  [[nodiscard]] models::ProgramSize size(int64_t length) const;
  [[nodiscard]] std::string config_json() const;
  /// The name of a weight in model.safetensors.
  [[nodiscard]] std::string stored_name(const std::string& parameter) const;
  /// The names that it may have in files, the likeliest first.
  [[nodiscard]] std::vector<std::string> spellings(const std::string& parameter) const;
  [[nodiscard]] models::WeightRole role(const std::string& parameter) const;
  [[nodiscard]] InitRule init_rule(const std::string& parameter, const Shape& shape) const;
  /// The names of all labels: LABEL_0, LABEL_1, ... where the file names none.
  [[nodiscard]] std::vector<std::string> label_names() const;
  [[nodiscard]] tasks::Context task_context() const { return {data::told_apart(labels), settings}; }
  /// Another `architecture`: refuses sizes that cannot be, and reads `traits` anew.
  void set_architecture(models::ArchitecturePtr changed);
};

/// Gives a model that was read the sizes that follow from data, tokenizer and max_seq_length. May
/// be called again when more is known. Throws Error{bad_config}.
void fit_model(Model& model, const RunConfig& config, ModelFacts facts);

}  // namespace snug::run_model
