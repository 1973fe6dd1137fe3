// SPDX-License-Identifier: Apache-2.0
// Which row of a classifier's head stands for which label of the data. Pure: names and ids in, a
// map or a refusal out. A trained head keeps its order and its names; nothing is guessed from the
// number of labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_vector.h"
#include "data/labels.h"

namespace snug::data {

/// Where the order of the labels comes from.
enum class LabelSource : uint8_t {
  data,   // the data's own labels
  names,  // the model's: the data gives their names
  ids     // the model's: the data gives their ids
};

/// What is known of the labels before the data is read.
struct LabelRule {
  std::vector<std::string> model{};  // names by id; empty: the model has none
  bool is_trained = false;           // they belong to a trained head: the data must match them
  int64_t count = 0;                 // labels asked for; 0: as many as the data has
};

/// Labels as the data gives them: names, and the id of each where the data says one (else -1).
struct DataLabels {
  std::vector<std::string> names;
  std::vector<int64_t> ids;
};
/// Labels of text: one that is a plain number gives an id.
[[nodiscard]] DataLabels labels_of_text(const Labels& found);

struct LabelMap {
  Labels labels;              // by id of the model
  IdVector<int32_t> id_of{};  // by position in DataLabels
  LabelSource source = LabelSource::data;
};

/// By name where every label of the data is one of the model's; else by id where every label has an
/// id of the model and is no name of something else; else, without a trained head, the data's own
/// labels in their order (with `count`, plain numbers below it are ids, and labels that the data
/// lacks are called LABEL_i). Throws Error{bad_data} at `where` with both lists, and
/// Error{bad_config} at num_labels where the data has more labels than `count`.
[[nodiscard]] LabelMap map_labels(const LabelRule& rule, const DataLabels& data,
                                  const std::string& where);

/// The error for rows none of whose labels is known, with both lists. `is_trained`: those known are
/// a trained model's, else those of the training data.
[[nodiscard]] Error unlike_labels(const std::string& where, const Labels& data, const Labels& known,
                                  bool is_trained);

/// The model's labels for rows that come one by one: names or ids, but one file gives one of the
/// two.
class LabelLookup {
 public:
  explicit LabelLookup(const Labels& model);
  /// None: not a label of the model. Throws Error{bad_data} at `where` for an id behind names, or a
  /// name behind ids.
  [[nodiscard]] std::optional<int32_t> find(std::string_view label, const std::string& where);
  /// What the labels that were found are.
  [[nodiscard]] LabelSource source() const { return source_.value_or(LabelSource::names); }

 private:
  const Labels* model_;
  bool takes_ids_;
  std::optional<LabelSource> source_;  // of the first label that was found
};

/// "LABEL_0", "LABEL_1", ... or "0", "1", ...: names that say nothing but the id.
[[nodiscard]] bool are_only_ids(const std::vector<std::string>& names);
/// "cat, dog, ... (20 in all)"
[[nodiscard]] std::string list_labels(const std::vector<std::string>& names);

}  // namespace snug::data
