// SPDX-License-Identifier: Apache-2.0
// The types of a node's inputs. An optional input that is not given has none.
#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "snug/types.h"

namespace snug {

class InputTypes {
 public:
  using Given = std::optional<TensorType>;

  InputTypes() = default;
  InputTypes(std::initializer_list<Given> types) : types_(types) {}
  explicit InputTypes(std::vector<Given> types) : types_(std::move(types)) {}

  void add(Given type) { types_.push_back(std::move(type)); }
  void reserve(size_t count) { types_.reserve(count); }
  [[nodiscard]] size_t size() const { return types_.size(); }
  [[nodiscard]] bool has(size_t index) const {
    return index < types_.size() && types_[index].has_value();
  }
  /// The type of an input that is given. Asking for another is a bug, and is Error{internal}.
  [[nodiscard]] const TensorType& operator[](size_t index) const;
  /// In order, absent ones among them.
  [[nodiscard]] auto begin() const { return types_.begin(); }
  [[nodiscard]] auto end() const { return types_.end(); }
  /// Without the absent ones.
  [[nodiscard]] std::vector<TensorType> given() const;

  bool operator==(const InputTypes&) const = default;

 private:
  std::vector<Given> types_;
};

}  // namespace snug
