// SPDX-License-Identifier: Apache-2.0
// Rows that come sorted by length, put back in the order of the file. What waits lies in a file, so
// that memory grows neither with what the network says of a row nor with the window.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"

namespace snug::train {

class RowsInOrder {
 public:
  using Sink = std::function<void(int64_t row, std::span<const float> output)>;

  /// `path` is created and has no name from then on.
  explicit RowsInOrder(const std::string& path);
  /// Takes a row that was not there yet, then gives every row to the sink that has none missing
  /// before it.
  void add(int64_t row, std::span<const float> output, const Sink& sink);

 private:
  struct Place {
    int64_t offset = -1;  // in the file; -1: the row is not there yet
    int64_t count = 0;
  };

  io::File file_;
  int64_t bytes_ = 0;          // of the file that are in use
  int64_t base_ = 0;           // the first row of `places_`
  int64_t next_ = 0;           // the row that the sink gets next
  std::vector<Place> places_;  // by row
  std::vector<float> output_;
};

}  // namespace snug::train
