// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

#include "data/sampler.h"
#include "models/model.h"
#include "snug/error.h"

namespace snug::train {

void for_each_row(const EvalPass& pass, const std::function<void(const EvaluatedRow&)>& sink) {
  Session& session = *pass.session;
  data::EvalSampler sampler(
      pass.part,
      [&](std::span<const int64_t> rows, std::span<int32_t> lengths) {
        pass.feed.rows->read_lengths(rows, lengths);
      },
      {.batch_size = session.plan().micro_batch, .seed = 0, .buckets = pass.buckets});
  BatchRows rows(pass.feed);
  data::RowColumns columns;
  columns.reserve(pass.feed.rows->most_values());
  data::BatchPlan batch;
  const OutputSink give = [&](const OutputRows& found) {
    const std::span<const float> logits = found.values.at(models::kLogits);
    const size_t of_row = logits.size() / batch.rows.size();
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      pass.feed.rows->read_columns(batch.rows[i], columns);
      sink({batch.rows[i], columns, logits.subspan(i * of_row, of_row)});
    }
  };
  int64_t done = 0;
  while (sampler.next(batch)) {
    if (pass.cancel != nullptr && pass.cancel->load())
      throw Error(ErrorCode::cancelled, "evaluation", "stopped on request");
    rows.begin(batch);
    session.predict(rows, give);
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
