// SPDX-License-Identifier: Apache-2.0
#include "session/engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/mapped_block.h"
#include "base/units.h"
#include "runtime/canary.h"
#include "snug/error.h"

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
      kernels_(backend),
      alignment_(backend.alignment()) {
  gaps_ = gaps();
  memory_.touch();
  lay_canaries(true);
  const auto bind = [&](const PlannedProgram& program) {
    return std::make_unique<Executable>(program.graph, program.lowered, program.plan,
                                        plan_.residents, kernels_, memory_,
                                        plan_.residents.total_bytes());
  };
  for (const PlannedProgram& program : plan_.train) train_.push_back(bind(program));
  for (const PlannedProgram& program : plan_.eval) eval_.push_back(bind(program));
  if (plan_.prologue) prologue_ = bind(*plan_.prologue);
  if (plan_.update) update_ = bind(*plan_.update);
}

void Engine::rehearse_peak() {
  Executable* largest = update_.get();
  const auto consider = [&](const std::unique_ptr<Executable>& program) {
    if (largest == nullptr || program->arena_bytes() > largest->arena_bytes()) {
      largest = program.get();
    }
  };
  if (prologue_) consider(prologue_);
  for (const auto& program : train_) consider(program);
  for (const auto& program : eval_) consider(program);
  if (largest != nullptr) run(*largest);
  check_memory();
  fill_bytes({memory_.data(), static_cast<size_t>(plan_.residents.total_bytes())}, std::byte{0});
  lay_canaries(false);
}

std::vector<Engine::Gap> Engine::gaps() const {
  std::vector<Gap> found;
  int64_t at = 0;
  std::string before = "the beginning of the memory";
  for (const auto& [name, entry] : plan_.residents.entries()) {  // in order of their offsets
    if (entry.offset > at) found.push_back({at, entry.offset, before});
    at = entry.offset + entry.bytes;
    before = name;
  }
  if (plan_.residents.total_bytes() > at)
    found.push_back({at, plan_.residents.total_bytes(), before});
  const int64_t arena_end = plan_.residents.total_bytes() + plan_.arena_bytes;
  if (memory_.bytes() > arena_end) found.push_back({arena_end, memory_.bytes(), "the arena"});
  return found;
}

void Engine::lay_canaries(bool in_arena) {
  for (const Gap& gap : gaps_) lay_canary({memory_.data() + gap.begin, memory_.data() + gap.end});
  if (in_arena)
    lay_canary({memory_.data() + plan_.residents.total_bytes(), memory_.data() + memory_.bytes()});
}

void Engine::check_memory() {
  for (const Gap& gap : gaps_) {
    const auto changed = first_changed({memory_.data() + gap.begin, memory_.data() + gap.end});
    if (!changed) continue;
    throw Error(
        ErrorCode::internal, "memory",
        "something wrote " + std::to_string(*changed + 1) + " bytes past the end of " + gap.before,
        "please report this with the command; nothing was saved since");
  }
  int64_t end = written_end(
      {memory_.data() + plan_.residents.total_bytes(), static_cast<size_t>(plan_.arena_bytes)});
  const auto count_scratch = [&end](const std::unique_ptr<Executable>& program) {
    end = std::max(end, program->given_scratch_end());
  };
  std::for_each(train_.begin(), train_.end(), count_scratch);
  std::for_each(eval_.begin(), eval_.end(), count_scratch);
  if (prologue_) count_scratch(prologue_);
  if (update_) count_scratch(update_);
  measured_arena_bytes_ = std::max(measured_arena_bytes_, round_up(end, alignment_));
}

void Engine::set_poisoning(bool is_on) {
  poisons_ = is_on;
  set_repeating(repeats_);
}

void Engine::set_repeating(bool is_on) {
  repeats_ = is_on;
  const auto set = [this](const std::unique_ptr<Executable>& program) {
    if (program) program->set_repeating(repeats_ || poisons_);
  };
  std::for_each(train_.begin(), train_.end(), set);
  std::for_each(eval_.begin(), eval_.end(), set);
  set(prologue_);
  set(update_);
}

size_t Engine::bucket_of(const Lengths& lengths) const {
  for (size_t i = 0; i < plan_.eval.size(); ++i) {
    if (plan_.eval[i].length.holds(lengths)) return i;
  }
  SNUG_CHECK(false, "no program holds rows of length " + to_string(lengths));
  return 0;
}

}  // namespace snug::train
