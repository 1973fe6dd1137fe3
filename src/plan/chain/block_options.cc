// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/block_options.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"
#include "plan/chain/block_template.h"

namespace snug::plan {
namespace {

constexpr int64_t kTrifles = 256;       // in what a block can save
constexpr size_t kRepricedGroups = 48;  // all of them, whenever one is dropped

// Candidates to save, in groups that only make sense together: the outputs of one op that the
// backward reads.
struct Group {
  std::vector<LocalId> members;
  int64_t bytes = 0;
  double seconds = 0;  // of the op that makes them
};

std::vector<Group> save_groups(const ProblemIndex& index, const BlockTemplate& block) {
  std::map<OpId, Group> by_producer;
  for (const LocalId local : block.storage_ids()) {
    const TemplateStorage& storage = block.storage(local);
    if (!storage.is_forward) continue;
    if (!storage.is_read_by_backward && !storage.is_input) continue;
    // The block's input set is a group of its own, made by nobody here.
    const OpId key = storage.is_input ? kNone : index.producer[storage.id];
    Group& group = by_producer[key];
    group.members.push_back(local);
    group.bytes += storage.bytes;
    if (key != kNone) group.seconds = index.op(key).seconds;
  }
  std::vector<Group> groups;
  for (auto& [producer, group] : by_producer) groups.push_back(std::move(group));
  // An output set of several storages may be kept as a whole, which the next block shares.
  Group outputs;
  bool is_read = false;
  for (const LocalId local : block.storage_ids()) {
    const TemplateStorage& storage = block.storage(local);
    if (!storage.is_output) continue;
    outputs.members.push_back(local);
    outputs.bytes += storage.bytes;
    is_read = is_read || (storage.is_read_by_backward && !storage.is_input);
  }
  if (is_read && outputs.members.size() > 1) groups.push_back(std::move(outputs));
  return groups;
}

bool dominates(const BlockOption& a, const BlockOption& b) {
  return a.saves_input <= b.saves_input && a.saves_output <= b.saves_output &&
         a.inner_bytes <= b.inner_bytes && a.recompute_seconds <= b.recompute_seconds &&
         a.forward_peak_bytes <= b.forward_peak_bytes &&
         a.backward_peak_bytes <= b.backward_peak_bytes;
}

// Drops options that save a trifle beside one that recomputes no more (a mask of a few bytes kept
// or not): the solver pays for every option, and its slots are larger than that. `front` has
// falling saved bytes, so that seconds rise.
void drop_trifles(std::vector<BlockOption>& front) {
  if (front.empty()) return;
  const int64_t trifle = front.front().saved_bytes / kTrifles;
  std::vector<BlockOption> kept;
  for (BlockOption& option : front) {
    const bool is_trifle = std::any_of(kept.begin(), kept.end(), [&](const BlockOption& other) {
      return other.saves_input <= option.saves_input && other.saves_output <= option.saves_output &&
             other.recompute_seconds <= option.recompute_seconds &&
             other.inner_bytes <= option.inner_bytes + trifle &&
             other.forward_peak_bytes <= option.forward_peak_bytes + trifle &&
             other.backward_peak_bytes <= option.backward_peak_bytes + trifle;
    });
    if (!is_trifle) kept.push_back(std::move(option));
  }
  front = std::move(kept);
}

void keep_front(std::vector<BlockOption>& options, size_t max_options) {
  std::stable_sort(options.begin(), options.end(), [](const BlockOption& a, const BlockOption& b) {
    if (a.saved_bytes != b.saved_bytes) return a.saved_bytes > b.saved_bytes;
    return a.recompute_seconds < b.recompute_seconds;
  });
  std::vector<BlockOption> front;
  for (size_t i = 0; i < options.size(); ++i) {
    bool is_dominated = false;
    for (size_t j = 0; j < options.size() && !is_dominated; ++j) {
      if (i == j || !dominates(options[j], options[i])) continue;
      is_dominated = j < i || !dominates(options[i], options[j]);
    }
    if (!is_dominated) front.push_back(options[i]);
  }
  drop_trifles(front);
  // Thin out: drop what changes the curve of seconds over saved bytes the least; ends and the
  // lowest peak stay.
  while (front.size() > max_options) {
    size_t lowest_peak = 0;
    for (size_t i = 1; i < front.size(); ++i) {
      if (front[i].backward_peak_bytes < front[lowest_peak].backward_peak_bytes) lowest_peak = i;
    }
    size_t victim = 0;
    double smallest = std::numeric_limits<double>::max();
    for (size_t i = 1; i + 1 < front.size(); ++i) {
      if (i == lowest_peak) continue;
      const double bytes = static_cast<double>(front[i - 1].saved_bytes - front[i].saved_bytes);
      const double seconds = front[i + 1].recompute_seconds - front[i].recompute_seconds;
      const double area = bytes * seconds;
      if (area < smallest) {
        smallest = area;
        victim = i;
      }
    }
    if (victim == 0) break;
    front.erase(front.begin() + static_cast<std::ptrdiff_t>(victim));
  }
  options = std::move(front);
}

IdVector<LocalId, bool> flags_of(const BlockTemplate& block, const std::vector<Group>& groups,
                                 uint64_t mask) {
  IdVector<LocalId, bool> is_saved(block.storage_count(), false);
  for (size_t g = 0; g < groups.size(); ++g) {
    if ((mask >> g & 1) == 0) continue;
    for (const LocalId member : groups[g].members) is_saved[member] = true;
  }
  return is_saved;
}

void enumerate(const BlockTemplate& block, const std::vector<Group>& groups,
               std::vector<BlockOption>& options) {
  const uint64_t all = (uint64_t{1} << groups.size()) - 1;
  for (uint64_t mask = all + 1; mask-- > 0;) {
    if (auto option = block.measure(flags_of(block, groups, mask)))
      options.push_back(std::move(*option));
  }
}

// Too many groups to enumerate: from keep-all, drop again and again the group that frees most bytes
// per second. In a block of very many groups only those are priced again that were the cheapest of
// an earlier round: prices nearly always rise as more is dropped.
void drop_greedily(const BlockTemplate& block, const std::vector<Group>& groups,
                   std::vector<BlockOption>& options) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  IdVector<LocalId, bool> is_saved(block.storage_count(), false);
  const auto set_saved = [&groups](IdVector<LocalId, bool>& flags, size_t group, bool value) {
    for (const LocalId member : groups[group].members) flags[member] = value;
  };
  for (size_t g = 0; g < groups.size(); ++g) set_saved(is_saved, g, true);
  auto current = block.measure(is_saved);
  if (!current) return;
  options.push_back(*current);
  std::vector<bool> is_dropped(groups.size(), false);
  const auto price_of = [&](size_t group) {
    if (is_dropped[group] || groups[group].bytes == 0) return kNever;
    stop_point();
    auto trial_flags = is_saved;
    set_saved(trial_flags, group, false);
    const auto trial = block.measure(trial_flags);
    if (!trial) return kNever;
    return (trial->recompute_seconds - current->recompute_seconds) /
           static_cast<double>(groups[group].bytes);
  };
  IndexVector<double> prices(groups.size());
  IndexVector<size_t> priced_in(groups.size(), 0);  // round
  for (size_t round = 1;; ++round) {
    if (round == 1 || groups.size() <= kRepricedGroups) {
      for (size_t g = 0; g < groups.size(); ++g) prices[g] = price_of(g);
      std::fill(priced_in.begin(), priced_in.end(), round);
    }
    auto best = std::min_element(prices.begin(), prices.end());
    while (*best < kNever && priced_in[best - prices.begin()] != round) {
      const auto group = static_cast<size_t>(best - prices.begin());
      prices[group] = price_of(group);
      priced_in[group] = round;
      best = std::min_element(prices.begin(), prices.end());
    }
    if (*best == kNever) break;
    const auto group = static_cast<size_t>(best - prices.begin());
    is_dropped[group] = true;
    prices[group] = kNever;
    set_saved(is_saved, group, false);
    current = block.measure(is_saved);
    options.push_back(*current);
  }
}

// Moves a class's option to another block of the class: the same places in its own lists of
// storages.
BlockOption translate(const BlockOption& option, const BlockTemplate& from,
                      const BlockTemplate& to) {
  BlockOption result = option;
  for (StorageId& id : result.saved) id = to.storage(from.local_of(id)).id;
  return result;
}

// Per block: what earlier backward ops made and is still live when its backward part begins.
std::vector<int64_t> bytes_at_entry(const ProblemIndex& index, const Chain& chain) {
  IdVector<OpId, int64_t> live(index.problem.ops.size() + 2, 0);  // before each op
  for (const StorageId id : index.storage_ids()) {
    const OpId producer = index.producer[id];
    if (producer < index.backward_begin) continue;
    const auto& consumers = index.consumers[id];
    OpId last = consumers.empty() ? producer : std::max(producer, consumers.back());
    if (index.in_keep[id]) last = index.end_op();
    live[producer + 1] += index.arena_bytes(id);
    live[last + 1] -= index.arena_bytes(id);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  IndexVector<int64_t> result;
  for (const Block& block : chain.blocks) {
    const bool has_backward = block.backward_first < block.backward_end;
    result.push_back(has_backward ? live[block.backward_first] : 0);
  }
  return result;
}

}  // namespace

IndexVector<BlockOptions> block_options(const ProblemIndex& index, const Chain& chain,
                                        const OptionLimits& limits) {
  IndexVector<BlockOptions> result(chain.blocks.size());
  IndexVector<std::optional<BlockTemplate>> templates(chain.class_count);
  IndexVector<size_t> first_of_class(chain.class_count, 0);
  const std::vector<int64_t> entry_bytes = bytes_at_entry(index, chain);
  IdVector<StorageId, LocalId> local_by_id(index.problem.storages.size());
  for (size_t b = 0; b < chain.blocks.size(); ++b) {
    stop_point();
    const Block& block = chain.blocks[b];
    BlockOptions& mine = result[b];
    BlockTemplate shape(index, chain, block, entry_bytes[b], local_by_id);
    mine.runs_once = block.runs_once;
    mine.forward_seconds = shape.forward_seconds();
    mine.input_bytes = shape.input_bytes();
    mine.past_bytes = shape.past_bytes();
    mine.entry_bytes = entry_bytes[b];
    mine.foreign_bytes = shape.foreign_bytes();
    auto& known = templates[block.class_id];
    if (known) {
      const BlockOptions& twin = result[first_of_class[block.class_id]];
      mine.advance_peak_bytes = twin.advance_peak_bytes;
      for (const BlockOption& option : twin.options)
        mine.options.push_back(translate(option, *known, shape));
      continue;
    }
    mine.advance_peak_bytes =
        shape.forward_peak(IdVector<LocalId, bool>(shape.storage_count(), false));
    const std::vector<Group> groups = save_groups(index, shape);
    const auto exact_limit = static_cast<size_t>(limits.max_groups);
    // The price of 2^groups measurements grows with the block: long blocks get fewer groups.
    const size_t scaled = shape.op_count() > 200 ? std::min<size_t>(exact_limit, 6) : exact_limit;
    if (groups.size() <= scaled) {
      enumerate(shape, groups, mine.options);
    } else {
      drop_greedily(shape, groups, mine.options);
      std::vector<Group> input_only;
      for (const Group& group : groups) {
        if (shape.storage(group.members.front()).is_input) input_only.push_back(group);
      }
      enumerate(shape, input_only, mine.options);
    }
    keep_front(mine.options, static_cast<size_t>(limits.max_options));
    first_of_class[block.class_id] = b;
    known.emplace(std::move(shape));
  }
  return result;
}

}  // namespace snug::plan
