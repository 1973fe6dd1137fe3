// SPDX-License-Identifier: Apache-2.0
#include "session/update.h"

namespace snug::train {
namespace {

constexpr size_t kSkipsUpdate = 3;  // of what `hyper` holds

double scalar(const Executable& source, const char* name) {
  return static_cast<double>(*reinterpret_cast<const float*>(source.data(name)));
}

}  // namespace

double run_pieces(Engine& engine, const BatchSource& batch, int64_t drawn) {
  Executable& program = engine.train(engine.bucket_of(batch.length()));
  double loss = 0;
  const auto rows = batch.rows();
  engine.run_prologue();
  for (int64_t piece = 0; piece < engine.plan().accumulation_steps; ++piece) {
    const int64_t first_slot = piece * engine.plan().micro_batch;
    if (first_slot >= rows) break;  // a partial last batch: the missing pieces have weight zero
    batch.fill(engine, first_slot, drawn);
    engine.run(program);
    loss += scalar(program, kLossName);
  }
  return loss;
}

UpdateResult run_update(Engine& engine, const BatchSource& batch, const UpdateCounts& done,
                        const UpdateRule& rule, const StepOptions& options) {
  for (size_t i = 0; i < rule.rates.size(); ++i) {
    const std::string name = hyper_name(i);
    if (!engine.has(name)) continue;  // no weight that is trained has this rate
    const double rate = options.learning_rate.value_or(
        rule.rates[i] * optim::rate_factor(rule.schedule, done.schedule));
    const FedValues values = optim::fed_values(rule.optimizer, rate, done.optimizer + 1);
    const std::span<float> hyper = engine.write<float>(name);
    for (size_t k = 0; k < values.size(); ++k) hyper[k] = static_cast<float>(values[k]);
    if (options.is_skipped) hyper[kSkipsUpdate] = 1;
  }
  UpdateResult result{.loss = run_pieces(engine, batch, done.drawn)};
  if (engine.update() != nullptr) engine.run(*engine.update());
  const Executable& updated = engine.update() != nullptr
                                  ? *engine.update()
                                  : engine.train(engine.bucket_of(batch.length()));
  result.grad_norm = scalar(updated, kGradNormName);
  return result;
}

}  // namespace snug::train
