// SPDX-License-Identifier: Apache-2.0
// What a network says of the windows of a text, as one result of the text: of a row the mean of the
// logits, of tokens those of each word from the window that the word belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/columns.h"

namespace snug::train {

class WindowFold {
 public:
  using Sink = std::function<void(const data::RowColumns&, std::span<const float> output)>;

  /// `labels`: numbers of a token's output; 0: the output is the row's.
  WindowFold(size_t window_column, int64_t labels, Sink sink)
      : window_column_(window_column), labels_(labels), sink_(std::move(sink)) {}
  /// Windows of a text come one after the other, its first one first.
  void add(const data::RowColumns& columns, std::span<const float> output);
  /// Behind the last window.
  void finish();

 private:
  size_t window_column_;
  int64_t labels_;
  Sink sink_;
  int64_t windows_ = 0;       // of the text so far; 0: none has come
  data::RowColumns columns_;  // of the text
  std::vector<double> sum_;
  std::vector<float> output_;
};

}  // namespace snug::train
