// SPDX-License-Identifier: Apache-2.0
// The BERT encoder with pooler and sequence-classification head: the mathematics, parameter names
// and configuration of Hugging Face's BertForSequenceClassification (post-layer-norm, absolute
// positions). Weights come from nn/init.h or from a file; nothing here allocates them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/encoder.h"
#include "models/model.h"

namespace snug::models {

struct BertConfig : ClassifierDropoutConfig {
  bool operator==(const BertConfig&) const = default;
};

/// "bert-tiny", "-mini", "-small", "-medium", "-base", "-large". Throws Error{bad_config}.
[[nodiscard]] BertConfig bert_preset(std::string_view name);
[[nodiscard]] std::optional<BertConfig> find_bert_preset(std::string_view name);

/// Reads a config.json; `file` stands for it in errors. A field of a wrong type or value, or one
/// that asks for other mathematics, is Error{bad_config} naming file and key; fields that Snug does
/// not know are ignored and, where `ignored` is given, listed there.
[[nodiscard]] BertConfig bert_config_from_json(std::string_view json, const std::string& file,
                                               std::vector<std::string>* ignored = nullptr);
/// A config.json that Hugging Face reads.
[[nodiscard]] std::string bert_config_to_json(const BertConfig& config);
/// Throws Error{bad_config} at `where` for sizes that cannot be (heads that do not divide the
/// width, a rate of 1).
void validate(const BertConfig& config, const std::string& where);

/// Builds the classifier into an empty builder. Throws Error{bad_config} for a length beyond the
/// position table.
SequenceModel build_bert_classifier(GraphBuilder& builder, const BertConfig& config,
                                    BatchShape shape, const BuildOptions& options);

}  // namespace snug::models
