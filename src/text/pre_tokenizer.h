// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer of a tokenizer.json: steps that cut a text into pieces, in the file's order.
// Pieces go from step to step one by one, so that none is kept but the one at work.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "io/json_file.h"

namespace snug::text {

/// A part of a text, and whether it begins where the text begins.
struct TextPiece {
  std::string_view text;
  bool is_first = false;
};

/// Takes the pieces of a step; a reference to a function object that outlives it.
class PieceSink {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cv_t<F>, PieceSink>) explicit PieceSink(F& take)
      : object_(&take),
        call_([](void* object, const TextPiece& piece) { (*static_cast<F*>(object))(piece); }) {}
  /// Empty pieces are none.
  void operator()(const TextPiece& piece) const {
    if (!piece.text.empty()) call_(object_, piece);
  }

 private:
  void* object_;
  void (*call_)(void*, const TextPiece&);
};

/// Working memory of a step.
struct StepBuffers {
  std::string text, part;
};

class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  /// Cuts one piece. `buffers` are the step's own.
  virtual void split(const TextPiece& piece, StepBuffers& buffers, PieceSink out) const = 0;
  [[nodiscard]] virtual int64_t heap_bytes() const { return 0; }
};

/// Immutable; one object serves any number of threads, each with its own buffers.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<std::unique_ptr<PreTokenizerStep>> steps)
      : steps_(std::move(steps)) {}
  void split(const TextPiece& piece, std::vector<StepBuffers>& buffers, PieceSink out) const {
    if (buffers.size() < steps_.size()) buffers.resize(steps_.size());
    split_from(0, piece, buffers, out);
  }
  [[nodiscard]] int64_t heap_bytes() const;

 private:
  void split_from(size_t step, const TextPiece& piece, std::vector<StepBuffers>& buffers,
                  PieceSink out) const;

  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
};

/// Makes the pre-tokenizer that the value of "pre_tokenizer" says (null: none). Throws
/// Error{unsupported} for what is not understood.
[[nodiscard]] PreTokenizer read_pre_tokenizer(const std::optional<io::JsonValue>& value,
                                              const std::string& where);

}  // namespace snug::text
