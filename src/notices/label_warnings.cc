// SPDX-License-Identifier: Apache-2.0
#include "notices/label_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/listed.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "data/invisible.h"
#include "data/label_number.h"
#include "notices/say.h"
#include "text/normal_forms.h"
#include "text/unicode_rules.h"

namespace snug::notices {
namespace {

/// What is left of a name without case, blanks, Unicode form, quotes around it and the spelling of
/// a number.
std::string bare(std::string_view name) {
  if (name.size() > 2 && name.starts_with('"') && name.ends_with('"'))
    name = name.substr(1, name.size() - 2);
  // Whole numbers of more digits than a double has are told apart; -0 is 0.
  if (const auto number = number_in<int64_t>(name)) return std::to_string(*number);
  if (const auto number = data::spelled_number(name)) return number_text(*number + 0.0);
  std::vector<text::ClassedPoint> points;
  std::string normal;
  text::append_normal_form(text::NormalForm::nfkc, name, points, normal);
  std::string lower;
  for (size_t at = 0; at < normal.size();) {
    const size_t begin = at;
    const char32_t c = text::next_code_point(normal, at);
    if (data::is_invisible(std::string_view(normal).substr(begin, at - begin))) continue;
    const text::ShortText small = text::lowercase(c);
    for (int i = 0; i < small.size; ++i) text::append_utf8(small.c[i], lower);
  }
  return lower;
}

std::optional<Warning> similar_labels(const data::Labels& labels,
                                      const std::vector<int64_t>& counts) {
  std::map<std::string, std::vector<int32_t>> alike;
  for (int32_t id = 0; id < labels.size(); ++id) alike[bare(labels.name(id))].push_back(id);
  std::vector<std::string> groups;
  int64_t rarer = 0;
  for (auto& [name, ids] : alike) {
    if (ids.size() < 2) continue;
    const auto count = [&](int32_t id) { return counts[static_cast<size_t>(id)]; };
    std::stable_sort(ids.begin(), ids.end(),
                     [&](int32_t a, int32_t b) { return count(a) > count(b); });
    std::vector<std::string> names;
    for (const int32_t id : ids)
      names.push_back(fmt::format("'{}' ({})", printable_name(labels.name(id)), count(id)));
    for (size_t i = 1; i < ids.size(); ++i) rarer += count(ids[i]);
    groups.push_back(joined(names, kListed));
  }
  if (groups.empty()) return {};
  return Warning{.code = "similar_labels",
                 .text =
                     "labels differ only in case, blanks, Unicode form, quotes or the spelling of "
                     "a number, and each is a class of its own: " +
                     joined(groups, kListed),
                 .count = rarer,
                 .share = share_of(rarer, sum_of(counts))};
}

std::optional<Warning> missing_labels(const std::string& file, const data::Labels& labels,
                                      const std::vector<int64_t>& counts) {
  std::vector<std::string> names;
  int64_t count = 0;
  for (int32_t id = 0; id < labels.size(); ++id) {
    const std::string& name = labels.name(id);
    if (data::spelled_number(name) != -1.0 && !data::says_missing(name)) continue;
    if (counts[static_cast<size_t>(id)] == 0) continue;
    names.push_back("'" + printable_name(name) + "'");
    count += counts[static_cast<size_t>(id)];
  }
  if (names.empty()) return {};
  const int64_t all = sum_of(counts);
  return Warning{.code = "missing_labels",
                 .text = fmt::format("{} of {} labels of {} are {}, which often says that there is "
                                     "none: here it is a class like the others (leave the label "
                                     "empty where a row has none)",
                                     count, all, file, joined(names, kListed)),
                 .count = count,
                 .share = share_of(count, all)};
}

std::optional<Warning> one_label(const std::string& file, const data::Labels& labels,
                                 const std::vector<int64_t>& counts) {
  const auto occurs = [](int64_t count) { return count > 0; };
  if (std::count_if(counts.begin(), counts.end(), occurs) != 1) return {};
  const auto only = std::find_if(counts.begin(), counts.end(), occurs) - counts.begin();
  return Warning{.code = "one_label",
                 .text = "every row of " + file + " has the label '" +
                         printable_name(labels.name(static_cast<int32_t>(only))) +
                         "': there is nothing to tell apart (label_column is the column of the "
                         "class)",
                 .count = counts[static_cast<size_t>(only)],
                 .share = 1.0};
}

void append(std::vector<Warning>& all, std::optional<Warning> warning) {
  if (warning) all.push_back(*std::move(warning));
}

}  // namespace

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::vector<Warning> label_warnings(const std::string& file, const data::Labels& labels,
                                    const std::vector<int64_t>& counts) {
  std::vector<Warning> all;
  append(all, one_label(file, labels, counts));
  append(all, similar_labels(labels, counts));
  append(all, missing_labels(file, labels, counts));
  return all;
}

}  // namespace snug::notices
