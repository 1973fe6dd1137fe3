// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE file as they are read, before the vocabulary is known: pairs of texts in one
// block of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace snug::text {

class MergeList {
 public:
  /// False where the pair is none.
  bool add(std::string_view left, std::string_view right);
  /// "left right".
  bool add_line(std::string_view line);
  /// The merges as ids; `prefix` is that of continuing pieces.
  [[nodiscard]] std::vector<BpeMerge> resolve(const TokenizerSpec& spec,
                                              std::string_view prefix) const;

 private:
  std::string texts_;
  std::vector<uint32_t> ends_;  // of each left and each right text
};

}  // namespace snug::text
