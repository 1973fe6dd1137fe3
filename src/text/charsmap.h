// SPDX-License-Identifier: Apache-2.0
// sentencepiece's precompiled_charsmap: texts and what replaces them, as a double array (the trie
// of Darts) and a list of replacements that end with NUL. The bytes are foreign: every step is
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug::text {

class Charsmap {
 public:
  Charsmap() = default;
  /// Throws Error{bad_data}, with `where` as its place, for bytes that are no charsmap. No bytes
  /// are an empty one.
  Charsmap(std::string blob, const std::string& where);
  [[nodiscard]] bool empty() const { return units_ == 0; }
  [[nodiscard]] const std::string& blob() const { return blob_; }

  struct Match {
    size_t length = 0;  // of the text that is replaced; 0: none
    std::string_view replacement;
  };
  /// The longest rule that the text begins with: sentencepiece's choice.
  [[nodiscard]] Match longest(std::string_view text) const { return find(text, true); }
  /// The shortest: that of the `tokenizers` package.
  [[nodiscard]] Match shortest(std::string_view text) const { return find(text, false); }
  [[nodiscard]] int64_t heap_bytes() const { return static_cast<int64_t>(blob_.capacity()) + 1; }

 private:
  [[nodiscard]] Match find(std::string_view text, bool is_longest) const;
  [[nodiscard]] uint32_t unit(size_t i) const;

  std::string blob_;
  size_t units_ = 0;
};

}  // namespace snug::text
