// SPDX-License-Identifier: Apache-2.0
// Class labels: their names, their ids, and how ids are found from training data. Ids depend on the
// set of names only: numeric order where every label is a number in any spelling ("1.0", "10.0"),
// else bytewise order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/index_vector.h"
#include "base/limits.h"
#include "snug/error.h"

namespace snug::data {

inline constexpr int64_t kMaxLabelBytes = 256;

class Labels {
 public:
  Labels() = default;
  /// Names in id order, e.g. id2label of a config.json.
  [[nodiscard]] static Labels from_names(std::vector<std::string> names);

  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(names_.size()); }
  [[nodiscard]] const std::string& name(int32_t id) const {
    return names_.at(static_cast<size_t>(id));
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// Nothing for a name that several ids have.
  [[nodiscard]] std::optional<int32_t> find(std::string_view name) const;
  /// Whether several ids have the name: published models have classes of one name.
  [[nodiscard]] bool is_repeated(std::string_view name) const;
  bool operator==(const Labels& other) const { return names_ == other.names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> ids_;  // kRepeated: of several
};

/// The names, each that several ids have with its id behind it, "crane (2)": for results.
[[nodiscard]] std::vector<std::string> told_apart(std::vector<std::string> names);

/// "cat, dog, ... (20 in all)"
[[nodiscard]] std::string list_labels(const std::vector<std::string>& names);

/// What a label that is not known is told beside.
struct KnownLabels {
  const Labels& known;
  bool is_trained = false;      // they are a trained model's, else those of the training data
  const std::string& of_files;  // the labels of the files that are read, as a list; may be empty
};
/// The error for a label that training never saw; `where` is "file:line".
[[nodiscard]] Error unseen_label(const std::string& where, std::string_view label,
                                 const KnownLabels& labels);

/// Collects labels in one pass; ids are provisional (order of first sight) until finish().
class LabelFinder {
 public:
  /// Returns the provisional id. Throws Error{bad_data} at `where` for a label longer than
  /// kMaxLabelBytes or for one more than kMaxLabels of them: then label_column names the wrong
  /// column.
  [[nodiscard]] int32_t add(std::string_view label, const std::string& where);

  struct Result {
    Labels labels;
    IndexVector<int32_t> final_id;  // by provisional id
  };
  /// Throws Error{unsupported} where the labels are numbers to regress on (more than 64 different,
  /// some with a fraction).
  [[nodiscard]] Result finish() const;

 private:
  std::map<std::string, int32_t, std::less<>> ids_;
};

/// As LabelFinder orders them. Throws what its finish() does.
[[nodiscard]] std::vector<std::string> in_default_order(const std::vector<std::string>& names);

}  // namespace snug::data
