// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/strategies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "base/check.h"
#include "base/index_vector.h"
#include "base/numbers.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

using Kind = ChainAction::Kind;
using Actions = std::vector<ChainAction>;

[[noreturn]] void reject(std::string_view strategy) {
  throw Error(ErrorCode::bad_config, "recompute",
              "'" + std::string(strategy) + "' is not a strategy",
              "use keep-all, recompute-all, sqrt, memory, speed, every:K, chen, chen:BYTES, "
              "revolve:C (K, BYTES, C of at least 1), marked or marks:PATTERN;PATTERN");
}

// What follows the colon of "name:...", or nothing.
std::string_view argument_of(std::string_view strategy, std::string_view name) {
  if (strategy.size() <= name.size() + 1 || strategy.substr(0, name.size()) != name ||
      strategy[name.size()] != ':')
    return {};
  return strategy.substr(name.size() + 1);
}

// A whole number of at least 1 behind the colon, or 0.
int64_t number_of(std::string_view strategy, std::string_view name) {
  return std::max<int64_t>(number_in<int64_t>(argument_of(strategy, name)).value_or(0), 0);
}

// How far to advance before the next checkpoint, for equal steps: fewest advances in all,
//   t(l, c) = min over j of j + t(l - j, c - 1) + t(j, c),
// which is the binomial schedule.
class RevolveSplits {
 public:
  RevolveSplits(int32_t steps, int64_t checkpoints)
      : width_(static_cast<size_t>(checkpoints) + 1),
        advances_((static_cast<size_t>(steps) + 1) * width_, 0),
        ahead_(advances_.size(), 0) {
    for (int32_t l = 2; l <= steps; ++l) {
      for (int64_t c = 0; c <= checkpoints; ++c) {
        int64_t& best = advances_[cell(l, c)];
        best = std::numeric_limits<int64_t>::max();
        // Without a free checkpoint only the last step can be reached and undone.
        for (int32_t j = c == 0 ? l - 1 : 1; j < l; ++j) {
          const int64_t sum =
              j + advances_[cell(l - j, std::max<int64_t>(0, c - 1))] + advances_[cell(j, c)];
          if (sum >= best) continue;
          best = sum;
          ahead_[cell(l, c)] = j;
        }
      }
    }
  }
  [[nodiscard]] int32_t at(int32_t steps, int64_t free) const { return ahead_[cell(steps, free)]; }

 private:
  [[nodiscard]] size_t cell(int32_t steps, int64_t free) const {
    return static_cast<size_t>(steps) * width_ + static_cast<size_t>(free);
  }
  size_t width_;
  std::vector<int64_t> advances_;
  std::vector<int32_t> ahead_;
};

class StrategyMaker {
 public:
  StrategyMaker(const ProblemIndex& index, const Chain& chain,
                const IndexVector<BlockOptions>& options)
      : index_(index),
        chain_(chain),
        options_(options),
        length_(static_cast<int32_t>(chain.blocks.size())) {}

  // Segments begin at these blocks, the first at 0; each keeps the input of its first block and is
  // run again once, keeping all, before its backward part.
  [[nodiscard]] Actions segments(IndexVector<int32_t> begins) const {
    begins.push_back(length_);
    const int32_t last_begin = begins[begins.size() - 2];
    Actions result;
    size_t segment = 0;
    for (int32_t b = 0; b < length_; ++b) {
      const bool begins_here = b == begins[segment];
      if (begins_here) ++segment;
      ChainAction action{Kind::forward, b, {}, true};
      if (b >= last_begin) {
        action.hold = keep_all(b);
      } else {
        if (begins_here) action.hold = chain_.blocks[b].input;
      }
      result.push_back(std::move(action));
    }
    for (size_t s = begins.size() - 1; s-- > 0;) {
      const int32_t begin = begins[s];
      const int32_t end = begins[s + 1];
      if (begin != last_begin) {
        for (int32_t b = begin; b + 1 < end; ++b)
          result.push_back({Kind::forward, b, keep_all(b), true});
        // The segment's last block: its backward makes just what it needs.
        result.push_back({Kind::forward, end - 1, chain_.blocks[end - 1].input, false});
      }
      for (int32_t b = end - 1; b >= begin; --b) result.push_back({Kind::backward, b, {}, false});
    }
    return result;
  }

  [[nodiscard]] std::vector<int32_t> every(int64_t k) const {
    IndexVector<int32_t> begins;
    for (int64_t b = 0; b < length_; b += k) begins.push_back(static_cast<int32_t>(b));
    return begins;
  }

  [[nodiscard]] std::vector<int32_t> quota(int64_t bytes) const {
    IndexVector<int32_t> begins = {0};
    int64_t made = 0;
    for (int32_t b = 0; b + 1 < length_; ++b) {
      made += made_bytes(b);
      if (made <= bytes) continue;
      begins.push_back(b + 1);
      made = 0;
    }
    return begins;
  }

