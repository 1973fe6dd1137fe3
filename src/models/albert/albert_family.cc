// SPDX-License-Identifier: Apache-2.0
// ALBERT as a family: its place in the program and its names in files.
#include "models/albert/albert.h"
#include "models/text_family.h"

namespace snug::models {
namespace {

// The published networks of the second version, and one of BERT-tiny's size.
struct AlbertPreset {
  const char* name;
  int64_t layers;
  int64_t hidden;
  int64_t heads;
};
constexpr AlbertPreset kAlbertPresets[] = {{"albert-tiny", 2, 128, 2},
                                           {"albert-base", 12, 768, 12},
                                           {"albert-large", 24, 1024, 16},
                                           {"albert-xlarge", 24, 2048, 16},
                                           {"albert-xxlarge", 12, 4096, 64}};

std::optional<AlbertConfig> albert_preset(const std::string& name) {
  for (const AlbertPreset& preset : kAlbertPresets) {
    if (name != preset.name) continue;
    AlbertConfig config;
    config.num_hidden_layers = preset.layers;
    config.hidden_size = preset.hidden;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = 4 * preset.hidden;
    return config;
  }
  return std::nullopt;
}

class AlbertFamily final : public TransformerFamily<AlbertConfig> {
 public:
  AlbertFamily()
      : TransformerFamily(
            {.name = "albert",
             .model_types = std::vector<std::string>{"albert"},
             .presets = std::vector<std::string>{"albert-tiny", "albert-base", "albert-large",
                                                 "albert-xlarge", "albert-xxlarge"},
             .presets_help =
                 "albert-tiny, albert-base, albert-large, albert-xlarge, albert-xxlarge",
             .prefix = "albert."}) {}

  // What is left over from pretraining ("predictions.", "sop_classifier.") is no sign of another
  // network.
  [[nodiscard]] bool is_own(const std::string& tensor) const override {
    return starts_with_any(tensor,
                           {"albert.", "embeddings.", "encoder.", "pooler.", "classifier."});
  }

 private:
  [[nodiscard]] std::optional<AlbertConfig> find_preset(const RunConfig& run) const override {
    return albert_preset(run.model);
  }
  [[nodiscard]] AlbertConfig parse(std::string_view json, const std::string& file,
                                   std::vector<std::string>* ignored) const override {
    return albert_config_from_json(json, file, ignored);
  }
  [[nodiscard]] std::string config_json(const AlbertConfig& config) const override {
    return albert_config_to_json(config);
  }
  void take_facts(const ModelFacts& facts, AlbertConfig& config) const override {
    take_encoder_facts(facts, config);
  }
  [[nodiscard]] ProgramSize size(const AlbertConfig& config, int64_t) const override {
    return {.parts = config.inner_layers()};
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, const AlbertConfig& config,
                                    BatchShape shape, const BuildOptions& options) const override {
    return build_albert_classifier(builder, config, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const AlbertConfig& config, const std::string& parameter,
                                   const Shape& shape) const override {
    return encoder_init_rule(config, parameter, shape);
  }
  [[nodiscard]] WeightRole own_role(const std::string& parameter) const override {
    const bool is_pooler =
        parameter.starts_with("albert.pooler.") || parameter.starts_with("pooler.");
    return is_pooler ? WeightRole::pooler : role_by_classifier(parameter);
  }
};

}  // namespace

const ModelFamily& albert_family() {
  static const AlbertFamily family;
  return family;
}

}  // namespace snug::models
