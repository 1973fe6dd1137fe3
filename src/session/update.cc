// SPDX-License-Identifier: Apache-2.0
#include "session/update.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/numbers.h"
#include "compile/value_names.h"

namespace snug::session {
namespace {

constexpr size_t kSkipsUpdate = 3;  // of what `hyper` holds

void feed_loss_scale(Engine& engine, double scale) {
  const auto feed = [&](const char* name, double value) {
    if (engine.has(name)) engine.write(name, static_cast<float>(value));
  };
  feed(compile::kLossScaleName, scale);
  feed(compile::kLossUnscaleName, 1 / scale);
}

// What changes from update to update, for every rate.
void feed_rates(Engine& engine, const UpdateCounts& done, const UpdateRule& rule,
                const StepOptions& options, bool is_skipped) {
  for (size_t i = 0; i < rule.rates.size(); ++i) {
    const std::string name = compile::hyper_name(i);
    if (!engine.has(name)) continue;  // no weight that is trained has this rate
    const double rate = options.learning_rate.value_or(
        rule.rates[i] * optim::rate_factor(rule.schedule, done.schedule));
    const FedValues values = optim::fed_values(rule.optimizer, rate, done.optimizer + 1);
    std::array<float, std::tuple_size_v<FedValues>> hyper{};
    std::ranges::transform(values, hyper.begin(), [](double x) { return static_cast<float>(x); });
    if (is_skipped) hyper[kSkipsUpdate] = 1;
    engine.write<float>(name, 0, hyper);
  }
}

}  // namespace

KeptBuffers::KeptBuffers(const Engine& engine) {
  for (const auto& [name, entry] : engine.plan().residents.entries()) {
    const std::string kept = compile::kKeptBufferPrefix + name;
    if (engine.has(kept)) places_.push_back({.buffer = name, .kept = kept});
  }
}

void KeptBuffers::keep(Engine& engine) const {
  for (const Place& place : places_) engine.copy(place.buffer, place.kept);
}

void KeptBuffers::restore(Engine& engine) const {
  for (const Place& place : places_) engine.copy(place.kept, place.buffer);
}

double run_pieces(Engine& engine, const BatchSource& batch, int64_t drawn, double loss_scale) {
  runtime::Executable& program = engine.train(engine.bucket_of(batch.length()));
  double loss = 0;
  const auto rows = batch.rows();
  feed_loss_scale(engine, loss_scale);
  engine.run_prologue();
  for (int64_t piece = 0; piece < engine.plan().accumulation_steps; ++piece) {
    const int64_t first_slot = piece * engine.plan().micro_batch;
    if (first_slot >= rows) break;  // a partial last batch: the missing pieces have weight zero
    batch.fill(engine, first_slot, drawn);
    engine.run(program);
    loss += engine.scalar(program, compile::kLossName);
  }
  return plain_nan(loss);
}

UpdateResult run_update(Engine& engine, const BatchSource& batch, const UpdateStart& start,
                        const UpdateRule& rule, const KeptBuffers& kept,
                        const StepOptions& options) {
  const bool has_two_passes = engine.plan().has_two_passes;
  const bool is_skipped = has_two_passes || options.is_skipped;
  feed_rates(engine, start.counts, rule, options, is_skipped);
  kept.keep(engine);
  UpdateResult result;
  try {
    result.loss = run_pieces(engine, batch, start.counts.drawn, start.loss_scale);
  } catch (const runtime::FailedBehindUpdate& failure) {
    if (is_skipped) throw Error(failure);  // the weights are as before
    throw;
  }
  if (engine.update() != nullptr) engine.run(*engine.update());
  runtime::Executable& program = engine.train(engine.bucket_of(batch.length()));
  const runtime::Executable& updated = engine.update() != nullptr ? *engine.update() : program;
  result.grad_norm = plain_nan(engine.scalar(updated, compile::kGradNormName));
  const bool is_finite = std::isfinite(result.grad_norm);
  if (!is_finite || has_two_passes) kept.restore(engine);
  if (!has_two_passes || !is_finite || options.is_skipped) return result;
  // The same batch, whose inputs are still there, with what is now known.
  engine.write(compile::kClipFactorName,
               static_cast<float>(engine.scalar(program, compile::kFoundFactorName)));
  feed_rates(engine, start.counts, rule, options, false);
  engine.run(program);
  return result;
}

}  // namespace snug::session
