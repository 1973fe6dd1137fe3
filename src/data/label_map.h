// SPDX-License-Identifier: Apache-2.0
// Which row of a classifier's head stands for which label of the data. Pure: names and ids in, a
// map or a refusal out. A trained head keeps its order and its names; nothing is guessed from the
// number of labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index_vector.h"
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
  /// The order of fresh labels, all of them; empty: LabelFinder's.
  std::vector<std::string> order{};
  /// The key that says it, which the data must follow; empty: a run that is resumed had it.
  std::string order_key{};
};

/// Labels as the data gives them: names, and the id of each where the data says one (else -1).
struct DataLabels {
  std::vector<std::string> names;
  std::vector<int64_t> ids;
};
/// Labels of text: one that is a plain number gives an id.
[[nodiscard]] DataLabels labels_of_text(const Labels& found);

struct LabelMap {
  Labels labels;                 // by id of the model
  IndexVector<int32_t> id_of{};  // by position in DataLabels
  LabelSource source = LabelSource::data;
};

/// The numbers that the names of classes say, in any spelling.
class NumericNames {
 public:
  NumericNames() = default;
  explicit NumericNames(const std::vector<std::string>& names);
  /// Some name is a number as a whole ("1", "1.0", "01"): a number in the data is meant as one of
  /// them, and never as an id.
  [[nodiscard]] bool are_names() const { return !whole_.empty(); }
  /// The one name that is this number; none where there is no such name, or more than one.
  [[nodiscard]] std::optional<int32_t> find(double value) const;
  /// A name in which this number stands ("1 star"), other than that of the id itself.
  [[nodiscard]] std::optional<int32_t> find_within(int64_t id) const;

 private:
  std::vector<std::pair<double, int32_t>> whole_;   // by value
  std::vector<std::pair<double, int32_t>> within_;  // by value
};

/// The class of this name, or whose name is the same number in another spelling.
[[nodiscard]] std::optional<int32_t> find_class(const Labels& model, const NumericNames& numbers,
                                                std::string_view label);

/// By name where every label of the data is one of the model's (1 is 1.0 where that is a name);
/// else by id where every label has an id of the model and no name is a number; else, without a
/// trained head, the data's own labels in their order, or in that of the rule (with `count`, plain
/// numbers below it are ids, and labels that the data lacks are called LABEL_i). Throws
/// Error{bad_data} at `where` with both lists, or with both readings where an id is a number that
/// another name says, and Error{bad_config} at num_labels where the data has more labels than
/// `count`, at the key of the order where that lacks one of the data's.
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
  /// None: not a label of the model. Throws Error{bad_data} at `where` for an id behind names, a
  /// name behind ids, and an id that is a number in another name.
  [[nodiscard]] std::optional<int32_t> find(std::string_view label, const std::string& where);
  /// The same of a label by itself, whatever those before were.
  [[nodiscard]] bool knows(std::string_view label, const std::string& where) const {
    return look(label, where).has_value();
  }
  /// What the labels that were found are.
  [[nodiscard]] LabelSource source() const { return source_.value_or(LabelSource::names); }

 private:
  struct Found {
    int32_t id = 0;
    LabelSource source = LabelSource::names;
  };
  [[nodiscard]] std::optional<Found> look(std::string_view label, const std::string& where) const;

  const Labels* model_;
  NumericNames numbers_;
  bool takes_ids_;
  std::optional<LabelSource> source_;  // of the first label that was found
};

/// "LABEL_0", "LABEL_1", ... or "0", "1", ...: names that say nothing but the id.
[[nodiscard]] bool are_only_ids(const std::vector<std::string>& names);

}  // namespace snug::data
