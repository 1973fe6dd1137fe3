// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

#include <optional>

#include "base/check.h"
#include "base/numbers.h"
#include "data/sampler.h"
#include "models/model.h"
#include "snug/error.h"
#include "train/rows_in_order.h"
#include "train/window_fold.h"

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

void for_each_text(const EvalPass& pass, int64_t labels,
                   const std::function<void(const EvaluatedRow&)>& sink) {
  const data::RowStore& rows = *pass.feed.rows;
  SNUG_CHECK(pass.part.size() == rows.rows(), "texts are whole in a whole file only");
  int64_t text = 0;
  const WindowFold::Sink give = [&](const data::RowColumns& columns,
                                    std::span<const float> output) {
    sink({text++, columns, output});
  };
  const bool is_of_tokens = pass.feed.task->head->kind == models::HeadKind::token;
  std::optional<WindowFold> fold;
  if (const auto column = rows.find_column(data::kWindowColumn))
    fold.emplace(*column, is_of_tokens ? labels : 0, give);
  data::RowColumns columns;
  columns.reserve(rows.most_values());
  RowsInOrder waiting(pass.waiting_file);
  for_each_row(pass, [&](const EvaluatedRow& each) {
    waiting.add(each.row, each.output, [&](int64_t row, std::span<const float> output) {
      rows.read_columns(row, columns);
      fold ? fold->add(columns, output) : give(columns, output);
    });
  });
  if (fold) fold->finish();
}

EvalMetrics evaluate_part(const EvalPass& pass, const tasks::Context& context) {
  const std::unique_ptr<tasks::Meter> meter = (*pass.feed.task->meter)(context, pass.part.size());
  const auto add = [&](const EvaluatedRow& each) { meter->add(each.columns, each.output); };
  if (pass.feed.rows->find_column(data::kWindowColumn)) {
    for_each_text(pass, static_cast<int64_t>(context.labels.size()), add);
  } else {
    for_each_row(pass, add);
  }
  EvalMetrics metrics = meter->result();
  metrics.loss = plain_nan(metrics.loss);
  return metrics;
}

}  // namespace snug::train
