// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include "models/model.h"

namespace snug::train {
namespace {

template <class T>
std::span<T> first_of(const Engine& engine, const char* name, int64_t count) {
  return engine.has(name) ? engine.values<T>(name).first(static_cast<size_t>(count))
                          : std::span<T>{};
}

}  // namespace

void feed_micro_batch(const Engine& engine, const FeedContext& context,
                      const data::BatchPlan& batch, int64_t first_slot, int64_t update) {
  const int64_t rows = engine.plan().micro_batch;
  const int64_t tokens = rows * batch.bucket_length;
  const std::span<float> pixels = engine.has(models::kPixelValues)
                                      ? engine.values<float>(models::kPixelValues)
                                      : std::span<float>{};
  context.rows->fill({.rows = batch.rows,
                      .first_slot = first_slot,
                      .size = rows,
                      .bucket_length = batch.bucket_length,
                      .pad_id = context.pad_id},
                     {.input_ids = first_of<int32_t>(engine, models::kInputIds, tokens),
                      .token_type_ids = first_of<int32_t>(engine, models::kTokenTypeIds, tokens),
                      .attention_mask = first_of<uint8_t>(engine, models::kAttentionMask, tokens),
                      .pixel_values = pixels,
                      .labels = first_of<int32_t>(engine, models::kLabels, rows),
                      .row_weights = first_of<float>(engine, models::kRowWeights, rows)});
  if (engine.has(models::kInvTotal)) {
    // Every row of a training batch is labelled with weight one, so the global denominator is the
    // number of rows.
    engine.values<float>(models::kInvTotal)[0] = 1.0F / static_cast<float>(batch.rows.size());
  }
  if (engine.has(models::kRng)) {
    const std::span<int64_t> rng = engine.values<int64_t>(models::kRng);
    rng[0] = static_cast<int64_t>(context.seed);
    rng[1] = update;
    rng[2] = first_slot;
  }
}

}  // namespace snug::train
