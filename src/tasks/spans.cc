// SPDX-License-Identifier: Apache-2.0
#include "tasks/spans.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace snug::tasks {
namespace {

// Pairs of neighbouring letters and what their kinds must be, as seqeval's tables have them: `=`
// the same, `!` different, `.` any; `*` is any letter.
struct Rules {
  SpanScheme scheme;
  std::string_view name;
  std::string_view letters;
  std::string_view start;   // the second begins a span
  std::string_view inside;  // the second goes on with the span of the first
  std::string_view end;     // the span of the first ends here; else there was none
};
constexpr Rules kRules[] = {
    {SpanScheme::iob1, "IOB1", "BIO", "OI. II! BI. IB= BB=", "BI= II=", "II! IO. IB. BO. BI! BB="},
    {SpanScheme::iob2, "IOB2", "BIO", "*B.", "BI= II=", "IO. II! IB. BO. BI! BB."},
    {SpanScheme::bioes, "BIOES", "BIOES", "*B. *S.", "BI= BE= II= IE=", "S*. E*."},
    {SpanScheme::bilou, "BILOU", "BILOU", "*B. *U.", "BI= BL= II= IL=", "U*. L*."},
};
constexpr std::string_view kLetters = "BIOESLU";

const Rules& rules_of(SpanScheme scheme) {
  const auto* found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rules& each) { return each.scheme == scheme; });
  SNUG_CHECK(found != std::end(kRules), "a scheme without rules");
  return *found;
}

bool has(std::string_view letters, char letter) { return letters.find(letter) != letters.npos; }

// The schemes that the letters of all labels may be of.
std::vector<SpanScheme> schemes_of(std::string_view letters) {
  const bool ends = has(letters, 'E') || has(letters, 'S');
  const bool lasts = has(letters, 'L') || has(letters, 'U');
  if (has(letters, '?') || (ends && lasts)) return {};
  const bool begins = has(letters, 'B');
  // I and E alone are IOE, whose spans begin elsewhere.
  if (ends && (begins || has(letters, 'S'))) return {SpanScheme::bioes};
  if (lasts && (begins || has(letters, 'U'))) return {SpanScheme::bilou};
  if (ends || lasts) return {};
  if (!has(letters, 'I')) return {SpanScheme::iob2};
  return begins ? std::vector{SpanScheme::iob1, SpanScheme::iob2} : std::vector{SpanScheme::iob1};
}

}  // namespace

std::string_view to_string(SpanScheme scheme) { return rules_of(scheme).name; }

std::optional<SpanScheme> find_span_scheme(std::string_view word) {
  for (const Rules& each : kRules) {
    if (each.name == word) return each.scheme;
  }
  return std::nullopt;
}

SpanLabels::SpanLabels(const std::vector<std::string>& labels) : labels_(labels) {
  std::string letters;
  for (const std::string& label : labels) {
    const bool is_tag = !label.empty() && has(kLetters, label[0]) &&
                        (label.size() == 1 || (label[1] == '-' && label[0] != 'O'));
    const std::string kind = is_tag && label.size() > 2 ? label.substr(2) : "";
    const auto found = std::find(kinds_.begin(), kinds_.end(), kind);
    tags_.push_back({is_tag ? label[0] : '?', static_cast<size_t>(found - kinds_.begin())});
    if (found == kinds_.end()) kinds_.push_back(kind);
    letters += tags_.back().place;
  }
  schemes_ = schemes_of(letters);
}

std::string SpanLabels::misfit(std::optional<SpanScheme> scheme) const {
  const std::string_view letters = scheme ? rules_of(*scheme).letters : kLetters;
  const auto found = std::find_if(tags_.begin(), tags_.end(),
                                  [&](const Tag& tag) { return !has(letters, tag.place); });
  return found == tags_.end() ? std::string() : labels_[static_cast<size_t>(found - tags_.begin())];
}

bool SpanLabels::matches(std::string_view rules, const Tag& before, const Tag& tag) const {
  for (size_t at = 0; at < rules.size(); at += 4) {  // three letters and a space
    const auto is = [](char rule, char place) { return rule == '*' || rule == place; };
    const char kinds = rules[at + 2];
    if (is(rules[at], before.place) && is(rules[at + 1], tag.place) &&
        (kinds == '.' || (kinds == '=') == (before.kind == tag.kind)))
      return true;
  }
  return false;
}

// seqeval's walk, step by step: what does not end as the scheme wants is no span.
std::set<Span> SpanLabels::spans(SpanScheme scheme, std::span<const size_t> labels) const {
  const Rules& rules = rules_of(scheme);
  const Tag outside{'O', kinds_.size()};  // of no kind that a label has
  const auto tag = [&](size_t word) {
    return word < labels.size() ? tags_[labels[word]] : outside;
  };
  std::set<Span> spans;
  for (size_t begin = 0; begin < labels.size();) {
    if (!matches(rules.start, begin == 0 ? outside : tag(begin - 1), tag(begin))) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < labels.size() && matches(rules.inside, tag(end - 1), tag(end))) ++end;
    if (matches(rules.end, tag(end - 1), tag(end))) spans.insert({begin, end, tag(begin).kind});
    begin = end;
  }
  return spans;
}

void SchemeEvidence::add(const SpanLabels& labels, std::span<const std::optional<size_t>> row) {
  SpanLabels::Tag before;  // of a kind that is not looked at: an O goes on with nothing
  bool is_known = true;    // what stands before
  for (const std::optional<size_t>& label : row) {
    if (label && is_known) {
      const SpanLabels::Tag& tag = labels.tags_[*label];
      const bool goes_on = before.place != 'O' && before.kind == tag.kind;
      opening_i_ += tag.place == 'I' && !goes_on ? 1 : 0;
      firm_b_ += tag.place == 'B' && !goes_on ? 1 : 0;
    }
    is_known = label.has_value();
    if (label) before = labels.tags_[*label];
  }
}

SpanScheme SchemeEvidence::scheme() const {
  return opening_i_ > 0 && firm_b_ == 0 ? SpanScheme::iob1 : SpanScheme::iob2;
}

}  // namespace snug::tasks
