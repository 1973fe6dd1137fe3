// SPDX-License-Identifier: Apache-2.0
#include "data/balanced_rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "base/stop.h"
#include "data/permutation.h"
#include "io/buffered_file.h"

namespace snug::data {
namespace {

constexpr int64_t kRowsAtOnce = 65536;

uint64_t below(uint32_t high, uint32_t low, int64_t bound) {
  const uint64_t bits = uint64_t{high} << 32 | low;
  return static_cast<uint64_t>(
      (static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(bound)) >> 64);
}

}  // namespace

BalancedRows::BalancedRows(const Subset& part, int64_t labels,
                           const std::function<int32_t(int64_t row)>& label_of, uint64_t seed,
                           const std::string& scratch)
    : file_(io::open_nameless(scratch)), seed_(seed) {
  IndexVector<int64_t> counts(static_cast<size_t>(labels));
  for (int64_t i = 0; i < part.size(); ++i) {
    if (i % kRowsAtOnce == 0) stop_point();
    ++counts[label_of(part.row(i))];
  }
  IndexVector<int64_t> next;  // place of a class's next row
  int64_t begin = 0;
  for (const int64_t rows : counts) {
    next.push_back(begin);
    if (rows > 0) classes_.push_back({.begin = begin, .rows = rows});
    begin += rows;
  }
  // Some rows at once, class by class: few writes where classes are few.
  std::vector<std::pair<int32_t, int64_t>> rows;
  std::vector<int64_t> run;
  for (int64_t first = 0; first < part.size(); first += kRowsAtOnce) {
    stop_point();
    rows.clear();
    for (int64_t i = first; i < std::min(part.size(), first + kRowsAtOnce); ++i)
      rows.emplace_back(label_of(part.row(i)), part.row(i));
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < rows.size(); i += run.size()) {
      run.clear();
      for (size_t k = i; k < rows.size() && rows[k].first == rows[i].first; ++k)
        run.push_back(rows[k].second);
      const auto bytes = static_cast<int64_t>(run.size() * sizeof(int64_t));
      file_.write_at(next[rows[i].first] * static_cast<int64_t>(sizeof(int64_t)), run.data(),
                     bytes);
      next[rows[i].first] += static_cast<int64_t>(run.size());
    }
  }
  SNUG_CHECK(!classes_.empty(), "no rows to draw from");
}

int64_t BalancedRows::row(int64_t epoch, int64_t number) const {
  const auto place = static_cast<uint64_t>(number);
  const uint64_t stream = draw_stream(epoch);
  const PhiloxCounter bits =
      philox4x32({static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32),
                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                 seed_);
  const Class& drawn = classes_[below(bits[0], bits[1], std::ssize(classes_))];
  const auto at = static_cast<int64_t>(below(bits[2], bits[3], drawn.rows));
  int64_t row = 0;
  file_.read_at((drawn.begin + at) * static_cast<int64_t>(sizeof row),
                reinterpret_cast<std::byte*>(&row), sizeof row);
  return row;
}

}  // namespace snug::data
