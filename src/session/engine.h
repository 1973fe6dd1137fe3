// SPDX-License-Identifier: Apache-2.0
// A planned run in memory: one block, all programs bound to it. Feeds and reads values by name;
// knows no files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fit/planned_run.h"
#include "runtime/executable.h"

namespace snug::train {

class Engine {
 public:
  /// Maps the memory (or takes the caller's), touches all of it, creates every kernel and binds
  /// every program.
  Engine(const RunPlan& plan, const Backend& backend, std::span<std::byte> callers_memory = {});

  [[nodiscard]] bool has(const std::string& name) const { return plan_.residents.has(name); }
  /// A resident value's elements, to be read or to be written; T has the size of its element type.
  /// Valid until a program runs: ask again by the name behind that. Nobody else knows where a value
  /// lies.
  template <class T>
  [[nodiscard]] std::span<const T> read(const std::string& name) const {
    return place<const T>(name);
  }
  template <class T>
  [[nodiscard]] std::span<T> write(const std::string& name) const {
    return place<T>(name);
  }

  /// Programs by lengths, in the order of the plan.
  [[nodiscard]] Executable& train(size_t bucket) { return *train_[bucket]; }
  [[nodiscard]] Executable& eval(size_t bucket) { return *eval_[bucket]; }
  /// Makes what all programs read that is made of weights alone. Call it where weights may have
  /// changed since: before the micro-batches of an update, and before evaluation.
  void run_prologue() {
    if (prologue_) run(*prologue_);
  }
  /// Null where the training program updates by itself.
  [[nodiscard]] Executable* update() { return update_.get(); }
  /// The first program that holds rows of these lengths.
  [[nodiscard]] size_t bucket_of(const Lengths& lengths) const;

  /// Runs a program of this engine; with poisoning, every dead byte of the arena is NaN before each
  /// step.
  void run(Executable& program) {
    if (poisons_) {
      program.run_poisoned();
    } else {
      program.run();
    }
  }
  /// Runs the program that needs the whole arena once on zeros, then clears the resident values
  /// again. Call before weights are loaded: the step with the highest peak comes first, however
  /// late its length bucket is drawn.
  void rehearse_peak();
  /// Looks at the memory: takes the arena's measure, and throws Error{internal} where a byte was
  /// written that belongs to nothing: a gap between resident values, or behind the arena.
  void check_memory();
  /// With poisoning, ops of the caller's run twice, too.
  void set_poisoning(bool is_on);
  /// Executable::set_repeating, of every program.
  void set_repeating(bool is_on);

  [[nodiscard]] const RunPlan& plan() const { return plan_; }
  /// The arena's bytes up to the last that was really written before the last check_memory (or
  /// was given as scratch to a kernel that ran, which need not write all of it), in whole
  /// storages (a multiple of the backend's alignment). Without meaning where dead bytes are
  /// poisoned.
  [[nodiscard]] int64_t measured_arena_bytes() const { return measured_arena_bytes_; }

 private:
  template <class T>
  [[nodiscard]] std::span<T> place(const std::string& name) const {
    const ResidentLayout::Entry& entry = plan_.residents.at(name);
    return {reinterpret_cast<T*>(memory_.data() + entry.offset),
            static_cast<size_t>(entry.bytes) / sizeof(T)};
  }
  struct Gap {
    int64_t begin = 0;
    int64_t end = 0;
    std::string before;  // what ends there
  };
  [[nodiscard]] std::vector<Gap> gaps() const;
  void lay_canaries(bool in_arena);

  const RunPlan& plan_;
  Memory memory_;
  KernelCache kernels_;
  std::vector<std::unique_ptr<Executable>> train_;
  std::vector<std::unique_ptr<Executable>> eval_;
  std::unique_ptr<Executable> prologue_;
  std::unique_ptr<Executable> update_;
  std::vector<Gap> gaps_;
  int64_t alignment_;
  int64_t measured_arena_bytes_ = 0;
  bool poisons_ = false;
  bool repeats_ = false;
};

}  // namespace snug::train
