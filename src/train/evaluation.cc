// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

#include "data/sampler.h"
#include "models/model.h"
#include "snug/error.h"

namespace snug::train {

void for_each_row(const EvalPass& pass, const std::function<void(const EvaluatedRow&)>& sink) {
  Engine& engine = *pass.engine;
  const int64_t micro_batch = engine.plan().micro_batch;
  data::EvalSampler sampler(pass.part,
                            [&](std::span<const int64_t> rows, std::span<int32_t> lengths) {
                              pass.feed.rows->read_lengths(rows, lengths);
                            },
                            {.batch_size = micro_batch, .seed = 0, .buckets = pass.buckets});
  Feeder feeder(pass.feed);
  data::RowColumns columns;
  columns.reserve(pass.feed.rows->most_values());
  data::BatchPlan batch;
  int64_t done = 0;
  engine.run_prologue();
  while (sampler.next(batch)) {
    if (pass.cancel != nullptr && pass.cancel->load())
      throw Error(ErrorCode::cancelled, "evaluation", "stopped on request");
    feeder.begin(batch);
    feeder.feed(engine, 0, 0);
    const size_t bucket = engine.bucket_of(batch.bucket_length);
    Executable& program = engine.eval(bucket);
    engine.run(program);
    const auto* logits = reinterpret_cast<const float*>(program.data(models::kLogits));
    const Graph& graph = engine.plan().eval[bucket].graph;
    const auto of_row =
        static_cast<size_t>(element_count(graph.type(graph.find(models::kLogits))) / micro_batch);
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      pass.feed.rows->read_columns(batch.rows[i], columns);
      sink({batch.rows[i], columns, {logits + i * of_row, of_row}});
    }
    done += static_cast<int64_t>(batch.rows.size());
    if (pass.on_progress) pass.on_progress(done, pass.part.size());
  }
}

EvalMetrics evaluate_part(const EvalPass& pass, const tasks::Context& context) {
  const std::unique_ptr<tasks::Meter> meter = (*pass.feed.task->meter)(context, pass.part.size());
  for_each_row(pass, [&](const EvaluatedRow& each) { meter->add(each.columns, each.output); });
  return meter->result();
}

}  // namespace snug::train
