// SPDX-License-Identifier: Apache-2.0
// ModelFamily: the one place that says what a family of networks is, as OpDef does for an op; and
// Architecture: one network of a family, its sizes given. No function is optional. A family is a
// folder here and a word in families.cmake; nothing outside of the folder knows its name.
// family_of.h makes both of the family's own struct.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "models/model.h"
#include "nn/init.h"
#include "snug/config.h"

namespace snug::models {

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
  bool is_of_fresh = false;  // of presets only: a file has its own
};

/// The size of one program in parts of about 45 nodes each, forward and backward: what a process
/// needs besides arena and resident values, and what planning takes, follow from it.
struct ProgramSize {
  int64_t parts = 0;        // of rows of the length that was asked for
  int64_t layer_parts = 0;  // beside them, whatever the length: in the program that runs only
};

/// May the weight be absent in a folder? The body never; pooler and head each as a whole, and are
/// fresh then. The head is what is trained for the task.
enum class WeightRole : uint8_t { body, pooler, head };

class ModelFamily;
class Architecture;
/// Architectures are values that never change; copies of a model share one.
using ArchitecturePtr = std::shared_ptr<const Architecture>;

/// One network of a family: its configuration, and what follows from it.
class Architecture {
 public:
  virtual ~Architecture() = default;
  [[nodiscard]] virtual const ModelFamily& family() const = 0;
  [[nodiscard]] virtual bool is_equal(const Architecture& other) const = 0;
  /// Its config.json: what ModelFamily::read reads.
  [[nodiscard]] virtual std::string config_json() const = 0;
  /// With the values of the family's keys that are not of presets only.
  [[nodiscard]] virtual ArchitecturePtr with_keys(const RunConfig& run) const = 0;
  [[nodiscard]] virtual ArchitecturePtr with_facts(const ModelFacts& facts) const = 0;
  /// Throws Error{bad_config} at `where` for sizes that cannot be.
  virtual void check(const std::string& where) const = 0;
  [[nodiscard]] virtual ModelTraits traits() const = 0;
  [[nodiscard]] virtual ProgramSize size(int64_t length) const = 0;
  /// Builds the network with its head into an empty builder.
  [[nodiscard]] virtual SequenceModel build(GraphBuilder& builder, BatchShape shape,
                                            const BuildOptions& options) const = 0;
  [[nodiscard]] virtual InitRule init_rule(const std::string& parameter,
                                           const Shape& shape) const = 0;
  /// The parameter's name in files that Snug writes. Graph and program have `parameter`.
  [[nodiscard]] virtual std::string stored_name(const std::string& parameter) const = 0;
};

/// What is known of a family without a network of it.
struct FamilyInfo {
  Required<std::string> name;
  Required<InputKind> input;
  Required<std::vector<std::string>> model_types;  // in config.json; "": where it names none
  /// Every preset's name; of numbered ones the smallest, a usual and the largest.
  Required<std::vector<std::string>> preset_names;
  Required<std::vector<HeadKind>> heads;
  Required<std::string> presets_help;  // "vgg-16, vgg-19"
  Required<std::vector<ModelKey>> keys;
  /// What the encoder's names in files begin with ("bert."); a file that holds an encoder and no
  /// head omits it. Empty: there is no such file.
  Required<std::string> prefix;
};

class ModelFamily {
 public:
  virtual ~ModelFamily() = default;
  ModelFamily(const ModelFamily&) = delete;
  ModelFamily& operator=(const ModelFamily&) = delete;

  [[nodiscard]] const FamilyInfo& info() const { return info_; }
  /// The preset that run.model names; null where the name is no preset of this family.
  [[nodiscard]] virtual ArchitecturePtr preset(const RunConfig& run) const = 0;
  /// config.json; `file` stands for it in errors. What asks for other mathematics is
  /// Error{bad_config} naming file and key; keys that nobody knows are listed in `ignored` (may be
  /// null).
  [[nodiscard]] virtual ArchitecturePtr read(std::string_view json, const std::string& file,
                                             std::vector<std::string>* ignored) const = 0;
  /// The role of a weight of the family's networks, which may be a part of Snug's own head.
  [[nodiscard]] WeightRole role(const std::string& parameter) const;
  /// A tensor of a file, of no use to the network, whose name is one of this family's encoder or
  /// classifier: the file is another network's.
  [[nodiscard]] virtual bool is_own(const std::string& tensor) const = 0;

 protected:
  explicit ModelFamily(FamilyInfo info) : info_(std::move(info)) {}

 private:
  [[nodiscard]] virtual WeightRole own_role(const std::string& parameter) const = 0;

  FamilyInfo info_;
};

/// The head is called "classifier".
[[nodiscard]] WeightRole role_by_classifier(const std::string& parameter);

}  // namespace snug::models
