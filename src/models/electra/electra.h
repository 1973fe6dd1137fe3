// SPDX-License-Identifier: Apache-2.0
// The discriminator of ELECTRA (Clark et al. 2020) with Hugging Face's heads: BERT's layers over
// embeddings of a width of their own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/encoder.h"
#include "models/model.h"

namespace snug::models {

struct ElectraConfig : ClassifierDropoutConfig {
  ElectraConfig() {
    embedding_size = 128;
    hidden_size = 256;
    num_attention_heads = 4;
    intermediate_size = 1024;
  }
  bool operator==(const ElectraConfig&) const = default;
};

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is an Error naming file and key; fields that Snug does not know
/// are ignored and, where `ignored` is given, listed there.
[[nodiscard]] ElectraConfig electra_config_from_json(std::string_view json, const std::string& file,
                                                     std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string electra_config_to_json(const ElectraConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be.
void validate(const ElectraConfig& config, const std::string& where);

/// Builds the classifier into an empty builder. Throws Error{bad_config} for a length beyond
/// max_positions().
SequenceModel build_electra_classifier(GraphBuilder& builder, const ElectraConfig& config,
                                       BatchShape shape, const BuildOptions& options);

}  // namespace snug::models
