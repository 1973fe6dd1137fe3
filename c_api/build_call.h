// SPDX-License-Identifier: Apache-2.0
// One call of a network's function: operands and attributes as a C++ function wants them.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "builder.h"
#include "snug/attrs.h"
#include "snug/shape.h"

namespace snug::c_api {

/// Every reader throws Error{invalid_graph} by the name of what it misses.
class BuildCall {
 public:
  BuildCall(snug_builder& builder, const std::string& name, const std::vector<Tensor>& operands,
            const Json& attributes);

  [[nodiscard]] NetworkBuilder& b() const { return builder_.b; }
  [[nodiscard]] snug_builder& builder() const { return builder_; }

  /// The next operand.
  [[nodiscard]] Tensor x();
  /// The next one, none where there are no more.
  [[nodiscard]] Tensor optional_x();
  /// All that are left.
  [[nodiscard]] std::vector<Tensor> all_x();

  [[nodiscard]] const Json& json(const char* name);
  [[nodiscard]] bool has(const char* name) const { return attributes_.contains(name); }
  [[nodiscard]] int64_t integer(const char* name);
  [[nodiscard]] int64_t integer(const char* name, int64_t otherwise);
  [[nodiscard]] double number(const char* name);
  [[nodiscard]] double number(const char* name, double otherwise);
  [[nodiscard]] bool flag(const char* name, bool otherwise);
  [[nodiscard]] std::string text(const char* name);
  [[nodiscard]] std::string text(const char* name, const std::string& otherwise);
  [[nodiscard]] std::vector<int64_t> integers(const char* name);
  [[nodiscard]] DType dtype(const char* name, DType otherwise);
  [[nodiscard]] Attrs attrs(const char* name);
  [[nodiscard]] RowShape row_shape(const char* name);
  [[nodiscard]] InitRule init(const char* name);

  [[nodiscard]] Json put(const Tensor& tensor) { return put(std::vector<Tensor>{tensor}); }
  [[nodiscard]] Json put(const std::vector<Tensor>& tensors);

  /// Throws where an operand or an attribute was given that nobody has asked for.
  void check_used() const;
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const;

 private:
  template <class Value>
  [[nodiscard]] Value read(const char* name, bool (Json::*is_one)() const noexcept,
                           const char* kind);
  snug_builder& builder_;
  const std::string& name_;
  const std::vector<Tensor>& operands_;
  size_t next_ = 0;
  const Json& attributes_;
  std::set<std::string> asked_;
};

[[nodiscard]] AttrValue attribute_of(const std::string& where, const std::string& name,
                                     const Json& value);

}  // namespace snug::c_api
