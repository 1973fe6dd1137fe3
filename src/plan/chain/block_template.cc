// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/block_template.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/stop.h"

namespace snug::plan {
namespace {

constexpr int32_t kOverwrittenAtOnce = -2;  // the last step of what the first step overwrites

// Bytes in use over a run of steps; instances are added as [first, last].
class Profile {
 public:
  explicit Profile(size_t steps) : change_(steps + 1, 0) {}
  void add(int32_t first, int32_t last, int64_t bytes) {
    change_[first] += bytes;
    change_[last + 1] -= bytes;
  }
  [[nodiscard]] int64_t peak() const {
    int64_t in_use = 0;
    int64_t peak = 0;
    for (const int64_t delta : change_) peak = std::max(peak, in_use += delta);
    return peak;
  }

 private:
  IndexVector<int64_t> change_;
};

}  // namespace

LocalId BlockTemplate::local_of(StorageId id) const {
  const auto found =
      std::lower_bound(sorted_ids_.begin(), sorted_ids_.end(), std::pair(id, LocalId(0)));
  return found != sorted_ids_.end() && found->first == id ? found->second : kNone;
}

LocalId BlockTemplate::add_storage(const ProblemIndex& index, StorageId id,
                                   IdVector<StorageId, LocalId>& local_by_id) {
  LocalId& local = local_by_id[id];
  if (local != kNone) return local;
  TemplateStorage storage;
  storage.id = id;
  storage.bytes = index.arena_bytes(id);
  local = storages_.add(storage);
  producer_.push_back(-1);
  return local;
}

BlockTemplate::LocalOp BlockTemplate::add_op(const ProblemIndex& index, const Chain& chain, OpId id,
                                             IdVector<StorageId, LocalId>& local_by_id) {
  const Op& op = index.op(id);
  LocalOp local;
  local.scratch_bytes = op.scratch_bytes;
  local.seconds = op.seconds;
  const auto add = [&](const std::vector<StorageId>& from, std::vector<LocalId>& to) {
    for (const StorageId storage : from) {
      if (index.storage(storage).resident) continue;
      const bool is_forward = chain.block_of[storage] >= 0;
      if (is_forward && chain.is_pinned[storage]) continue;
      to.push_back(add_storage(index, storage, local_by_id));
    }
  };
  add(op.inputs, local.inputs);
  add(op.outputs, local.outputs);
  for (const auto& [output, input] : op.reuses) {
    const LocalId place = local_by_id[input];
    if (place != kNone && local_by_id[output] != kNone &&
        index.arena_bytes(output) == index.arena_bytes(input))
      local.overwritten.push_back(place);
  }
  return local;
}

BlockTemplate::BlockTemplate(const ProblemIndex& index, const Chain& chain, const Block& block,
                             int64_t entry_bytes, IdVector<StorageId, LocalId>& local_by_id)
    : foreign_bytes_(entry_bytes) {
  for (const StorageId id : block.input) {
    if (chain.is_pinned[id]) continue;
    TemplateStorage& input = storages_[add_storage(index, id, local_by_id)];
    input.is_input = true;
    input.is_forward = true;
  }
  for (OpId op = block.first; op < block.end; ++op) {
    forward_.push_back(add_op(index, chain, op, local_by_id));
    forward_seconds_ += index.op(op).seconds;
    for (const LocalId output : forward_.back().outputs) {
      storages_[output].is_forward = true;
      producer_[output] = static_cast<int32_t>(forward_.size()) - 1;
    }
  }
  for (const StorageId id : block.output) {
    const LocalId output = local_by_id[id];
    if (output != kNone) storages_[output].is_output = true;
  }
  for (OpId op = block.backward_first; op < block.backward_end; ++op) {
    backward_.push_back(add_op(index, chain, op, local_by_id));
    for (const LocalId input : backward_.back().inputs) {
      storages_[input].is_read_by_backward = true;
    }
  }
  for (TemplateStorage& storage : storages_) {
    if (storage.is_forward) continue;
    const OpId producer = index.producer[storage.id];
    const auto& consumers = index.consumers[storage.id];
    storage.is_live_at_entry = producer < block.backward_first;
    storage.leaves =
        index.in_keep[storage.id] || (!consumers.empty() && consumers.back() >= block.backward_end);
    if (storage.is_live_at_entry) foreign_bytes_ -= storage.bytes;
  }
  split_off_tail();
  sorted_ids_.reserve(storages_.size());
  for (const LocalId local : storage_ids()) {
    const StorageId id = storages_[local].id;
    sorted_ids_.emplace_back(id, local);
    local_by_id[id] = kNone;
  }
  std::sort(sorted_ids_.begin(), sorted_ids_.end());
}

void BlockTemplate::split_off_tail() {
  const auto reads_forward = [&](const LocalOp& op) {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](LocalId input) { return storages_[input].is_forward; });
  };
  tail_begin_ = backward_.size();
  while (tail_begin_ > 0 && !reads_forward(backward_[tail_begin_ - 1])) --tail_begin_;
  if (tail_begin_ == 0) tail_begin_ = backward_.size();  // nothing before it that it could follow
  head_end_ = storages_.end_id();
  if (tail_begin_ == backward_.size()) return;
  // Storages are numbered as they appear.
  head_end_ = LocalId(0);
  const auto count = [&](LocalId local) { head_end_ = std::max(head_end_, local + 1); };
  for (const LocalId id : storage_ids()) {
    if (storages_[id].is_forward || storages_[id].is_output) count(id);
  }
  for (size_t i = 0; i < backward_.size(); ++i) {
    for (const auto* locals : {&backward_[i].inputs, &backward_[i].outputs}) {
      for (const LocalId local : *locals) {
        if (i < tail_begin_) count(local);
        if (i >= tail_begin_) storages_[local].is_used_in_tail = true;
      }
    }
  }
  tail_peak_bytes_ = peak_of_tail();
  for (const LocalId id : IdRange(head_end_, storages_.end_id())) {
    if (storages_[id].is_live_at_entry) tail_entry_bytes_ += storages_[id].bytes;
  }
}

