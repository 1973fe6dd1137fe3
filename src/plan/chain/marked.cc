// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/marked.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "base/wildcard.h"
#include "plan/chain/replay.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

using Part = std::vector<int32_t>;

[[noreturn]] void reject(const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, "recompute", what, hint);
}

size_t common_depth(const Part& a, const Part& b) {
  const size_t most = std::min(a.size(), b.size());
  size_t depth = 0;
  while (depth < most && a[depth] == b[depth]) ++depth;
  return depth;
}

// Later forward ops read it: so they can be run again from it.
bool can_be_kept(const ProblemIndex& index, StorageId id) {
  const auto& consumers = index.consumers[id];
  return index.producer[id] != kNone && !consumers.empty() &&
         consumers.front() < index.backward_begin;
}

bool is_forward(const ProblemIndex& index, StorageId id) {
  const OpId producer = index.producer[id];
  return producer != kNone && producer < index.backward_begin;
}

// All forward ops that lead to a kept storage are one part, and so is the whole backward part.
void part_before_marks(const ProblemIndex& index, Marks& marks) {
  marks.parts.assign(index.op_count(), {0});
  IdVector<StorageId, bool> leads(marks.is_kept);
  for (const OpId op : index.forward_ids().backwards()) {
    const auto& outputs = index.op(op).outputs;
    const bool leads_to_mark =
        std::any_of(outputs.begin(), outputs.end(), [&](StorageId id) { return leads[id]; });
    if (!leads_to_mark) {
      marks.parts[op].clear();
      continue;
    }
    for (const StorageId input : index.op(op).inputs) leads[input] = true;
  }
}

std::vector<std::string_view> split(std::string_view patterns) {
  IndexVector<std::string_view> parts;
  while (!patterns.empty()) {
    const size_t end = std::min(patterns.find(';'), patterns.size());
    if (end > 0) parts.push_back(patterns.substr(0, end));
    patterns.remove_prefix(std::min(end + 1, patterns.size()));
  }
  return parts;
}

class Scheduler {
 public:
  Scheduler(const ProblemIndex& index, const Marks& marks, IdVector<StorageId, bool>& is_pinned)
      : index_(index),
        marks_(marks),
        replay_(index, is_pinned),
        visible_depth_(is_pinned.size(), 0) {
    for (const StorageId id : index.storage_ids()) find_depth(id);
  }

  void run() {
    for (const OpId op : index_.forward_ids()) replay_.run(op);
    for (const OpId op : index_.forward_ids()) settle(op, {});
    for (const OpId op : index_.backward_ids()) {
      make_available(index_.op(op).inputs, part(op));
      replay_.run(op);
    }
    SNUG_CHECK(!replay_.is_stuck(), "the given order is not valid");
  }

  [[nodiscard]] bool is_stale() const { return replay_.is_stale(); }
  [[nodiscard]] std::vector<OpId>& schedule() { return replay_.schedule(); }

 private:
  [[nodiscard]] const Part& part(OpId op) const { return marks_.parts[op]; }

  // How much of its maker's parts all have in common that read the storage when its part runs
  // again: backward ops, and forward ops of other parts, which are run again from it.
  void find_depth(StorageId id) {
    if (!is_forward(index_, id)) return;
    const Part& own = part(index_.producer[id]);
    size_t depth = own.size();
    for (const OpId reader : index_.consumers[id]) {
      const size_t common = common_depth(own, part(reader));
      if (reader >= index_.backward_begin || part(reader).size() > common)
        depth = std::min(depth, common);
    }
    visible_depth_[id] = depth;
  }

  // Whether what the op made stays for a backward op of `context`.
  [[nodiscard]] bool stays(StorageId id, const Part& context) const {
    if (marks_.is_kept[id] || !is_forward(index_, id)) return true;
    return visible_depth_[id] <= common_depth(part(index_.producer[id]), context);
  }

  // After a forward op, or several, ran for a backward op of `context`.
  void settle(OpId op, const Part& context) {
    for (const StorageId output : index_.op(op).outputs) {
      if (!stays(output, context)) replay_.drop(output);
    }
  }

  void make_available(const std::vector<StorageId>& wanted, const Part& context) {
    for (const OpId op : replay_.make_available(wanted)) settle(op, context);
  }

  const ProblemIndex& index_;
  const Marks& marks_;
  Replay replay_;
  IdVector<StorageId, size_t> visible_depth_;
};

}  // namespace

Marks declared_marks(const ProblemIndex& index) {
  Marks marks;
  marks.is_kept.assign(index.storage_count(), false);
  bool has_marks = false;
  for (const StorageId id : index.storage_ids()) {
    const Storage& storage = index.storage(id);
    if (!storage.is_marked || storage.resident) continue;
    if (!can_be_kept(index, id))
      reject("the mark on '" + storage.name + "' keeps nothing: no later forward op reads it",
             "mark what the network goes on from, not its end");
    has_marks = marks.is_kept[id] = true;
  }
  bool has_parts = false;
  for (const OpId op : index.op_ids()) {
    marks.parts.push_back(index.op(op).parts);
    has_parts = has_parts || !index.op(op).parts.empty();
  }
  if (!has_parts && !has_marks)
    reject("'marked' recomputes what the network marks, and it marks nothing that can be kept",
           "mark tensors with keep, build parts of it with checkpoint, or let the budget decide");
  if (!has_parts) part_before_marks(index, marks);
  for (const StorageId id : index.storage_ids()) {
    if (!has_parts || !marks.is_kept[id]) continue;
    if (marks.parts[index.producer[id]].empty())
      reject("the mark on '" + index.storage(id).name +
                 "' saves nothing: it is outside of every checkpointed part, where all is kept",
             "omit it, or mark within the part");
  }
  return marks;
}

Marks named_marks(const ProblemIndex& index, std::string_view patterns) {
  Marks marks;
  marks.is_kept.assign(index.storage_count(), false);
  bool has_marks = false;
  for (const std::string_view pattern : split(patterns)) {
    bool is_known = false;
    for (const StorageId id : index.storage_ids()) {
      const Storage& storage = index.storage(id);
      if (!matches_wildcard(pattern, storage.name)) continue;
      is_known = is_known || storage.resident;  // always there
      if (storage.resident || !is_forward(index, id) || !can_be_kept(index, id)) continue;
      is_known = has_marks = marks.is_kept[id] = true;
    }
    if (!is_known)
      reject("the mark '" + std::string(pattern) +
                 "' keeps nothing: no tensor that later forward ops read has such a name",
             "`snug plan --json` lists names under peak_tensors; * matches any text");
  }
  if (!has_marks)
    reject("the marks '" + std::string(patterns) + "' keep nothing that is not always there",
           "mark tensors that the network computes");
  part_before_marks(index, marks);
  return marks;
}

std::vector<OpId> marked_schedule(const ProblemIndex& index, const Marks& marks) {
  IdVector<StorageId, bool> is_pinned(index.storage_count(), false);
  for (const OpId op : index.forward_ids()) {
    if (!index.runs_once[op]) continue;
    for (const StorageId output : index.op(op).outputs) is_pinned[output] = true;
  }
  // Every pass that is in vain pins something.
  while (true) {
    Scheduler scheduler(index, marks, is_pinned);
    scheduler.run();
    if (!scheduler.is_stale()) return std::move(scheduler.schedule());
  }
}

}  // namespace snug::plan
