// SPDX-License-Identifier: Apache-2.0
// One way to run a loop on several threads. It shares OpenMP's workers with oneDNN, so the two
// never compete for cores. Static partition: which thread does which part depends on (n, grain,
// threads) alone. Allocates nothing.
#pragma once

#include <cstdint>
#include <type_traits>

namespace snug {

/// A non-owning reference to a callable void(int64_t begin, int64_t end).
class RangeBody {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, RangeBody>)
      RangeBody(F&& body)  // NOLINT(google-explicit-constructor): call sites pass lambdas
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, int64_t begin, int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int64_t);
};

/// Runs body over [0, n) in at most `threads` contiguous parts, each a multiple of `grain` long
/// except the last.
void parallel_for(int threads, int64_t n, int64_t grain, RangeBody body) noexcept;

/// Number of parts that parallel_for would use, for per-part scratch.
[[nodiscard]] int parallel_parts(int threads, int64_t n, int64_t grain);

/// As parallel_for, and tells the body its part: body(part, begin, end).
class PartBody {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, PartBody>)
      PartBody(F&& body)  // NOLINT(google-explicit-constructor): call sites pass lambdas
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, int part, int64_t begin, int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(part, begin, end);
        }) {}
  void operator()(int part, int64_t begin, int64_t end) const { call_(object_, part, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, int, int64_t, int64_t);
};
void parallel_parts_for(int threads, int64_t n, int64_t grain, PartBody body) noexcept;

/// False where loops in so many threads would never end: in a process that was forked from one
/// whose loops had workers.
[[nodiscard]] bool has_threads(int threads);
/// Throws Error{unsupported} there, and where the system gives fewer. Before a call's first loop.
void check_threads(int threads);

/// Sets the number of workers that oneDNN's primitives use when called from this thread.
void set_library_threads(int threads);
/// Cores this process may run on.
[[nodiscard]] int available_threads();

}  // namespace snug
