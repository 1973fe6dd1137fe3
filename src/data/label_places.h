// SPDX-License-Identifier: Apache-2.0
// Rows that give their labels by places in a list of all labels ([0, 1, 1]): which label a place
// is, and that all rows of a cache say their labels in one form.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/token_cache.h"

namespace snug::data {

class PlacesOfLabels {
 public:
  /// The code of a label by name. Throws RowError.
  using CodeOf = std::function<int32_t(const std::string& name, const std::string& where)>;
  /// `spec` outlives it.
  PlacesOfLabels(const CacheSpec& spec, CodeOf code_of);

  /// Throws RowError for names, ids or places behind another of the three.
  void check_form(std::span<const ColumnDraft> columns, const std::string& where);
  /// The codes of so many places: labels of the model or of the rule's order, else called 0, 1, ...
  /// Every place is a label, also one that no row has. Throws RowError for another number of places
  /// than the model, the order or the rows before have.
  [[nodiscard]] std::span<const int32_t> codes(int64_t places, const std::string& where);

 private:
  void begin(int64_t places, const std::string& where);

  const CacheSpec& spec_;
  CodeOf code_of_;
  std::vector<int32_t> codes_;  // by place; empty: no row has given any
  const char* form_ = nullptr;  // how rows say their labels, for errors; null: none has yet
};

}  // namespace snug::data
