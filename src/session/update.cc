// SPDX-License-Identifier: Apache-2.0
#include "session/update.h"

namespace snug::train {

UpdateResult run_update(Engine& engine, const BatchSource& batch, const UpdateCounts& done,
                        const UpdateRule& rule) {
  for (size_t i = 0; i < rule.rates.size(); ++i) {
    const std::string name = hyper_name(i);
    if (!engine.has(name)) continue;  // no weight that is trained has this rate
    const double rate = rule.rates[i] * optim::rate_factor(rule.schedule, done.schedule);
    const FedValues values = optim::fed_values(rule.optimizer, rate, done.optimizer + 1);
    const std::span<float> hyper = engine.values<float>(name);
    for (size_t k = 0; k < values.size(); ++k) hyper[k] = static_cast<float>(values[k]);
  }
  const size_t bucket = engine.bucket_of(batch.length());
  Executable& program = engine.train(bucket);
  UpdateResult result;
  const auto scalar = [](const Executable& source, const char* name) {
    return static_cast<double>(*reinterpret_cast<const float*>(source.data(name)));
  };
  const auto rows = batch.rows();
  for (int64_t piece = 0; piece < engine.plan().accumulation_steps; ++piece) {
    const int64_t first_slot = piece * engine.plan().micro_batch;
    if (first_slot >= rows) break;  // a partial last batch: the missing pieces have weight zero
    batch.fill(engine, first_slot, done.drawn);
    engine.run(program);
    result.loss += scalar(program, "loss");
  }
  if (engine.update() != nullptr) engine.run(*engine.update());
  result.grad_norm = scalar(engine.update() != nullptr ? *engine.update() : program, kGradNormName);
  return result;
}

}  // namespace snug::train
