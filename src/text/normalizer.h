// SPDX-License-Identifier: Apache-2.0
// The normalizer of a tokenizer.json: steps from text to text, in the file's order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_file.h"

namespace snug::text {

/// Working memory of a normalizer.
struct NormalizeScratch {
  std::string one, other;
  std::vector<std::pair<uint8_t, char32_t>> marks;
};

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  /// Appends the normalised text to `out`, which is empty. True where what the text begins with is
  /// gone.
  virtual bool apply(std::string_view text, NormalizeScratch& scratch, std::string& out) const = 0;
  [[nodiscard]] virtual int64_t heap_bytes() const { return 0; }
};

/// Immutable; one object serves any number of threads, each with its own scratch.
class Normalizer {
 public:
  struct Result {
    std::string_view text;          // lies in the scratch, or is the text itself
    bool begins_elsewhere = false;  // what the text began with is gone
  };

  Normalizer() = default;
  explicit Normalizer(std::vector<std::unique_ptr<NormalizerStep>> steps)
      : steps_(std::move(steps)) {}
  [[nodiscard]] Result apply(std::string_view text, NormalizeScratch& scratch) const;
  [[nodiscard]] int64_t heap_bytes() const;

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

/// Makes the normalizer that the value of "normalizer" says (null: none). Throws
/// Error{unsupported} for what is not understood.
[[nodiscard]] Normalizer read_normalizer(const std::optional<io::JsonValue>& value,
                                         const std::string& where);

}  // namespace snug::text
