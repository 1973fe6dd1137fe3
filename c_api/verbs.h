// SPDX-License-Identifier: Apache-2.0
// The verbs behind snug_call: options in, JSON out. Public headers alone, as the program.
#pragma once

#include <atomic>
#include <string>

#include "options.h"
#include "snug/snug.h"
#include "snug/snug_c.h"

namespace snug::c_api {

/// One call: its options, and the way back to the caller while it runs.
class Call : public Options {
 public:
  Call(const snug_option* options, size_t count, snug_event event, void* context)
      : Options(options, count), event_(event), context_(context) {}

  /// The run configuration: a file or a text, and keys. The caller is told its notices.
  [[nodiscard]] RunConfig config();
  /// Callbacks that tell the caller, the flag that it sets by its answers.
  [[nodiscard]] RunOptions run_options();

  void tell(const char* kind, const std::string& json);
  /// Somebody is told.
  [[nodiscard]] bool is_heard() const { return event_ != nullptr; }
  [[nodiscard]] const std::atomic<bool>* stop() const { return &stop_; }

 private:
  snug_event event_;
  void* context_;
  std::atomic<bool> stop_ = false;
};

/// The verb's result as JSON text. Throws Error.
[[nodiscard]] std::string run_verb(const std::string& verb, Call& call);

/// Ranges in the caller's memory, `count` of each; `offsets` are filled in.
struct PlacementArrays {
  const int64_t* lower = nullptr;
  const int64_t* upper = nullptr;
  const int64_t* size = nullptr;
  int64_t* offsets = nullptr;
  size_t count = 0;
};
/// What solve_placement says of them as JSON text, without the offsets. Throws Error.
[[nodiscard]] std::string place_arrays(const PlacementArrays& arrays, Call& call);

}  // namespace snug::c_api
