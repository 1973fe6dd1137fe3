// SPDX-License-Identifier: Apache-2.0
// MlpConfig: validation, config.json in and out.
#include <nlohmann/json.hpp>

#include "models/config_reader.h"
#include "models/mlp/mlp.h"
#include "snug/error.h"

namespace snug::models {

void validate(const MlpConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_sizes({{"vocab_size", config.vocab_size}, {"num_labels", config.num_labels}}, where);
  check_depth("hidden_sizes", {std::ssize(config.hidden_sizes)}, where);
  if (config.embedding_size < 0) refuse("embedding_size must not be negative");
  if (config.embedding_size == 0 && config.hidden_sizes.empty())
    refuse("a model without hidden_sizes needs an embedding_size");
  for (int64_t size : config.hidden_sizes) {
    if (size < 1)
      refuse("every size in hidden_sizes must be at least 1, found " + std::to_string(size));
  }
  if (!(config.dropout >= 0 && config.dropout < 1))
    refuse("dropout must be at least 0 and below 1");
  check_pad_token(config.pad_token_id, config.vocab_size, where);
  check_labels(config.num_labels, config.labels, where);
}

MlpConfig mlp_config_from_json(std::string_view json, const std::string& file,
                               std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  reader.require_text("model_type", "mlp", "the model is not an MLP");
  MlpConfig config;
  reader.read_int("vocab_size", config.vocab_size, 1);
  reader.read_int("embedding_size", config.embedding_size, 0);
  reader.read_int("pad_token_id", config.pad_token_id, -1);
  reader.read_number("dropout", config.dropout, 1);
  reader.read_ints("hidden_sizes", config.hidden_sizes, 1);
  reader.read_labels(config.num_labels, config.labels);
  reader.read_head(config.head, config.num_labels);
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string mlp_config_to_json(const MlpConfig& config) {
  nlohmann::ordered_json json = {{"architectures", {"SnugMlpForSequenceClassification"}},
                                 {"model_type", "mlp"},
                                 {"vocab_size", config.vocab_size},
                                 {"embedding_size", config.embedding_size},
                                 {"hidden_sizes", config.hidden_sizes},
                                 {"dropout", config.dropout},
                                 {"pad_token_id", config.pad_token_id}};
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  return json.dump(2) + "\n";
}

}  // namespace snug::models