int64_t BlockTemplate::peak_of_tail() const {
  const auto begin = static_cast<int32_t>(tail_begin_);
  const auto end = static_cast<int32_t>(backward_.size()) - 1;
  IdVector<LocalId, int32_t> first(storages_.size(), begin);
  IdVector<LocalId, int32_t> last(storages_.size(), -1);
  Profile profile(backward_.size());
  for (int32_t step = begin; step <= end; ++step) {
    const LocalOp& op = backward_[step];
    profile.add(step, step, op.scratch_bytes);
    for (const LocalId input : op.inputs) last[input] = step;
    for (const LocalId output : op.outputs) {
      if (last[output] < 0) first[output] = step;
      last[output] = step;
    }
    for (const LocalId input : op.overwritten) last[input] = step - 1;
  }
  for (const LocalId i : storage_ids()) {
    const TemplateStorage& storage = storages_[i];
    if (storage.is_forward) continue;
    const int32_t stop = storage.leaves ? end : last[i];
    if (stop >= first[i]) profile.add(first[i], stop, storage.bytes);
  }
  return profile.peak();
}

int64_t BlockTemplate::input_bytes() const {
  int64_t bytes = 0;
  for (const TemplateStorage& storage : storages_) bytes += storage.is_input ? storage.bytes : 0;
  return bytes;
}

int64_t BlockTemplate::past_bytes() const {
  int64_t bytes = 0;
  for (const TemplateStorage& storage : storages_) {
    if (storage.is_input && storage.is_output) bytes += storage.bytes;
  }
  return bytes;
}

int64_t BlockTemplate::forward_peak(const IdVector<LocalId, bool>& is_saved) const {
  if (forward_.empty()) return 0;
  const auto end = static_cast<int32_t>(forward_.size()) - 1;
  IdVector<LocalId, int32_t> first(head_ids().size(), -1);
  IdVector<LocalId, int32_t> last(head_ids().size(), -1);
  for (int32_t step = 0; step <= end; ++step) {
    const LocalOp& op = forward_[step];
    for (const LocalId input : op.inputs) last[input] = step;
    for (const LocalId output : op.outputs) {
      first[output] = last[output] = step;
    }
  }
  Profile profile(forward_.size());
  for (const LocalId i : head_ids()) {
    const TemplateStorage& storage = storages_[i];
    if (!storage.is_forward) continue;
    const bool stays = is_saved[i] || storage.is_input || storage.is_output;
    profile.add(storage.is_input ? 0 : first[i], stays ? end : last[i], storage.bytes);
  }
  for (int32_t step = 0; step <= end; ++step) profile.add(step, step, forward_[step].scratch_bytes);
  return profile.peak();
}

