// SPDX-License-Identifier: Apache-2.0
// Spans of labelled words under the schemes in which people write them, strict: as seqeval has them
// with mode='strict' and the scheme. Which scheme labels are of follows from their letters, and,
// where those are B, I and O, from the rows (SchemeEvidence).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace snug::tasks {

enum class SpanScheme : uint8_t {
  iob1,   // I-KIND; B-KIND where a span of the same kind has just ended
  iob2,   // B-KIND, then I-KIND
  bioes,  // B-KIND, I-KIND, E-KIND; S-KIND of one word
  bilou,  // the same with L and U
};
[[nodiscard]] std::string_view to_string(SpanScheme scheme);
/// By the words of the key span_scheme; nothing for another word ("auto").
[[nodiscard]] std::optional<SpanScheme> find_span_scheme(std::string_view word);

/// First word, the word behind the last, and the kind.
using Span = std::tuple<size_t, size_t, size_t>;

/// The labels of a network as places in spans ("B-PER", "O").
class SpanLabels {
 public:
  explicit SpanLabels(const std::vector<std::string>& labels);

  /// Those that the letters of the labels may be of: one, or IOB1 and IOB2, or none.
  [[nodiscard]] const std::vector<SpanScheme>& schemes() const { return schemes_; }
  /// The first label that the scheme does not know, or none does; empty where all are known.
  [[nodiscard]] std::string misfit(std::optional<SpanScheme> scheme = {}) const;
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }
  [[nodiscard]] std::set<Span> spans(SpanScheme scheme, std::span<const size_t> labels) const;

 private:
  friend class SchemeEvidence;
  struct Tag {
    char place = 'O';  // a letter of a scheme; '?': the label is no place in a span
    size_t kind = 0;   // of kinds()
    friend bool operator==(const Tag&, const Tag&) = default;
  };
  [[nodiscard]] bool matches(std::string_view rules, const Tag& before, const Tag& tag) const;

  std::vector<std::string> labels_;
  std::vector<Tag> tags_;  // by label
  std::vector<std::string> kinds_;
  std::vector<SpanScheme> schemes_;
};

/// Which of IOB1 and IOB2 rows of right labels are written in.
class SchemeEvidence {
 public:
  /// Adds one row, word by word; nothing for a word that was cut off.
  void add(const SpanLabels& labels, std::span<const std::optional<size_t>> row);
  /// IOB1 where an I begins a span, and no B stands where IOB1 has none.
  [[nodiscard]] SpanScheme scheme() const;
  /// Spans that begin with I though others begin with B: the rows are of neither.
  [[nodiscard]] int64_t stray() const { return firm_b_ > 0 ? opening_i_ : 0; }
  /// Spans behind no label of their kind.
  [[nodiscard]] int64_t openings() const { return opening_i_ + firm_b_; }

 private:
  int64_t opening_i_ = 0;  // behind no label of its kind: IOB2 has none
  int64_t firm_b_ = 0;     // B behind no label of its kind: IOB1 has none
};

}  // namespace snug::tasks
