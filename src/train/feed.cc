// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include "models/model.h"

namespace snug::train {
namespace {

template <class T>
std::span<T> first_of(const Engine& engine, const char* name, int64_t count) {
  return engine.has(name) ? engine.write<T>(name).first(static_cast<size_t>(count))
                          : std::span<T>{};
}

}  // namespace

Feeder::Feeder(const FeedContext& context) : context_(context) {
  row_.reserve(context.rows->most_values());
}

void Feeder::begin(const data::BatchPlan& batch) {
  batch_ = batch;
  weight_.reset();
}

double Feeder::batch_weight() {
  double weight = 0;
  for (const int64_t row : batch_.rows) {
    context_.rows->read_columns(row, row_);
    weight += (*context_.task->weight)(row_);
  }
  return weight;
}

void Feeder::feed(const Engine& engine, int64_t first_slot, int64_t update) {
  const int64_t rows = engine.plan().micro_batch;
  const int64_t tokens = rows * batch_.bucket_length;
  const std::span<float> pixels = engine.has(models::kPixelValues)
                                      ? engine.write<float>(models::kPixelValues)
                                      : std::span<float>{};
  context_.rows->fill({.rows = batch_.rows,
                       .first_slot = first_slot,
                       .size = rows,
                       .bucket_length = batch_.bucket_length,
                       .pad_id = context_.pad_id},
                      {.input_ids = first_of<int32_t>(engine, models::kInputIds, tokens),
                       .token_type_ids = first_of<int32_t>(engine, models::kTokenTypeIds, tokens),
                       .attention_mask = first_of<uint8_t>(engine, models::kAttentionMask, tokens),
                       .pixel_values = pixels});
  if (engine.has(models::kLabels)) feed_labels(engine, first_slot);
  if (engine.has(models::kInvTotal)) {
    if (!weight_) weight_ = batch_weight();
    // A batch that weighs nothing has no loss and no gradient.
    engine.write<float>(models::kInvTotal)[0] =
        *weight_ > 0 ? 1.0F / static_cast<float>(*weight_) : 0.0F;
  }
  if (engine.has(models::kRng)) {
    const std::span<int64_t> rng = engine.write<int64_t>(models::kRng);
    rng[0] = static_cast<int64_t>(context_.seed);
    rng[1] = update;
    rng[2] = first_slot;
  }
}

void Feeder::feed_labels(const Engine& engine, int64_t first_slot) {
  const auto rows = static_cast<size_t>(engine.plan().micro_batch);
  // The places in memory have the size of the longest bucket's.
  const Graph& graph = engine.plan().train[engine.bucket_of(batch_.bucket_length)].graph;
  const auto type_of = [&graph](const char* name) -> const TensorType& {
    return graph.type(graph.find(name));
  };
  const size_t label_bytes = static_cast<size_t>(byte_count(type_of(models::kLabels))) / rows;
  const size_t row_weights =
      static_cast<size_t>(element_count(type_of(models::kRowWeights))) / rows;
  const std::span<std::byte> labels = engine.write<std::byte>(models::kLabels);
  const std::span<float> weights = engine.write<float>(models::kRowWeights);
  for (size_t i = 0; i < rows; ++i) {
    const size_t slot = static_cast<size_t>(first_slot) + i;
    const bool is_there = slot < batch_.rows.size();
    if (is_there) context_.rows->read_columns(batch_.rows[slot], row_);
    (*context_.task->feed)(is_there ? &row_ : nullptr,
                           {.labels = labels.subspan(i * label_bytes, label_bytes),
                            .weights = weights.subspan(i * row_weights, row_weights)});
  }
}

}  // namespace snug::train
