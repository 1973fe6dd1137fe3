// SPDX-License-Identifier: Apache-2.0
// RoBERTa (Liu et al. 2019) with Hugging Face's heads, and what has its mathematics: XLM-R,
// CamemBERT. BERT's layers over positions that count what is no padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/encoder.h"
#include "models/model.h"

namespace snug::models {

struct RobertaConfig : ClassifierDropoutConfig {
  /// "roberta", "xlm-roberta" or "camembert": one network, three names.
  std::string model_type = "roberta";
  // Ids of the tokens around a text, which change nothing here; -1: none.
  int64_t bos_token_id = 0;
  int64_t eos_token_id = 2;
  /// Positions begin behind the padding token's id.
  [[nodiscard]] int64_t max_positions() const { return max_position_embeddings - pad_token_id - 1; }

  RobertaConfig() {
    vocab_size = 50265;
    pad_token_id = 1;
  }
  bool operator==(const RobertaConfig&) const = default;
};

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is an Error naming file and key; fields that Snug does not know
/// are ignored and, where `ignored` is given, listed there.
[[nodiscard]] RobertaConfig roberta_config_from_json(std::string_view json, const std::string& file,
                                                     std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string roberta_config_to_json(const RobertaConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be.
void validate(const RobertaConfig& config, const std::string& where);

/// Builds the classifier into an empty builder. Throws Error{bad_config} for a length beyond
/// max_positions().
SequenceModel build_roberta_classifier(GraphBuilder& builder, const RobertaConfig& config,
                                       BatchShape shape, const BuildOptions& options);

}  // namespace snug::models
