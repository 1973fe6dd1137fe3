// SPDX-License-Identifier: Apache-2.0
#include "train/window_fold.h"

#include "base/check.h"

namespace snug::train {

void WindowFold::add(const data::RowColumns& columns, std::span<const float> output) {
  const bool is_first = columns.integers(window_column_).front() == 0;
  if (is_first) {
    finish();
    columns_ = columns;
    sum_.assign(labels_ == 0 ? output.size() : 0, 0.0);
    output_.clear();
  }
  SNUG_CHECK(is_first == (windows_ == 0), "a window without its text's first");
  ++windows_;
  if (labels_ == 0) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(output[i]);
    return;
  }
  const auto tokens_before = static_cast<int32_t>(static_cast<int64_t>(output_.size()) / labels_);
  const std::span<const int32_t> own = columns.integers(data::kWordColumn);
  const std::span<int32_t> words = columns_.edit_integers(data::kWordColumn);
  for (size_t word = 0; word < own.size(); ++word) {
    if (own[word] >= 0) words[word] = own[word] + tokens_before;
  }
  output_.insert(output_.end(), output.begin(), output.end());
}

void WindowFold::finish() {
  if (windows_ == 0) return;
  for (const double sum : sum_)
    output_.push_back(static_cast<float>(sum / static_cast<double>(windows_)));
  windows_ = 0;
  sink_(columns_, output_);
}

}  // namespace snug::train