bool BlockTemplate::append_closure(LocalId local, IdVector<LocalId, uint8_t>& is_available,
                                   IndexVector<const LocalOp*>& run, double& seconds) const {
  if (is_available[local] != 0) return true;
  const int32_t producer = producer_[local];
  if (producer < 0) return false;  // the input, not saved
  const LocalOp& op = forward_[producer];
  for (const LocalId input : op.inputs) {
    if (!append_closure(input, is_available, run, seconds)) return false;
  }
  for (const LocalId output : op.outputs) is_available[output] = 1;
  run.push_back(&op);
  seconds += op.seconds;
  return true;
}

std::optional<BlockOption> BlockTemplate::measure(const IdVector<LocalId, bool>& is_saved) const {
  stop_point();
  BlockOption option;
  IdVector<LocalId, uint8_t> is_available(head_ids().size(), 0);
  size_t inputs_left = 0;
  size_t outputs_left = 0;
  for (const LocalId i : head_ids()) {
    const TemplateStorage& storage = storages_[i];
    is_available[i] = !storage.is_forward || is_saved[i] ? 1 : 0;
    if (storage.is_input && is_saved[i]) option.saves_input = true;
    if (storage.is_output && is_saved[i]) option.saves_output = true;
    if (storage.is_input && !is_saved[i]) ++inputs_left;
    if (storage.is_output && !is_saved[i]) ++outputs_left;
    if (!storage.is_forward || !is_saved[i]) continue;
    option.saved.push_back(storage.id);
    option.saved_bytes += storage.bytes;
  }
  option.saves_input = option.saves_input && inputs_left == 0;
  option.saves_output = option.saves_output && outputs_left == 0;
  const auto is_counted_by_chain = [&](const TemplateStorage& storage) {
    return (storage.is_input && option.saves_input) || (storage.is_output && option.saves_output);
  };
  for (const LocalId i : head_ids()) {
    if (storages_[i].is_forward && is_saved[i] && !is_counted_by_chain(storages_[i]))
      option.inner_bytes += storages_[i].bytes;
  }
  // The backward peak leaves out the input set: it is there for whoever keeps it.
  const auto is_outside = [&](LocalId i) {
    return storages_[i].is_input && (option.saves_input || !is_saved[i]);
  };
  IndexVector<const LocalOp*> run;
  run.reserve(forward_.size() + tail_begin_);
  for (const LocalOp& op : std::span(backward_).first(tail_begin_)) {
    for (const LocalId input : op.inputs) {
      if (!append_closure(input, is_available, run, option.recompute_seconds)) return std::nullopt;
    }
    run.push_back(&op);
  }
  option.forward_peak_bytes = forward_peak(is_saved);
  if (run.empty()) {
    for (const LocalId i : head_ids()) {
      if (storages_[i].is_forward && is_saved[i] && !is_outside(i))
        option.backward_peak_bytes += storages_[i].bytes;
    }
    return option;
  }
  const auto end = static_cast<int32_t>(run.size()) - 1;
  IdVector<LocalId, int32_t> first(head_ids().size(), -1);
  IdVector<LocalId, int32_t> last(head_ids().size(), -1);
  Profile profile(run.size());
  for (int32_t step = 0; step <= end; ++step) {
    const LocalOp& op = *run[step];
    profile.add(step, step, op.scratch_bytes);
    for (const LocalId input : op.inputs) last[input] = step;
    for (const LocalId output : op.outputs) {
      if (first[output] < 0) first[output] = step;
      last[output] = std::max(last[output], step);
    }
    for (const LocalId input : op.overwritten)
      last[input] = step > 0 ? step - 1 : kOverwrittenAtOnce;
  }
  for (const LocalId i : head_ids()) {
    const TemplateStorage& storage = storages_[i];
    const bool from_start = storage.is_forward ? is_saved[i] : storage.is_live_at_entry;
    if (is_outside(i) || (!from_start && first[i] < 0)) continue;
    if (from_start && last[i] == kOverwrittenAtOnce && !storage.leaves) continue;
    const int32_t begin = from_start ? 0 : first[i];
    const bool stays = storage.leaves || storage.is_used_in_tail;
    const int32_t stop = stays ? end : std::max(last[i], begin);
    profile.add(begin, stop, storage.bytes);
  }
  option.backward_peak_bytes = std::max(profile.peak() + tail_entry_bytes_, tail_peak_bytes_);
  return option;
}

}  // namespace snug::plan
