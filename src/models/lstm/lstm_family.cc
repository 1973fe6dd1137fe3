// SPDX-License-Identifier: Apache-2.0
// The LSTM as a family: its place in the program and its names in files.
#include <algorithm>

#include "models/lstm/lstm.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

constexpr int64_t kPartsOfLayer = 2;   // of a layer above the first
constexpr int64_t kStatesOfPart = 12;  // steps times layers, and their embedding as one

class LstmFamily final : public TextFamily<LstmConfig> {
 public:
  LstmFamily()
      : TextFamily(
            {.name = "lstm",
             .input = InputKind::text,
             .model_types = std::vector<std::string>{"lstm"},
             .preset_names = std::vector<std::string>{"lstm"},
             .heads = std::vector{HeadKind::row},
             .presets_help = "lstm",
             .keys =
                 std::vector<ModelKey>{
                     {"hidden_size", "width of its states; auto: 256", true},
                     {"num_hidden_layers", "layers, one on another; auto: 1", true},
                     {"embedding_size", "width of the word embeddings; auto: hidden_size", true},
                     {"hidden_dropout_prob", ""}},
             .prefix = ""}) {}

  // Nobody else writes files for the family.
  [[nodiscard]] bool is_own(const std::string&) const override { return true; }

 private:
  [[nodiscard]] std::optional<LstmConfig> find_preset(const RunConfig& run) const override {
    if (run.model != "lstm") return std::nullopt;
    LstmConfig config;
    if (run.hidden_size > 0) config.hidden_size = run.hidden_size;
    if (run.num_hidden_layers > 0) config.num_hidden_layers = run.num_hidden_layers;
    config.embedding_size = run.embedding_size;
    return config;
  }
  [[nodiscard]] LstmConfig parse(std::string_view json, const std::string& file,
                                 std::vector<std::string>* ignored) const override {
    return lstm_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const LstmConfig& config) const override {
    return lstm_config_to_json(config);
  }
  [[nodiscard]] ProgramSize size(const LstmConfig& config, int64_t length) const override {
    const int64_t layers = config.num_hidden_layers;
    return {.parts = 1 + length * (layers + 1) / kStatesOfPart,
            .layer_parts = kPartsOfLayer * std::max<int64_t>(0, layers - 1)};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const LstmConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_lstm_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const LstmConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return lstm_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    return role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& lstm_family() {
  static const LstmFamily family;
  return family;
}

}  // namespace snug::models
