// SPDX-License-Identifier: Apache-2.0
// Texts as the ids that a model is fed: the tokenizer of a folder as training uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "snug/run.h"

namespace snug {

/// Not for several threads at once.
class TextEncoder {
 public:
  /// `model`: a folder with a tokenizer, or one of its files (docs/files.md). Throws Error{io},
  /// {bad_data} or {unsupported}.
  explicit TextEncoder(const std::string& model);
  ~TextEncoder();
  TextEncoder(const TextEncoder&) = delete;
  TextEncoder& operator=(const TextEncoder&) = delete;

  /// The ids of a text with the tokens around it, uncut. Valid until the next call.
  [[nodiscard]] const std::vector<int32_t>& encode(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The ids of every row of config.test_file (docs/data.md) by the tokenizer of config.model, in
/// file order: text_column, with text_pair_column where that is given, with the tokens around them,
/// uncut. Throws what reading rows throws; a bad row ends it.
void tokenize_rows(const RunConfig& config,
                   const std::function<void(const std::vector<int32_t>& ids)>& sink,
                   const RunOptions& options = {});

}  // namespace snug
