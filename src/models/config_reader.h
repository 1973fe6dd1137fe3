// SPDX-License-Identifier: Apache-2.0
// Reading a model's config.json: typed fields with defaults, and a record of which keys somebody
// asked for, so that the rest can be named.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/json_file.h"
#include "models/model.h"

namespace snug::models {

class ConfigReader {
 public:
  ConfigReader(std::string_view json, const std::string& file)
      : root_(io::parse_json(json, file)) {}

  /// The field where it is there and not null.
  [[nodiscard]] std::optional<io::JsonValue> find(const std::string& key) {
    known_.insert(key);
    return root_.find(key);
  }
  /// The field is there and null, where a missing one means another value.
  [[nodiscard]] bool is_null(const std::string& key) {
    return !find(key) && root_.find_or_null(key).has_value();
  }
  void read(const std::string& key, std::string& value) {
    if (const auto field = find(key)) value = field->as_string();
  }
  void read(const std::string& key, bool& value) {
    if (const auto field = find(key)) value = field->as_bool();
  }
  void read_int(const std::string& key, int64_t& value, int64_t min,
                int64_t max = int64_t{1} << 31) {
    if (const auto field = find(key)) value = field->as_int(min, max);
  }
  /// An id of a token; null, other than a missing field, is none: -1.
  void read_token_id(const std::string& key, int64_t& value);
  /// A list of whole numbers of at least `min`.
  void read_ints(const std::string& key, std::vector<int64_t>& values, int64_t min);
  /// Above every number that a network computes with: larger ones are infinite there.
  static constexpr double kAny = std::numeric_limits<float>::max();
  /// A number in [0, limit).
  void read_number(const std::string& key, double& value, double limit) {
    const auto field = find(key);
    if (!field) return;
    value = field->as_double();
    if (!(value >= 0 && value < limit))
      field->fail("must be at least 0 and below " + io_number(limit));
  }
  /// The same, unset where the field is not there.
  void read_number(const std::string& key, std::optional<double>& value, double limit) {
    if (!find(key)) return;
    read_number(key, value.emplace(), limit);
  }
  /// Fails where a field that asks for other mathematics is there with another value than this.
  void require_text(const std::string& key, std::string_view only, const std::string& reason);
  void require_bool(const std::string& key, bool only, const std::string& reason);
  /// Fails where the file is a decoder's, or of weights that were pruned or quantized.
  void refuse_other_forms();
  /// The name of an activation that Snug has.
  void read_activation(const std::string& key, std::string& name);

  /// num_labels and the names in id2label; the two must agree, and label2id with them.
  void read_labels(int64_t& num_labels, std::vector<std::string>& labels);

  /// The first of `architectures`; empty where it names none.
  std::string read_class();
  /// problem_type, snug_task and what `architectures` says; a row's one number is what regression
  /// has.
  void read_head(Head& head, int64_t num_labels);

  /// These keys are known and change nothing.
  void expect(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  /// The keys that nobody asked for, in the file's order.
  [[nodiscard]] std::vector<std::string> unknown() const;

 private:
  [[nodiscard]] static std::string io_number(double value);
  /// Fails where label2id is not the names' inverse.
  void check_ids_of_labels(const std::vector<std::string>& labels,
                           const std::set<std::string>& names);

  io::JsonValue root_;
  std::set<std::string> known_;
};

/// Throws Error{bad_config} for the first size below 1.
void check_sizes(std::initializer_list<std::pair<const char*, int64_t>> sizes,
                 const std::string& where);
/// Throws Error{bad_config} for a rate of dropout that is none.
void check_rates(std::initializer_list<double> rates, const std::string& where);
/// Throws Error{bad_config} where the layers, or the blocks of all stages, are more than a model
/// may have.
void check_depth(const char* name, const std::vector<int64_t>& layers, const std::string& where);
/// Throws Error{bad_config} for a padding token beyond the vocabulary; -1 is none.
void check_pad_token(int64_t pad_token_id, int64_t vocab_size, const std::string& where);
/// Throws Error{bad_config} where there are names, but not one for each label.
void check_labels(int64_t num_labels, const std::vector<std::string>& labels,
                  const std::string& where);

/// Adds problem_type and snug_task where the head has them.
void append_head(nlohmann::ordered_json& json, const Head& head);
/// Adds id2label and label2id: the names, or "LABEL_0", "LABEL_1", ... where there are none.
void append_labels(nlohmann::ordered_json& json, const std::vector<std::string>& labels,
                   int64_t num_labels);

}  // namespace snug::models
