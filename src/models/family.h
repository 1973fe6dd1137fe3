// SPDX-License-Identifier: Apache-2.0
// ModelFamily: the one place that says what a family of networks is, as OpDef does for an op. No
// field is optional. A family is a folder here and a word in families.cmake; nothing outside of the
// folder knows its name. What is asked of one network is asked through train::Model, so a network
// that is of no family has one class to fill.
#pragma once

#include <any>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_def.h"
#include "models/model.h"
#include "nn/init.h"
#include "snug/config.h"

namespace snug::models {

/// The sizes of one network: the family's own struct.
using FamilyConfig = std::any;
template <class Config>
[[nodiscard]] const Config& config_of(const FamilyConfig& config) {
  return std::any_cast<const Config&>(config);
}
template <class Config>
[[nodiscard]] Config& config_of(FamilyConfig& config) {
  return std::any_cast<Config&>(config);
}

/// What a row is to the network.
enum class InputKind : uint8_t { text, image };

/// What the program asks of any network.
struct ModelTraits {
  int64_t vocab_size = 0;      // of text
  int64_t max_positions = 0;   // of text: the longest row in tokens; 0: any
  int64_t image_size = 0;      // of images: their side in pixels
  int64_t image_channels = 0;  // of images
  int64_t num_labels = 0;
  std::vector<std::string> labels{};  // by id; empty: none are given
  Head head{};
  TextHead text_head{};
  bool has_batch_statistics = false;  // a row's result depends on the other rows (batch norm)
};

/// What data and tokenizer say about the network. Zero or empty: not known, its own value stays.
struct ModelFacts {
  int64_t vocab_size = 0;
  std::optional<int64_t> pad_token_id{};  // of the tokenizer; a config.json has its own
  std::vector<std::string> labels{};
  int64_t num_labels = 0;  // where there are no labels: how many the user asked for
  std::optional<Head> head{};
};
/// The rule of the labels: names replace all that was known; another number forgets the names.
void take_labels(const ModelFacts& facts, int64_t& num_labels, std::vector<std::string>& labels);

/// A key of the run configuration that describes a network of this family. The others refuse it.
struct ModelKey {
  std::string name;
  std::string help;          // for the list of keys; empty: what the key's declaration says
  bool is_of_fresh = false;  // of presets alone: a file has its own
};

/// The size of one program in parts of about 45 nodes each, forward and backward: what a process
/// needs besides arena and resident values, and what planning takes, follow from it.
struct ProgramSize {
  int64_t parts = 0;        // of rows of the length that was asked for
  int64_t layer_parts = 0;  // beside them, whatever the length: in the program that runs alone
};

/// May the weight be absent in a folder? The body never; pooler and head each as a whole, and are
/// fresh then. The head is what is trained for the task.
enum class WeightRole : uint8_t { body, pooler, head };

/// How the weights are called in files. Graph and program have the parameter's name.
struct WeightNames {
  /// In files that Snug writes.
  Required<std::string (*)(const FamilyConfig&, const std::string& parameter)> stored;
  /// What the encoder's names in files begin with ("bert."); a file that holds an encoder alone
  /// leaves it away. Empty: there is no such file.
  Required<std::string> prefix;
  Required<WeightRole (*)(const std::string& parameter)> role;
  /// A tensor of a file, of no use to the network, whose name is one of this family's encoder or
  /// classifier: the file is another network's.
  Required<bool (*)(const std::string& tensor)> is_own;
};

struct ModelFamily {
  Required<std::string> name;
  Required<InputKind> input;
  Required<std::vector<std::string>> model_types;  // in config.json; "": where it names none
  /// Every preset's name; of numbered ones the smallest, a usual and the largest.
  Required<std::vector<std::string>> preset_names;
  Required<std::vector<HeadKind>> heads;
  Required<std::string> presets_help;  // "vgg-16, vgg-19"
  Required<std::vector<ModelKey>> keys;
  /// The preset that config.model names; nothing where the name is no preset of this family.
  Required<std::optional<FamilyConfig> (*)(const RunConfig&)> preset;
  /// config.json; `file` stands for it in errors. What asks for other mathematics is
  /// Error{bad_config} naming file and key; keys that nobody knows are listed in `ignored` (may be
  /// null).
  Required<FamilyConfig (*)(std::string_view json, const std::string& file,
                            std::vector<std::string>* ignored)>
      read;
  Required<std::string (*)(const FamilyConfig&)> write;
  Required<bool (*)(const FamilyConfig&, const FamilyConfig&)> is_equal;
  /// Takes the values of its `keys` that are not of presets alone.
  Required<void (*)(FamilyConfig&, const RunConfig&)> apply_keys;
  Required<void (*)(FamilyConfig&, const ModelFacts&)> apply_facts;
  /// Throws Error{bad_config} at `where` for sizes that cannot be.
  Required<void (*)(const FamilyConfig&, const std::string& where)> check;
  Required<ModelTraits (*)(const FamilyConfig&)> traits;
  Required<ProgramSize (*)(const FamilyConfig&, int64_t length)> size;
  /// Builds the network with its head into an empty builder.
  Required<SequenceModel (*)(const FamilyConfig&, GraphBuilder&, BatchShape, const BuildOptions&)>
      build;
  Required<InitRule (*)(const FamilyConfig&, const std::string& parameter, const Shape&)> init_rule;
  Required<WeightNames> weights;
};

/// `parameter` itself: what most families answer.
[[nodiscard]] std::string own_name(const FamilyConfig&, const std::string& parameter);
/// Of any weight of the family's networks: what its `role` says, or a part of Snug's own head.
[[nodiscard]] WeightRole role_of(const ModelFamily& family, const std::string& parameter);
/// The head is called "classifier".
[[nodiscard]] WeightRole role_by_classifier(const std::string& parameter);
/// Nobody else writes files for the family: every tensor of one is its own.
[[nodiscard]] bool every_tensor_is_own(const std::string& tensor);

}  // namespace snug::models
