// SPDX-License-Identifier: Apache-2.0
// What becomes of the matches and of the text between them where a pre-tokenizer cuts.
#pragma once

#include <cstdint>

#include "text/json_fields.h"
#include "text/pre_tokenizer.h"

namespace snug::text {

enum class SplitBehavior : uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous
};

[[nodiscard]] inline SplitBehavior read_behavior(const JsonFields& fields) {
  const std::string name = fields.required_string("behavior");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  fields.fail("behavior '" + name + "' is not supported");
}

/// Takes the parts of a piece in order, matches and others, and hands on what the behavior makes of
/// them.
class BehaviorSplitter {
 public:
  BehaviorSplitter(const TextPiece& piece, SplitBehavior behavior, PieceSink out)
      : piece_(piece), behavior_(behavior), out_(out) {}

  void take(size_t begin, size_t end, bool is_match) {
    if (behavior_ == SplitBehavior::isolated) return emit(begin, end);
    if (behavior_ == SplitBehavior::removed) {
      if (!is_match) emit(begin, end);
      return;
    }
    if (joins(is_match)) {
      held_.end = end;
      held_.is_match = is_match;
      return;
    }
    finish();
    held_ = {begin, end, is_match};
    has_held_ = true;
  }
  void finish() {
    if (has_held_) emit(held_.begin, held_.end);
    has_held_ = false;
  }

 private:
  struct Held {
    size_t begin = 0, end = 0;
    bool is_match = false;  // the last part of it
  };
  [[nodiscard]] bool joins(bool is_match) const {
    if (!has_held_) return false;
    switch (behavior_) {
      case SplitBehavior::contiguous:
        return held_.is_match == is_match;
      case SplitBehavior::merged_with_previous:
        return is_match && !held_.is_match;
      default:
        return held_.is_match && !is_match;
    }
  }
  void emit(size_t begin, size_t end) const {
    out_({piece_.text.substr(begin, end - begin), piece_.is_first && begin == 0});
  }

  const TextPiece& piece_;
  SplitBehavior behavior_;
  PieceSink out_;
  Held held_;
  bool has_held_ = false;
};

}  // namespace snug::text
