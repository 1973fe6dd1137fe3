// SPDX-License-Identifier: Apache-2.0
#include "train/rows_in_order.h"

#include "base/check.h"

namespace snug::train {

RowsInOrder::RowsInOrder(const std::string& path) : file_(io::File::open_or_create(path)) {
  io::remove_all(path);
  file_.truncate(0);
}

void RowsInOrder::add(int64_t row, std::span<const float> output, const Sink& sink) {
  SNUG_CHECK(row >= next_, "a row that came before");
  const auto slot = [this](int64_t each) { return static_cast<size_t>(each - base_); };
  if (slot(row) >= places_.size()) places_.resize(slot(row) + 1);
  places_[slot(row)] = {.offset = bytes_, .count = static_cast<int64_t>(output.size())};
  file_.write_at(bytes_, output.data(), static_cast<int64_t>(output.size_bytes()));
  bytes_ += static_cast<int64_t>(output.size_bytes());
  for (; slot(next_) < places_.size() && places_[slot(next_)].offset >= 0; ++next_) {
    const Place& place = places_[slot(next_)];
    output_.resize(static_cast<size_t>(place.count));
    file_.read_at(place.offset, reinterpret_cast<std::byte*>(output_.data()),
                  static_cast<int64_t>(sizeof(float)) * place.count);
    sink(next_, output_);
  }
  if (slot(next_) < places_.size()) return;
  base_ = next_;  // nothing waits: the file begins anew
  bytes_ = 0;
  places_.clear();
}

}  // namespace snug::train
