// SPDX-License-Identifier: Apache-2.0
// Rows that come sorted by length, put back in the order of the file. What waits lies in a file, so
// that memory grows neither with the classes nor with the window.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"

namespace snug::train {

class RowsInOrder {
 public:
  using Sink = std::function<void(int64_t row, std::span<const float> logits)>;

  /// `path` is created and has no name from then on.
  RowsInOrder(const std::string& path, int64_t classes);
  /// Takes a row that was not there yet, then gives every row to the sink that has none missing
  /// before it.
  void add(int64_t row, std::span<const float> logits, const Sink& sink);

 private:
  io::File file_;
  int64_t row_bytes_;
  int64_t base_ = 0;  // the row at the file's beginning
  int64_t next_ = 0;  // the row that the sink gets next
  std::vector<bool> is_there_;
  std::vector<float> logits_;
};

}  // namespace snug::train
