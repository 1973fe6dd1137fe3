// SPDX-License-Identifier: Apache-2.0
// A planned run in memory: one block of its backend, all programs bound to it. Feeds and reads
// values by name, and nobody else knows where a value lies; knows no files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "choose/run_plan.h"
#include "runtime/executable.h"

namespace snug::session {

class Engine {
 public:
  /// Takes the memory (or the caller's), touches all of it, creates every kernel and binds every
  /// program.
  Engine(const choose::RunPlan& plan, const Backend& backend,
         std::span<std::byte> callers_memory = {});

  [[nodiscard]] bool has(const std::string& name) const { return plan_.residents.has(name); }

  // Elements of resident values, by name: T has the size of their element type. What a program is
  // fed and what it made are copied, on every backend.
  template <class T>
  void read(const std::string& name, int64_t first, std::span<T> to) const {
    block_->copy_out(place<T>(name, first, std::ssize(to)).begin, std::as_writable_bytes(to));
  }
  template <class T>
  void write(const std::string& name, int64_t first, std::span<const T> from) {
    block_->copy_in(place<T>(name, first, std::ssize(from)).begin, std::as_bytes(from));
  }
  template <class T>
  void write(const std::string& name, T first) {
    write<T>(name, 0, std::span(&first, 1));
  }
  /// Every byte of it.
  void fill(const std::string& name, std::byte value) { block_->fill(range(name), value); }
  void copy(const std::string& from, const std::string& to) {
    block_->copy_within(range(from), range(to).begin);
  }
  /// `count` elements to be read, copied to `buffer` where they cannot be read where they lie.
  /// Valid until a program runs.
  template <class T>
  [[nodiscard]] std::span<const T> values(const std::string& name, int64_t first, int64_t count,
                                          std::vector<std::byte>& buffer) const {
    return as<const T>(bytes_of(*block_, place<T>(name, first, count), buffer));
  }
  /// Calls use(at, values) for `count` elements from `first` in order, at = 0 being the first, as
  /// many at once as can be read.
  template <class T, class Use>
  void for_parts(const std::string& name, int64_t first, int64_t count, Use use) const {
    snug::for_parts(*block_, place<T>(name, first, count), sizeof(T), [&](int64_t at, auto bytes) {
      use(at / int64_t{sizeof(T)}, as<const T>(bytes));
    });
  }
  /// The same for all elements.
  template <class T, class Use>
  void for_parts(const std::string& name, Use use) const {
    for_parts<T>(name, 0, range(name).bytes() / int64_t{sizeof(T)}, use);
  }
  /// Calls fill(at, values) in the same way, which writes all of `values`.
  template <class T, class Fill>
  void fill_parts(const std::string& name, int64_t first, int64_t count, Fill fill) {
    snug::fill_parts(*block_, place<T>(name, first, count), sizeof(T),
                     [&](int64_t at, auto bytes) { fill(at / int64_t{sizeof(T)}, as<T>(bytes)); });
  }
  template <class T, class Fill>
  void fill_parts(const std::string& name, Fill fill) {
    fill_parts<T>(name, 0, range(name).bytes() / int64_t{sizeof(T)}, fill);
  }
  /// Memory of the host to be filled with what commit() brings to the value (MemoryBlock::stage).
  template <class T>
  [[nodiscard]] std::span<T> stage(const std::string& name) {
    return as<T>(block_->stage(range(name)));
  }
  /// The value's first bytes, as they were staged.
  void commit(const std::string& name, int64_t bytes) {
    block_->commit(place<std::byte>(name, 0, bytes));
  }
  /// The elements themselves. Valid until a program runs. Throws Error{unsupported} where the host
  /// has no access to the backend's memory: for callers who ask for no copy, and for nobody else.
  template <class T>
  [[nodiscard]] std::span<const T> view(const std::string& name) const {
    return as<const T>(host(name));
  }
  template <class T>
  [[nodiscard]] std::span<T> edit(const std::string& name) {
    return as<T>(host(name));
  }

  /// Programs by lengths, in the order of the plan.
  [[nodiscard]] runtime::Executable& train(size_t bucket) { return *train_[bucket]; }
  [[nodiscard]] runtime::Executable& eval(size_t bucket) { return *eval_[bucket]; }
  /// Makes what all programs read that is made of weights only. Call it where weights may have
  /// changed since: before the micro-batches of an update, and before evaluation.
  void run_prologue() {
    if (prologue_) run(*prologue_);
  }
  /// Null where the training program updates by itself.
  [[nodiscard]] runtime::Executable* update() { return update_.get(); }
  /// The first program that holds rows of these lengths.
  [[nodiscard]] size_t bucket_of(const Lengths& lengths) const;

  /// Runs a program of this engine; with poisoning, every dead byte of the arena is NaN before each
  /// step.
  void run(runtime::Executable& program) {
    if (poisons_) {
      program.run_poisoned();
    } else {
      program.run();
    }
  }
  /// What a program's output holds: all of it, or its first elements; as values().
  template <class T>
  [[nodiscard]] std::span<const T> output(const runtime::Executable& program,
                                          const std::string& name, int64_t count,
                                          std::vector<std::byte>& buffer) const {
    const ByteRange all = program.output(name);
    return as<const T>(bytes_of(*block_, part<T>(all, 0, count, name), buffer));
  }
  /// The value of an output that is one f32.
  [[nodiscard]] double scalar(const runtime::Executable& program, const std::string& name) const;

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

  [[nodiscard]] const choose::RunPlan& plan() const { return plan_; }
  /// The arena's bytes up to the last that was really written before the last check_memory (or
  /// was given as scratch to a kernel that ran, which need not write all of it), in whole
  /// storages (a multiple of the backend's alignment). Without meaning where dead bytes are
  /// poisoned.
  [[nodiscard]] int64_t measured_arena_bytes() const { return measured_arena_bytes_; }

 private:
  template <class T>
  [[nodiscard]] static std::span<T> as(auto bytes) {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  [[nodiscard]] ByteRange range(const std::string& name) const {
    return plan_.residents.at(name).range();
  }
  /// The range of `count` elements from `first`, which must be there.
  template <class T>
  [[nodiscard]] static ByteRange part(ByteRange all, int64_t first, int64_t count,
                                      const std::string& name) {
    const int64_t begin = all.begin + first * int64_t{sizeof(T)};
    const int64_t end = begin + count * int64_t{sizeof(T)};
    SNUG_CHECK(first >= 0 && count >= 0 && end <= all.end, name);
    return {begin, end};
  }
  template <class T>
  [[nodiscard]] ByteRange place(const std::string& name, int64_t first, int64_t count) const {
    return part<T>(range(name), first, count, name);
  }
  [[nodiscard]] std::span<std::byte> host(const std::string& name) const;
  struct Gap {
    ByteRange range;
    std::string before;  // what ends there
  };
  [[nodiscard]] ByteRange arena() const;
  [[nodiscard]] std::vector<Gap> gaps() const;
  void lay_canaries(bool in_arena);

  const choose::RunPlan& plan_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<MemoryBlock> block_;
  runtime::KernelCache kernels_;
  std::vector<std::unique_ptr<runtime::Executable>> train_;
  std::vector<std::unique_ptr<runtime::Executable>> eval_;
  std::unique_ptr<runtime::Executable> prologue_;
  std::unique_ptr<runtime::Executable> update_;
  std::vector<Gap> gaps_;
  int64_t alignment_;
  int64_t measured_arena_bytes_ = 0;
  bool poisons_ = false;
  bool repeats_ = false;
};

}  // namespace snug::session
