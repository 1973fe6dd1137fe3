// SPDX-License-Identifier: Apache-2.0
// The element types that a kernel is written for: those of its inputs, an arrow, those of its
// outputs.
//
//   f32 i32 -> f32        a table and ids give rows
//   f32|i32 f32... -> *   either; all inputs that follow alike; any type
//   weight -> f32         what weights are stored as: f32, bf16 or bf16x8
//
// Element types are how operands are stored. What a kernel computes in is its own affair: one that
// takes 16-bit floats computes in f32 and converts rows as it loads and stores them
// (backend/cpu/rows-inl.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace snug {

class TypeSignature {
 public:
  /// Throws Error{internal} for text that is no signature.
  explicit TypeSignature(std::string_view text);
  /// What the node has that the signature does not take ("ids is f32, not i32"); empty where it
  /// takes all. An absent input is not asked for.
  [[nodiscard]] std::string mismatch(const NodeSpec& spec) const;

 private:
  using Types = std::vector<DType>;  // empty: any
  std::vector<Types> inputs_;
  std::vector<Types> outputs_;
  bool is_repeated_ = false;  // the last input
};

}  // namespace snug
