// SPDX-License-Identifier: Apache-2.0
// AlbertConfig: validation, config.json in and out.
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "models/albert/albert.h"
#include "models/config_reader.h"
#include "snug/error.h"

namespace snug::models {

void validate(const AlbertConfig& config, const std::string& where) {
  check_encoder(config, config.classifier_dropout_prob, where);
  check_sizes({{"num_hidden_groups", config.num_hidden_groups},
               {"inner_group_num", config.inner_group_num}},
              where);
  check_depth("inner_group_num", {config.inner_group_num}, where);
  check_depth("num_hidden_layers times inner_group_num", {config.inner_layers()}, where);
  if (config.num_hidden_layers < config.num_hidden_groups) {
    throw Error(ErrorCode::bad_config, where,
                std::to_string(config.num_hidden_groups) + " num_hidden_groups are more than " +
                    std::to_string(config.num_hidden_layers) + " num_hidden_layers");
  }
}

AlbertConfig albert_config_from_json(std::string_view json, const std::string& file,
                                     std::vector<std::string>* ignored) {
  ConfigReader reader(json, file);
  reader.require_text("model_type", "albert", "the model is not ALBERT");
  AlbertConfig config;
  read_encoder(reader, config);
  reader.read_int("embedding_size", config.embedding_size, 1);
  reader.read_int("num_hidden_groups", config.num_hidden_groups, 1, kMaxLayers);
  reader.read_int("inner_group_num", config.inner_group_num, 1, kMaxLayers);
  reader.read_number("classifier_dropout_prob", config.classifier_dropout_prob, 1);
  // Left over from the original's own program, whose values changed nothing there.
  reader.expect({"down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"});
  validate(config, file);
  if (ignored != nullptr) *ignored = reader.unknown();
  return config;
}

std::string albert_config_to_json(const AlbertConfig& config) {
  nlohmann::ordered_json json = encoder_json(config, "albert", "Albert");
  json["embedding_size"] = config.embedding_size;
  json["num_hidden_groups"] = config.num_hidden_groups;
  json["inner_group_num"] = config.inner_group_num;
  json["classifier_dropout_prob"] = config.classifier_dropout_prob;
  append_encoder_head(json, config, "Albert");
  return json.dump(2) + "\n";
}

}  // namespace snug::models
