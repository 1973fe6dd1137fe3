// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/blocks.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace snug::plan {
namespace {

constexpr size_t kMaxCarryTrials = 24;
constexpr int32_t kMaxCrossing = 32;  // storages of one cut
constexpr size_t kCutLimits = 4;
constexpr double kSetGain = 1.3;  // by how much sets must be better than cuts of one storage

// Steps from the making of a storage to its last forward use; 0 where it does not leave its op.
IdVector<StorageId, int32_t> forward_spans(const ProblemIndex& index) {
  IdVector<StorageId, int32_t> spans(index.storage_count(), 0);
  for (const StorageId id : index.storage_ids()) {
    const OpId producer = index.producer[id];
    if (producer == kNone || producer >= index.backward_begin) continue;
    for (const OpId consumer : index.consumers[id]) {
      if (consumer < index.backward_begin) spans[id] = std::max(spans[id], consumer - producer);
    }
  }
  return spans;
}

struct Cut {
  OpId after;                       // the last forward op before the cut
  std::vector<StorageId> crossing;  // by rising id
  int64_t bytes = 0;
};

// What crosses the boundary behind each forward op: how many storages and how many bytes.
struct Crossing {
  int32_t count = 0;
  int64_t bytes = 0;
};

IdVector<OpId, Crossing> crossings(const ProblemIndex& index,
                                   const IdVector<StorageId, int32_t>& spans,
                                   const IdVector<StorageId, bool>& is_carried) {
  IdVector<OpId, Crossing> result(index.forward_ids().size() + 1);
  for (const StorageId id : spans.ids()) {
    if (spans[id] == 0 || is_carried[id]) continue;
    const OpId producer = index.producer[id];
    const OpId end = producer + spans[id];
    const int64_t bytes = index.arena_bytes(id);
    ++result[producer].count;
    --result[end].count;
    result[producer].bytes += bytes;
    result[end].bytes -= bytes;
  }
  Crossing sum;
  for (Crossing& each : result) {
    sum.count += each.count;
    sum.bytes += each.bytes;
    each = sum;
  }
  return result;
}

// Cuts where at most one storage crosses, or several of at most `limit_bytes` together.
bool is_cut(const Crossing& crossing, int64_t limit_bytes) {
  return crossing.count <= 1 || (crossing.count <= kMaxCrossing && crossing.bytes <= limit_bytes);
}

std::vector<Cut> find_cuts(const ProblemIndex& index, const IdVector<StorageId, int32_t>& spans,
                           const IdVector<StorageId, bool>& is_carried, int64_t limit_bytes) {
  const IdVector<OpId, Crossing> all = crossings(index, spans, is_carried);
  std::vector<Cut> cuts;
  std::vector<StorageId> crossing;  // behind the op
  for (const OpId op : IdRange(OpId(0), index.backward_begin - 1)) {
    std::erase_if(crossing, [&](StorageId id) { return index.producer[id] + spans[id] <= op; });
    for (const StorageId id : index.op(op).outputs) {
      if (spans[id] > 0 && !is_carried[id]) crossing.push_back(id);
    }
    if (!is_cut(all[op], limit_bytes)) continue;
    cuts.push_back({op, crossing, all[op].bytes});
    std::sort(cuts.back().crossing.begin(), cuts.back().crossing.end());
  }
  return cuts;
}

// What about one forward run more would need: carried + the cuts that are kept + the largest block.
// With k segments between n blocks whose cuts have S bytes and whose insides have B, that is
// S k / n + B / k, smallest at 2 sqrt(S B / n); or all cuts are kept.
double recompute_estimate(const ProblemIndex& index, const IdVector<StorageId, bool>& is_carried,
                          const IdVector<OpId, Crossing>& all, int64_t limit_bytes) {
  double carried = 0;
  for (const StorageId id : is_carried.ids()) {
    if (is_carried[id]) carried += static_cast<double>(index.storage(id).bytes);
  }
  double inside = 0;
  double cuts = 0;
  double blocks = 1;
  int64_t largest = 0;
  int64_t block = 0;
  for (const OpId op : index.forward_ids()) {
    for (const StorageId output : index.op(op).outputs) {
      if (!is_carried[output]) block += index.arena_bytes(output);
    }
    const Crossing& crossing = all[op];
    if (op + 1 < index.backward_begin && !is_cut(crossing, limit_bytes)) continue;
    largest = std::max(largest, block);
    inside += static_cast<double>(block);
    block = 0;
    if (op + 1 == index.backward_begin) break;
    cuts += static_cast<double>(crossing.bytes);
    ++blocks;
  }
  return carried + std::min(cuts, 2 * std::sqrt(cuts * inside / blocks)) +
         static_cast<double>(largest);
}

// Limits worth a trial: quantiles of the local minima of what crosses.
std::vector<int64_t> cut_limits(const IdVector<OpId, Crossing>& all) {
  std::vector<int64_t> minima;
  for (const OpId op : IdRange(OpId(1), all.end_id() - 2)) {
    const bool is_minimum =
        all[op].bytes <= all[op - 1].bytes && all[op].bytes <= all[op + 1].bytes;
    if (is_minimum && all[op].count > 1 && all[op].count <= kMaxCrossing)
      minima.push_back(all[op].bytes);
  }
  std::sort(minima.begin(), minima.end());
  std::vector<int64_t> limits;
  for (size_t part = 1; part <= kCutLimits && !minima.empty(); ++part)
    limits.push_back(minima[(minima.size() - 1) * part / kCutLimits]);
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

struct CutChoice {
  IdVector<StorageId, bool> is_carried;
  int64_t limit_bytes = 0;  // of what may cross a cut where it is more than one storage
};

// The carried storages and the limit with the smallest estimate. Cuts of one storage are better
// than their bytes say (the options can keep or drop one, but a set only as a whole), so sets must
// gain a good part.
CutChoice choose_cuts(const ProblemIndex& index, const IdVector<StorageId, int32_t>& spans) {
  CutChoice best;
  double best_price = std::numeric_limits<double>::max();
  const auto try_carrying = [&](const IdVector<StorageId, bool>& is_carried) {
    const IdVector<OpId, Crossing> all = crossings(index, spans, is_carried);
    const auto try_limit = [&](int64_t limit_bytes, double factor) {
      stop_point();
      const double price = factor * recompute_estimate(index, is_carried, all, limit_bytes);
      if (price >= best_price) return;
      best_price = price;
      best = {is_carried, limit_bytes};
    };
    try_limit(0, 1);
    for (const int64_t limit : cut_limits(all)) try_limit(limit, kSetGain);
  };
  IdVector<StorageId, bool> prologue(spans.size(), false);
  for (const StorageId id : spans.ids()) {
    const OpId producer = index.producer[id];
    if (producer != kNone && index.op(producer).phase == Phase::prologue) prologue[id] = true;
  }
  try_carrying(prologue);
  std::vector<int32_t> thresholds = spans;
  std::sort(thresholds.begin(), thresholds.end(), std::greater<>());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  if (thresholds.size() > kMaxCarryTrials) thresholds.resize(kMaxCarryTrials);
  for (const int32_t threshold : thresholds) {
    if (threshold < 2) break;
    IdVector<StorageId, bool> trial = prologue;
    for (const StorageId id : spans.ids()) {
      if (spans[id] >= threshold) trial[id] = true;
    }
    try_carrying(trial);
  }
  return best;
}

std::vector<Block> make_blocks(const ProblemIndex& index, const std::vector<Cut>& cuts) {
  IndexVector<Block> blocks;
  Block block;
  for (const Cut& cut : cuts) {
    block.end = cut.after + 1;
    block.output = cut.crossing;
    blocks.push_back(block);
    block = {};
    block.first = cut.after + 1;
    block.input = cut.crossing;
  }
  block.end = index.backward_begin;
  blocks.push_back(block);
  return blocks;
}

double block_seconds(const ProblemIndex& index, const Block& block) {
  double seconds = 0;
  for (OpId op = block.first; op < block.end; ++op) seconds += index.op(op).seconds;
  return seconds;
}

void append(Block& block, const Block& next) {
  block.end = next.end;
  block.output = next.output;
}

// Whether the backward part reads what a cheap block takes in or makes inside. Then the cut belongs
// in front of it: its input alone is kept and all else made again cheaply (a layer norm). Otherwise
// it belongs behind it (a relu).
bool is_better_with_successor(const ProblemIndex& index, const Block& block) {
  const auto is_read_backward = [&](StorageId id) {
    const auto& consumers = index.consumers[id];
    return !consumers.empty() && consumers.back() >= index.backward_begin;
  };
  const auto is_any_read = [&](const std::vector<StorageId>& set) {
    return std::any_of(set.begin(), set.end(), is_read_backward);
  };
  bool reads_inside = is_any_read(block.input);
  for (OpId op = block.first; op < block.end; ++op) {
    for (const StorageId output : index.op(op).outputs) {
      if (!contains(block.output, output) && is_read_backward(output)) reads_inside = true;
    }
  }
  return reads_inside || !is_any_read(block.output);
}

// Only inputs, and something goes on from them: the chain decides how long that stays.
bool is_once_only(const ProblemIndex& index, const Block& block) {
  if (block.first != OpId(0) || block.output.empty()) return false;
  for (OpId op = block.first; op < block.end; ++op) {
    if (!index.runs_once[op]) return false;
  }
  return true;
}

void merge_small(const ProblemIndex& index, const BlockLimits& limits, IndexVector<Block>& blocks) {
  double sum = 0;
  double squares = 0;
  for (const Block& block : blocks) {
    const double seconds = block_seconds(index, block);
    sum += seconds;
    squares += seconds * seconds;
  }
  const double limit = sum > 0 ? limits.small_share * squares / sum : 0;
  std::vector<Block> merged;
  Block pending;  // cheap blocks that wait for their successor
  bool has_pending = false;
  for (Block block : blocks) {
    if (merged.empty() && is_once_only(index, block)) {
      block.runs_once = true;
      merged.push_back(block);
      continue;
    }
    if (has_pending) {
      append(pending, block);
      block = pending;
      has_pending = false;
    }
    if (block_seconds(index, block) >= limit) {
      merged.push_back(block);
    } else if (merged.empty() || merged.back().runs_once ||
               (!limits.merges_backward && is_better_with_successor(index, block))) {
      pending = block;
      has_pending = true;
    } else {
      append(merged.back(), block);
    }
  }
  if (has_pending && (merged.empty() || merged.back().runs_once)) {
    merged.push_back(pending);
  } else if (has_pending) {
    append(merged.back(), pending);
  }
  blocks = std::move(merged);
}

void merge_pairs(IndexVector<Block>& blocks) {
  std::vector<Block> merged;
  size_t i = 0;
  if (blocks.front().runs_once) merged.push_back(blocks[i++]);
  for (; i < blocks.size(); i += 2) {
    merged.push_back(blocks[i]);
    if (i + 1 < blocks.size()) append(merged.back(), blocks[i + 1]);
  }
  blocks = std::move(merged);
}

// Walks the backward part and hands each op to the earliest block read so far. An op that reads
// only the storage between two blocks belongs to the one that makes it, which then may keep it or
// make it again; but not before the last op that reads inside the later block.
void attribute_backward(const ProblemIndex& index, Chain& chain) {
  const auto last = static_cast<int32_t>(chain.blocks.size()) - 1;
  // The earliest block whose inside it reads, and the earliest it reads from at all.
  IdVector<OpId, int32_t> inside(index.op_count(), -1);
  IdVector<OpId, int32_t> wanted(index.op_count(), last);
  for (const OpId op : index.backward_ids()) {
    for (const StorageId input : index.op(op).inputs) {
      const int32_t block = chain.block_of[input];
      if (block < 0 || chain.is_pinned[input]) continue;
      wanted[op] = std::min(wanted[op], block);
      const bool is_behind = block < last && contains(chain.blocks[block].output, input);
      if (!is_behind) inside[op] = inside[op] < 0 ? block : std::min(inside[op], block);
    }
  }
  // The latest block that later ops read inside.
  IdVector<OpId, int32_t> still_read(index.op_count() + 1, -1);
  for (const OpId op : index.backward_ids().backwards())
    still_read[op] = std::max(still_read[op + 1], inside[op]);
  int32_t current = last;
  for (Block& block : chain.blocks) block.backward_first = block.backward_end = index.end_op();
  chain.blocks.back().backward_first = index.backward_begin;
  for (const OpId op : index.backward_ids()) {
    const int32_t needed = std::min(current, std::max(wanted[op], still_read[op]));
    for (; current > needed; --current) {
      chain.blocks[current].backward_end = op;
      chain.blocks[current - 1].backward_first = op;
    }
  }
  chain.blocks[current].backward_end = index.end_op();
}

// A storage read by the backward of a block that neither makes it nor takes it as input stays for
// good.
void pin_straddling(const ProblemIndex& index, Chain& chain) {
  for (int32_t b = 0; b < static_cast<int32_t>(chain.blocks.size()); ++b) {
    const Block& block = chain.blocks[b];
    for (OpId op = block.backward_first; op < block.backward_end; ++op) {
      for (const StorageId input : index.op(op).inputs) {
        const int32_t home = chain.block_of[input];
        if (home >= 0 && home != b && !contains(block.input, input)) chain.is_pinned[input] = true;
      }
    }
  }
}

void classify(const ProblemIndex& index, Chain& chain) {
  std::map<std::vector<int64_t>, int32_t> classes;
  for (Block& block : chain.blocks) {
    stop_point();
    std::map<StorageId, int64_t> local;
    std::vector<int64_t> key;
    const auto add_storage = [&](StorageId id) {
      if (index.storage(id).resident) {
        key.push_back(-2);
        return;
      }
      const auto [found, is_new] = local.emplace(id, static_cast<int64_t>(local.size()));
      key.push_back(found->second);
      if (is_new) {
        key.push_back(index.storage(id).bytes);
        key.push_back(chain.is_pinned[id] ? 1 : 0);
      }
    };
    for (const StorageId input : block.input) add_storage(input);
    key.push_back(-1);
    const auto add_ops = [&](OpId first, OpId end) {
      for (OpId id = first; id < end; ++id) {
        const Op& op = index.op(id);
        key.push_back(static_cast<int64_t>(op.signature));
        key.push_back(std::bit_cast<int64_t>(op.seconds));
        key.push_back(op.scratch_bytes);
        key.push_back(index.runs_once[id] ? 1 : 0);
        for (const StorageId input : op.inputs) add_storage(input);
        key.push_back(-1);
        for (const StorageId output : op.outputs) add_storage(output);
        for (const auto& [output, input] : op.reuses) {
          key.push_back(-4);
          add_storage(output);
          add_storage(input);
        }
      }
      key.push_back(-3);
    };
    add_ops(block.first, block.end);
    add_ops(block.backward_first, block.backward_end);
    for (const StorageId output : block.output) add_storage(output);
    // Where a storage is used after the block's own ops is part of the structure too.
    for (const auto& [id, place] : local) {
      const auto& consumers = index.consumers[id];
      const bool leaves =
          index.in_keep[id] || (!consumers.empty() && consumers.back() >= block.backward_end);
      if (leaves) key.push_back(-10 - place);
    }
    block.class_id =
        classes.emplace(std::move(key), static_cast<int32_t>(classes.size())).first->second;
  }
  chain.class_count = static_cast<int32_t>(classes.size());
}

}  // namespace

Chain find_blocks(const ProblemIndex& index, const BlockLimits& limits) {
  Chain chain;
  const IdVector<StorageId, int32_t> spans = forward_spans(index);
  const CutChoice choice = choose_cuts(index, spans);
  chain.is_pinned = choice.is_carried;
  chain.block_of.assign(spans.size(), -1);
  if (index.forward_ids().empty()) return chain;

  chain.blocks = make_blocks(index, find_cuts(index, spans, choice.is_carried, choice.limit_bytes));
  merge_small(index, limits, chain.blocks);
  while (static_cast<int32_t>(chain.blocks.size()) > limits.max_blocks) merge_pairs(chain.blocks);
  for (size_t b = 0; b < chain.blocks.size(); ++b) {
    for (OpId op = chain.blocks[b].first; op < chain.blocks[b].end; ++op) {
      for (const StorageId output : index.op(op).outputs) {
        if (index.storage(output).resident) continue;
        chain.block_of[output] = static_cast<int32_t>(b);
        const bool is_decided =
            chain.blocks[b].runs_once && contains(chain.blocks[b].output, output);
        if (index.runs_once[op] && !is_decided) chain.is_pinned[output] = true;
      }
    }
  }
  for (const StorageId id : index.problem.keep) chain.is_pinned[id] = true;
  attribute_backward(index, chain);
  pin_straddling(index, chain);
  classify(index, chain);
  return chain;
}

}  // namespace snug::plan
