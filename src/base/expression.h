// SPDX-License-Identifier: Apache-2.0
// Regular expressions as Python's re writes them, for names: whether one matches a whole text.
// All states are followed at once, so no expression takes longer than its length times the
// text's.
#pragma once

#include <bitset>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

/// What is wrong with an expression, or is not supported: references to groups, lookaround, flags,
/// possessive repetition.
struct BadExpression : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Expression {
 public:
  /// Throws BadExpression.
  explicit Expression(std::string_view pattern);
  /// As re.fullmatch. Bytes above 127 are letters.
  [[nodiscard]] bool matches(std::string_view text) const;

  using Bytes = std::bitset<256>;
  struct State {
    enum class Kind : uint8_t { bytes, fork, begin, end, boundary, inside, found };
    Kind kind = Kind::found;
    Bytes bytes = {};
    int32_t next = -1;
    int32_t other = -1;  // of a fork
  };

 private:
  std::vector<State> states_;
  int32_t first_ = -1;
};

}  // namespace snug
