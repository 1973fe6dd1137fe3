// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include "models/model.h"

namespace snug::train {

BatchRows::BatchRows(const FeedContext& context) : context_(context) {
  row_.reserve(context.rows->most_values());
}

void BatchRows::fill_all(std::span<const RowSlot> slots) const {
  if (slots.empty()) return;
  data::BatchBuffers buffers;
  std::span<std::byte> labels;
  std::span<float> weights;
  for (const RowSlot& slot : slots) {
    if (slot.input == models::kInputIds) buffers.input_ids = slot.values<int32_t>();
    if (slot.input == models::kTokenTypeIds) buffers.token_type_ids = slot.values<int32_t>();
    if (slot.input == models::kAttentionMask) buffers.attention_mask = slot.values<uint8_t>();
    if (slot.input == models::kPixelValues) buffers.pixel_values = slot.values<float>();
    if (slot.input == models::kLabels) labels = slot.bytes;
    if (slot.input == models::kRowWeights) weights = slot.values<float>();
  }
  const auto first = static_cast<size_t>(slots.front().first_row);
  const auto rows = static_cast<size_t>(slots.front().rows);
  context_.rows->fill({.rows = batch_.rows,
                       .first_slot = slots.front().first_row,
                       .size = slots.front().rows,
                       .bucket_length = batch_.bucket_length,
                       .pad_id = context_.pad_id},
                      buffers);
  if (labels.empty() || weights.empty()) return;  // evaluation is fed neither
  const size_t label_bytes = labels.size() / rows;
  const size_t row_weights = weights.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    context_.rows->read_columns(batch_.rows[first + i], row_);
    (*context_.task->feed)(row_, {.labels = labels.subspan(i * label_bytes, label_bytes),
                                  .weights = weights.subspan(i * row_weights, row_weights)});
  }
}

std::optional<double> BatchRows::total_weight(const std::string& input) const {
  if (input != models::kRowWeights && input != models::kLabels) return std::nullopt;
  double weight = 0;
  for (const int64_t row : batch_.rows) {
    context_.rows->read_columns(row, row_);
    weight += (*context_.task->weight)(row_);
  }
  return weight;
}

}  // namespace snug::train