  [[nodiscard]] std::vector<Actions> quotas() const {
    int64_t total = 0;
    for (int32_t b = 0; b < length_; ++b) total += made_bytes(b);
    std::set<std::vector<int32_t>> tried;
    std::vector<Actions> all;
    for (int64_t parts = 1; parts <= length_; ++parts) {
      IndexVector<int32_t> begins = quota(total / parts);
      if (tried.insert(begins).second) all.push_back(segments(std::move(begins)));
    }
    return all;
  }

  [[nodiscard]] Actions speed() const {
    Actions result;
    for (int32_t b = 0; b < length_; ++b) {
      ChainAction action{Kind::forward, b, {}, true};
      for (const StorageId id : keep_all(b)) {
        const OpId producer = index_.producer[id];
        if (producer != kNone && index_.op(producer).is_expensive) action.hold.push_back(id);
      }
      result.push_back(std::move(action));
    }
    for (int32_t b = length_; b-- > 0;) result.push_back({Kind::backward, b, {}, false});
    return result;
  }

  [[nodiscard]] Actions revolve(int64_t checkpoints) const {
    const int64_t held = std::min<int64_t>(checkpoints, length_);
    Actions result;
    const bool has_input = chain_.blocks.front().runs_once && length_ > 1;
    if (has_input) result.push_back({Kind::forward, 0, {}, true});
    const int32_t begin = has_input ? 1 : 0;
    reverse(begin, length_, held, RevolveSplits(length_ - begin, held), result);
    if (has_input) result.push_back({Kind::backward, 0, {}, false});
    return result;
  }

 private:
  [[nodiscard]] std::vector<StorageId> keep_all(int32_t b) const {
    const auto& list = options_[b].options;
    return list.empty() ? std::vector<StorageId>{} : list.front().saved;
  }

  [[nodiscard]] int64_t made_bytes(int32_t b) const {
    int64_t bytes = 0;
    const Block& block = chain_.blocks[b];
    for (OpId op = block.first; op < block.end; ++op) {
      for (const StorageId output : index_.op(op).outputs) bytes += index_.arena_bytes(output);
    }
    return bytes;
  }

  // Blocks [begin, end), the input of `begin` held, with at most `free` more inputs held at once.
  void reverse(int32_t begin, int32_t end, int64_t free, const RevolveSplits& splits,
               Actions& out) const {
    const int32_t steps = end - begin;
    if (steps == 1) {
      out.push_back({Kind::forward, begin, keep_all(begin), end < length_});
      out.push_back({Kind::backward, begin, {}, false});
      return;
    }
    const int32_t ahead = splits.at(steps, free);
    for (int32_t b = begin; b < begin + ahead; ++b) {
      ChainAction advance{Kind::forward, b, {}, true};
      if (b == begin) advance.hold = chain_.blocks[b].input;
      out.push_back(std::move(advance));
    }
    reverse(begin + ahead, end, std::max<int64_t>(0, free - 1), splits, out);
    reverse(begin, begin + ahead, free, splits, out);
  }

  const ProblemIndex& index_;
  const Chain& chain_;
  const IndexVector<BlockOptions>& options_;
  int32_t length_;
};

}  // namespace

std::optional<Marks> strategy_marks(const ProblemIndex& index, std::string_view strategy) {
  if (strategy == "marked") return declared_marks(index);
  const std::string_view patterns = argument_of(strategy, "marks");
  if (patterns.empty()) return std::nullopt;
  return named_marks(index, patterns);
}

void check_strategy_name(std::string_view strategy) {
  for (const std::string_view name :
       {"keep-all", "recompute-all", "sqrt", "memory", "speed", "chen", "marked"}) {
    if (strategy == name) return;
  }
  for (const std::string_view name : {"every", "chen", "revolve"}) {
    if (number_of(strategy, name) > 0) return;
  }
  if (!argument_of(strategy, "marks").empty()) return;
  reject(strategy);
}

std::vector<Actions> strategy_actions(const ProblemIndex& index, const Chain& chain,
                                      const IndexVector<BlockOptions>& options,
                                      std::string_view strategy) {
  check_strategy_name(strategy);
  const StrategyMaker maker(index, chain, options);
  const auto blocks = static_cast<double>(chain.blocks.size());
  if (strategy == "keep-all") return {maker.segments({0})};
  if (strategy == "recompute-all") return {maker.segments(maker.every(1))};
  if (strategy == "sqrt" || strategy == "memory")
    return {maker.segments(maker.every(std::llround(std::ceil(std::sqrt(blocks)))))};
  if (strategy == "speed") return {maker.speed()};
  if (strategy == "chen") return maker.quotas();
  if (const int64_t k = number_of(strategy, "every")) return {maker.segments(maker.every(k))};
  if (const int64_t bytes = number_of(strategy, "chen"))
    return {maker.segments(maker.quota(bytes))};
  const int64_t checkpoints = number_of(strategy, "revolve");
  SNUG_CHECK(checkpoints > 0, "marks are no actions of a chain");
  return {maker.revolve(checkpoints)};
}

}  // namespace snug::plan
