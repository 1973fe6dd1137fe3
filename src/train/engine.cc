// SPDX-License-Identifier: Apache-2.0
#include "train/engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace snug::train {
namespace {

int64_t memory_bytes(const RunPlan& plan) {
  return plan.residents.total_bytes() + round_up(plan.arena_bytes, kPageBytes);
}

}  // namespace

Engine::Engine(const RunPlan& plan, const Backend& backend, std::span<std::byte> callers_memory)
    : plan_(plan),
      memory_(callers_memory.empty() ? Memory(memory_bytes(plan))
                                     : Memory(callers_memory, memory_bytes(plan))),
      kernels_(backend) {
  memory_.touch();
  const auto bind = [&](const PlannedProgram& program) {
    return std::make_unique<Executable>(program.graph, program.lowered, program.plan,
                                        plan_.residents, kernels_, memory_,
                                        plan_.residents.total_bytes());
  };
  for (const PlannedProgram& program : plan_.train) train_.push_back(bind(program));
  for (const PlannedProgram& program : plan_.eval) eval_.push_back(bind(program));
  if (plan_.update) update_ = bind(*plan_.update);
}

void Engine::rehearse_peak() {
  Executable* largest = update_.get();
  const auto consider = [&](const std::unique_ptr<Executable>& program) {
    if (largest == nullptr || program->arena_bytes() > largest->arena_bytes()) {
      largest = program.get();
    }
  };
  for (const auto& program : train_) consider(program);
  for (const auto& program : eval_) consider(program);
  if (largest != nullptr) run(*largest);
  memory_.touch();
}

size_t Engine::bucket_of(int64_t length) const {
  for (size_t i = 0; i < plan_.eval.size(); ++i) {
    if (plan_.eval[i].length >= length) return i;
  }
  SNUG_CHECK(false, "no bucket holds length " + std::to_string(length));
  return 0;
}

int64_t Engine::measured_arena_bytes() const {
  int64_t highest = update_ ? update_->highest_byte() : 0;
  for (const auto& program : train_) highest = std::max(highest, program->highest_byte());
  for (const auto& program : eval_) highest = std::max(highest, program->highest_byte());
  return highest;
}

}  // namespace snug::train
