// SPDX-License-Identifier: Apache-2.0
// LstmConfig: validation, config.json in and out.
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "models/config_reader.h"
#include "models/lstm/lstm.h"
#include "snug/error.h"

namespace snug::models {

void validate(const LstmConfig& config, const std::string& where) {
  const auto refuse = [&where](const std::string& message) {
    throw Error(ErrorCode::bad_config, where, message);
  };
  check_sizes({{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_labels", config.num_labels}},
              where);
  check_depth("num_hidden_layers", {config.num_hidden_layers}, where);
  if (config.embedding_size < 0) refuse("embedding_size must not be negative");
  if (!(config.dropout >= 0 && config.dropout < 1))
    refuse("dropout must be at least 0 and below 1");
  check_pad_token(config.pad_token_id, config.vocab_size, where);
  check_labels(config.num_labels, config.labels, where);
}

LstmConfig lstm_config_from_json(std::string_view json, const std::string& file,
                                 std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  reader.require_text("model_type", "lstm", "the model is not an LSTM");
  reader.require_bool("bidirectional", false, "only one direction is supported");
  LstmConfig config;
  reader.read_int("vocab_size", config.vocab_size, 1);
  reader.read_int("embedding_size", config.embedding_size, 0);
  reader.read_int("hidden_size", config.hidden_size, 1);
  reader.read_int("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers);
  reader.read_int("pad_token_id", config.pad_token_id, -1);
  reader.read_number("dropout", config.dropout, 1);
  reader.read_labels(config.num_labels, config.labels);
  reader.read_head(config.head, config.num_labels);
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string lstm_config_to_json(const LstmConfig& config) {
  nlohmann::ordered_json json = {{"architectures", {"SnugLstmForSequenceClassification"}},
                                 {"model_type", "lstm"},
                                 {"vocab_size", config.vocab_size},
                                 {"embedding_size", config.embedding_size},
                                 {"hidden_size", config.hidden_size},
                                 {"num_hidden_layers", config.num_hidden_layers},
                                 {"dropout", config.dropout},
                                 {"pad_token_id", config.pad_token_id}};
  append_head(json, config.head);
  append_labels(json, config.labels, config.num_labels);
  return json.dump(2) + "\n";
}

}  // namespace snug::models
