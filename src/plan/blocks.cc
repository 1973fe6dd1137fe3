// SPDX-License-Identifier: Apache-2.0
#include "plan/blocks.h"

#include <algorithm>
#include <bit>
#include <map>

namespace snug::plan {
namespace {

constexpr size_t kMaxCarryTrials = 24;
constexpr double kSmallBlock = 0.125;  // of the typical block's seconds: merged into a neighbour

// Steps from the making of a storage to its last forward use; 0 where it does not leave its op.
std::vector<int32_t> forward_spans(const ProblemIndex& index) {
  std::vector<int32_t> spans(static_cast<size_t>(index.storage_count()), 0);
  for (StorageId id = 0; id < index.storage_count(); ++id) {
    const auto position = static_cast<size_t>(id);
    const OpId producer = index.producer[position];
    if (producer < 0 || producer >= index.backward_begin) continue;
    for (const OpId consumer : index.consumers[position]) {
      if (consumer < index.backward_begin)
        spans[position] = std::max(spans[position], consumer - producer);
    }
  }
  return spans;
}

struct Cut {
  OpId after;          // the last forward op before the cut
  StorageId crossing;  // -1: nothing crosses
};

std::vector<Cut> find_cuts(const ProblemIndex& index, const std::vector<int32_t>& spans,
                           const std::vector<bool>& is_carried) {
  const auto ops = static_cast<size_t>(index.backward_begin);
  std::vector<int32_t> count(ops + 1, 0);
  std::vector<int64_t> ids(ops + 1, 0);
  for (size_t id = 0; id < spans.size(); ++id) {
    if (spans[id] == 0 || is_carried[id]) continue;
    const auto producer = static_cast<size_t>(index.producer[id]);
    const size_t end = producer + static_cast<size_t>(spans[id]);
    ++count[producer];
    --count[end];
    ids[producer] += static_cast<int64_t>(id);
    ids[end] -= static_cast<int64_t>(id);
  }
  std::vector<Cut> cuts;
  int32_t crossing = 0;
  int64_t sum = 0;
  for (size_t op = 0; op + 1 < ops; ++op) {
    crossing += count[op];
    sum += ids[op];
    if (crossing == 1) cuts.push_back({static_cast<OpId>(op), static_cast<StorageId>(sum)});
    if (crossing == 0) cuts.push_back({static_cast<OpId>(op), -1});
  }
  return cuts;
}

// What recomputing every block would need: carried + articulations + the largest block. The carried
// set is chosen for it.
int64_t recompute_all_estimate(const ProblemIndex& index, const std::vector<bool>& is_carried,
                               const std::vector<Cut>& cuts) {
  int64_t total = 0;
  std::vector<bool> is_counted(is_carried.size(), false);
  for (size_t id = 0; id < is_carried.size(); ++id) {
    if (is_carried[id]) total += index.storage(static_cast<StorageId>(id)).bytes;
  }
  int64_t largest = 0;
  int64_t block = 0;
  size_t next_cut = 0;
  for (OpId op = 0; op < index.backward_begin; ++op) {
    for (const StorageId output : index.op(op).outputs) {
      if (!is_carried[static_cast<size_t>(output)]) block += index.arena_bytes(output);
    }
    if (next_cut < cuts.size() && cuts[next_cut].after == op) {
      const StorageId crossing = cuts[next_cut++].crossing;
      if (crossing >= 0 && !is_counted[static_cast<size_t>(crossing)]) {
        is_counted[static_cast<size_t>(crossing)] = true;
        total += index.storage(crossing).bytes;
      }
      largest = std::max(largest, block);
      block = 0;
    }
  }
  return total + std::max(largest, block);
}

std::vector<bool> choose_carried(const ProblemIndex& index, const std::vector<int32_t>& spans) {
  std::vector<bool> prologue(spans.size(), false);
  for (size_t id = 0; id < spans.size(); ++id) {
    const OpId producer = index.producer[id];
    if (producer >= 0 && index.op(producer).phase == Phase::prologue) prologue[id] = true;
  }
  std::vector<bool> best = prologue;
  int64_t best_estimate = recompute_all_estimate(index, best, find_cuts(index, spans, best));
  std::vector<int32_t> thresholds = spans;
  std::sort(thresholds.begin(), thresholds.end(), std::greater<>());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  if (thresholds.size() > kMaxCarryTrials) thresholds.resize(kMaxCarryTrials);
  for (const int32_t threshold : thresholds) {
    if (threshold < 2) break;
    std::vector<bool> trial = prologue;
    for (size_t id = 0; id < spans.size(); ++id) {
      if (spans[id] >= threshold) trial[id] = true;
    }
    const int64_t estimate = recompute_all_estimate(index, trial, find_cuts(index, spans, trial));
    if (estimate < best_estimate) {
      best_estimate = estimate;
      best = std::move(trial);
    }
  }
  return best;
}

std::vector<Block> make_blocks(const ProblemIndex& index, const std::vector<Cut>& cuts) {
  std::vector<Block> blocks;
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
    const auto& consumers = index.consumers[static_cast<size_t>(id)];
    return !consumers.empty() && consumers.back() >= index.backward_begin;
  };
  bool reads_inside = block.input >= 0 && is_read_backward(block.input);
  for (OpId op = block.first; op < block.end; ++op) {
    for (const StorageId output : index.op(op).outputs) {
      if (output != block.output && is_read_backward(output)) reads_inside = true;
    }
  }
  return reads_inside || block.output < 0 || !is_read_backward(block.output);
}

// Only inputs, and one storage goes on from them: the chain decides how long that stays.
bool is_once_only(const ProblemIndex& index, const Block& block) {
  if (block.first != 0 || block.output < 0) return false;
  for (OpId op = block.first; op < block.end; ++op) {
    if (!index.runs_once[static_cast<size_t>(op)]) return false;
  }
  return true;
}

void merge_small(const ProblemIndex& index, bool merges_backward, std::vector<Block>& blocks) {
  double sum = 0;
  double squares = 0;
  for (const Block& block : blocks) {
    const double seconds = block_seconds(index, block);
    sum += seconds;
    squares += seconds * seconds;
  }
  const double limit = sum > 0 ? kSmallBlock * squares / sum : 0;
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
               (!merges_backward && is_better_with_successor(index, block))) {
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

void merge_pairs(std::vector<Block>& blocks) {
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
  const auto tail = static_cast<size_t>(index.op_count() - index.backward_begin);
  // Per op: the earliest block whose inside it reads, and the earliest it reads from at all.
  std::vector<int32_t> inside(tail, -1);
  std::vector<int32_t> wanted(tail, last);
  for (size_t i = 0; i < tail; ++i) {
    for (const StorageId input : index.op(index.backward_begin + static_cast<OpId>(i)).inputs) {
      const int32_t block = chain.block_of[static_cast<size_t>(input)];
      if (block < 0 || chain.is_pinned[static_cast<size_t>(input)]) continue;
      wanted[i] = std::min(wanted[i], block);
      const bool is_cut = block < last && chain.blocks[static_cast<size_t>(block)].output == input;
      if (!is_cut) inside[i] = inside[i] < 0 ? block : std::min(inside[i], block);
    }
  }
  std::vector<int32_t> still_read(tail + 1, -1);  // the latest block that later ops read inside
  for (size_t i = tail; i-- > 0;) still_read[i] = std::max(still_read[i + 1], inside[i]);
  int32_t current = last;
  for (Block& block : chain.blocks) block.backward_first = block.backward_end = index.op_count();
  chain.blocks.back().backward_first = index.backward_begin;
  for (size_t i = 0; i < tail; ++i) {
    const int32_t needed = std::min(current, std::max(wanted[i], still_read[i]));
    for (; current > needed; --current) {
      const OpId op = index.backward_begin + static_cast<OpId>(i);
      chain.blocks[static_cast<size_t>(current)].backward_end = op;
      chain.blocks[static_cast<size_t>(current) - 1].backward_first = op;
    }
  }
  chain.blocks[static_cast<size_t>(current)].backward_end = index.op_count();
}

// A storage read by the backward of a block that neither makes it nor takes it as input stays for
// good.
void pin_straddling(const ProblemIndex& index, Chain& chain) {
  for (int32_t b = 0; b < static_cast<int32_t>(chain.blocks.size()); ++b) {
    const Block& block = chain.blocks[static_cast<size_t>(b)];
    for (OpId op = block.backward_first; op < block.backward_end; ++op) {
      for (const StorageId input : index.op(op).inputs) {
        const int32_t home = chain.block_of[static_cast<size_t>(input)];
        if (home >= 0 && home != b && input != block.input)
          chain.is_pinned[static_cast<size_t>(input)] = true;
      }
    }
  }
}

void classify(const ProblemIndex& index, Chain& chain) {
  std::map<std::vector<int64_t>, int32_t> classes;
  for (Block& block : chain.blocks) {
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
        key.push_back(chain.is_pinned[static_cast<size_t>(id)] ? 1 : 0);
      }
    };
    if (block.input >= 0) add_storage(block.input);
    const auto add_ops = [&](OpId first, OpId end) {
      for (OpId id = first; id < end; ++id) {
        const Op& op = index.op(id);
        key.push_back(static_cast<int64_t>(op.signature));
        key.push_back(std::bit_cast<int64_t>(op.seconds));
        key.push_back(op.scratch_bytes);
        key.push_back(index.runs_once[static_cast<size_t>(id)] ? 1 : 0);
        for (const StorageId input : op.inputs) add_storage(input);
        key.push_back(-1);
        for (const StorageId output : op.outputs) add_storage(output);
      }
      key.push_back(-3);
    };
    add_ops(block.first, block.end);
    add_ops(block.backward_first, block.backward_end);
    key.push_back(block.output < 0 ? -1 : local[block.output]);
    // Where a storage is used after the block's own ops is part of the structure too.
    for (const auto& [id, place] : local) {
      const auto& consumers = index.consumers[static_cast<size_t>(id)];
      const bool leaves = index.in_keep[static_cast<size_t>(id)] ||
                          (!consumers.empty() && consumers.back() >= block.backward_end);
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
  const std::vector<int32_t> spans = forward_spans(index);
  const std::vector<bool> is_carried = choose_carried(index, spans);
  chain.is_pinned = is_carried;
  chain.block_of.assign(spans.size(), -1);
  if (index.backward_begin == 0) return chain;

  chain.blocks = make_blocks(index, find_cuts(index, spans, is_carried));
  merge_small(index, limits.merges_backward, chain.blocks);
  while (static_cast<int32_t>(chain.blocks.size()) > limits.max_blocks) merge_pairs(chain.blocks);
  for (size_t b = 0; b < chain.blocks.size(); ++b) {
    for (OpId op = chain.blocks[b].first; op < chain.blocks[b].end; ++op) {
      for (const StorageId output : index.op(op).outputs) {
        if (index.storage(output).resident) continue;
        chain.block_of[static_cast<size_t>(output)] = static_cast<int32_t>(b);
        const bool is_decided = chain.blocks[b].runs_once && output == chain.blocks[b].output;
        if (index.runs_once[static_cast<size_t>(op)] && !is_decided)
          chain.is_pinned[static_cast<size_t>(output)] = true;
      }
    }
  }
  for (const StorageId id : index.problem.keep) chain.is_pinned[static_cast<size_t>(id)] = true;
  attribute_backward(index, chain);
  pin_straddling(index, chain);
  classify(index, chain);
  return chain;
}

}  // namespace snug::plan
