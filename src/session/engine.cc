// SPDX-License-Identifier: Apache-2.0
#include "session/engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "runtime/canary.h"
#include "snug/error.h"

namespace snug::session {

using runtime::Executable;

namespace {

int64_t memory_bytes(const choose::RunPlan& plan) {
  return plan.residents.total_bytes() + round_up(plan.arena_bytes, kPageBytes);
}

}  // namespace

Engine::Engine(const choose::RunPlan& plan, const Backend& backend,
               std::span<std::byte> callers_memory)
    : plan_(plan),
      queue_(backend.create_queue()),
      block_(queue_->create_block(memory_bytes(plan), callers_memory)),
      kernels_(backend),
      alignment_(backend.alignment()) {
  gaps_ = gaps();
  block_->fill({0, block_->bytes()}, std::byte{0});
  lay_canaries(true);
  const auto bind = [&](const choose::PlannedProgram& program) {
    return std::make_unique<Executable>(program.graph, program.lowered, program.plan,
                                        plan_.residents, kernels_, *queue_, *block_, arena().begin);
  };
  for (const choose::PlannedProgram& program : plan_.train) train_.push_back(bind(program));
  for (const choose::PlannedProgram& program : plan_.eval) eval_.push_back(bind(program));
  if (plan_.prologue) prologue_ = bind(*plan_.prologue);
  if (plan_.update) update_ = bind(*plan_.update);
}

std::span<std::byte> Engine::host(const std::string& name) const {
  const ByteRange of = range(name);
  if (block_->host() == nullptr)
    throw Error(ErrorCode::unsupported, name,
                "its elements are in memory of the backend '" + kernels_.backend().name() +
                    "', which the host cannot look into",
                "read and write copy them");
  return {block_->host() + of.begin, static_cast<size_t>(of.bytes())};
}

double Engine::scalar(const Executable& program, const std::string& name) const {
  float value = 0;
  block_->copy_out(part<float>(program.output(name), 0, 1, name).begin,
                   std::as_writable_bytes(std::span(&value, 1)));
  return static_cast<double>(value);
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
  block_->fill({0, arena().begin}, std::byte{0});
  lay_canaries(false);
}

ByteRange Engine::arena() const {
  const int64_t begin = plan_.residents.total_bytes();
  return {begin, begin + plan_.arena_bytes};
}

std::vector<Engine::Gap> Engine::gaps() const {
  std::vector<Gap> found;
  int64_t at = 0;
  std::string before = "the beginning of the memory";
  for (const auto& [name, entry] : plan_.residents.entries()) {  // in order of their offsets
    if (entry.offset > at) found.push_back({{at, entry.offset}, before});
    at = entry.range().end;
    before = name;
  }
  if (arena().begin > at) found.push_back({{at, arena().begin}, before});
  if (block_->bytes() > arena().end) found.push_back({{arena().end, block_->bytes()}, "the arena"});
  return found;
}

void Engine::lay_canaries(bool in_arena) {
  for (const Gap& gap : gaps_) runtime::lay_canary(*block_, gap.range);
  if (in_arena) runtime::lay_canary(*block_, {arena().begin, block_->bytes()});
}

void Engine::check_memory() {
  for (const Gap& gap : gaps_) {
    const auto changed = runtime::first_changed(*block_, gap.range);
    if (!changed) continue;
    throw Error(
        ErrorCode::internal, "memory",
        "something wrote " + std::to_string(*changed + 1) + " bytes past the end of " + gap.before,
        "please report this with the command; nothing was saved since");
  }
  int64_t end = runtime::written_end(*block_, arena());
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

}  // namespace snug::session
