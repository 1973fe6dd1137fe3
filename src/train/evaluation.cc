// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

#include "data/labels.h"
#include "data/sampler.h"
#include "snug/error.h"
#include "train/metrics.h"

namespace snug::train {

void for_each_row(
    const EvalPass& pass,
    const std::function<void(int64_t row, int32_t label, std::span<const float> logits)>& sink) {
  Engine& engine = *pass.engine;
  const int64_t micro_batch = engine.plan().micro_batch;
  data::EvalSampler sampler(pass.part,
                            [&](std::span<const int64_t> rows, std::span<int32_t> lengths) {
                              pass.feed.rows->read_lengths(rows, lengths);
                            },
                            {.batch_size = micro_batch, .seed = 0, .buckets = pass.buckets});
  data::BatchPlan batch;
  int64_t done = 0;
  while (sampler.next(batch)) {
    if (pass.cancel != nullptr && pass.cancel->load())
      throw Error(ErrorCode::cancelled, "evaluation", "stopped on request");
    feed_micro_batch(engine, pass.feed, batch, 0, 0);
    const size_t bucket = engine.bucket_of(batch.bucket_length);
    Executable& program = engine.eval(bucket);
    engine.run(program);
    const auto* logits = reinterpret_cast<const float*>(program.data("logits"));
    const Graph& graph = engine.plan().eval[bucket].graph;
    const auto classes = static_cast<size_t>(graph.type(graph.find("logits")).shape.back());
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const std::span<const float> row(logits + i * classes, classes);
      sink(batch.rows[i], pass.feed.rows->label(batch.rows[i]), row);
    }
    done += static_cast<int64_t>(batch.rows.size());
    if (pass.on_progress) pass.on_progress(done, pass.part.size());
  }
}

EvalMetrics evaluate_part(const EvalPass& pass, const std::vector<std::string>& labels) {
  ClassificationMetrics metrics(static_cast<int64_t>(labels.size()));
  for_each_row(pass, [&](int64_t, int32_t label, std::span<const float> logits) {
    if (label != data::kIgnoredLabel) metrics.add(logits, label, row_loss(logits, label));
  });
  return metrics.result(labels);
}

}  // namespace snug::train
