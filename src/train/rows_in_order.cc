// SPDX-License-Identifier: Apache-2.0
#include "train/rows_in_order.h"

#include "base/check.h"

namespace snug::train {

RowsInOrder::RowsInOrder(const std::string& path, int64_t classes)
    : row_bytes_(classes * static_cast<int64_t>(sizeof(float))),
      logits_(static_cast<size_t>(classes)) {
  file_ = io::File::open_or_create(path);
  io::remove_all(path);
  file_.truncate(0);
}

void RowsInOrder::add(int64_t row, std::span<const float> logits, const Sink& sink) {
  SNUG_CHECK(row >= next_ && logits.size() == logits_.size(), "a row that came before");
  const auto slot = [this](int64_t each) { return static_cast<size_t>(each - base_); };
  if (slot(row) >= is_there_.size()) is_there_.resize(slot(row) + 1);
  is_there_[slot(row)] = true;
  file_.write_at((row - base_) * row_bytes_, logits.data(), row_bytes_);
  for (; slot(next_) < is_there_.size() && is_there_[slot(next_)]; ++next_) {
    file_.read_at((next_ - base_) * row_bytes_, reinterpret_cast<std::byte*>(logits_.data()),
                  row_bytes_);
    sink(next_, logits_);
  }
  if (slot(next_) < is_there_.size()) return;
  base_ = next_;  // nothing waits: the file begins anew
  is_there_.clear();
}

}  // namespace snug::train
