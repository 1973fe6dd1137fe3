// SPDX-License-Identifier: Apache-2.0
// States as a whole: what is retained as spans, to remember them and come back, and schedules.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "plan/graphs/retention.h"

namespace snug::plan {

std::vector<Retention::Span> Retention::spans() const {
  std::vector<Span> all;
  for (const ArenaId id : graph_.bytes.ids()) add_spans(id, all);
  return all;
}

// Between two touches a storage is retained throughout or not at all.
void Retention::add_spans(ArenaId storage, std::vector<Span>& spans) const {
  int32_t from = graph_.producer[storage];
  bool goes_on = false;  // the newest span ends at `from`
  for (;;) {
    const int32_t next = touches_.first_from(storage, from + 1);
    if (next == Touches::kNoneBehind) return;
    const bool is_there = is_retained(storage, next);
    if (is_there && goes_on) {
      spans.back().last = next;
    } else if (is_there) {
      spans.push_back({storage, from + 1, next});
    }
    goes_on = is_there;
    from = next;
  }
}

// All from what is retained.
bool Retention::build(std::span<const Span> spans) {
  const auto stages = static_cast<size_t>(graph_.op_count) + 1;
  std::fill(bits_.begin(), bits_.end(), 0);
  touches_.clear();
  runs_.resize(stages);
  for (auto& runs : runs_) runs.clear();
  peak_.reset(stages);
  retained_bytes_.reset(stages);
  commit();
  clear_candidates();
  extra_cost_ = 0;
  for (const ArenaId id : graph_.bytes.ids()) touches_.add(id, graph_.producer[id]);
  for (int32_t t = 0; t <= graph_.op_count; ++t) {
    own_[t] = t;
    for (const ArenaId input : graph_.inputs[t]) touches_.add(input, t);
  }
  for (const Span& each : spans) {
    write_bits(each.storage, each.first, each.last, true);
    const auto bytes = static_cast<double>(graph_.bytes[each.storage]);
    retained_bytes_.add(each.first, each.last, bytes);
    const int32_t producer = graph_.producer[each.storage];
    if (each.first != producer + 1) runs_[each.first - 1].push_back(producer);
    add_candidate(each.storage, each.last);  // a schedule may have a run there that nothing needs
  }
  for (int32_t t = graph_.op_count; t >= 0; --t) {
    auto& runs = runs_[t];
    std::sort(runs.begin(), runs.end());
    runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
    replace_runs(t, {}, runs);
    mark_dirty(t);
  }
  const bool is_valid = settle();
  commit();
  return is_valid;
}

// Everything until its last use by an op itself: in another order a variant may read what was
// written over.
void Retention::keep_all() {
  std::vector<Span> all;
  for (const ArenaId id : graph_.bytes.ids()) {
    const auto readers = graph_.readers[id];
    const auto last = std::find_if(readers.rbegin(), readers.rend(),
                                   [&](int32_t op) { return graph_.reads(op, id); });
    if (last != readers.rend()) all.push_back({id, graph_.producer[id] + 1, *last});
  }
  SNUG_CHECK(build(all), "the listed order is not valid");
}

// The cost is summed from nothing, so that no rounding tells where the state came from. Ways that
// are others within another limit may not go with ops that write over what they need; then it is
// the state within its own limit, or keeps all.
void Retention::restore(const Snapshot& snapshot) {
  commit();
  const int64_t work = work_;
  if (!change_to(snapshot.spans) && !build(snapshot.spans)) {
    SNUG_CHECK(graph_.has_variants, "a snapshot that no schedule has");
    const double limit = std::exchange(limit_, snapshot.limit);
    if (!build(snapshot.spans)) keep_all();
    limit_ = limit;
  }
  work_ = work;  // to come back is no search
  commit();
  sum_cost();
}

// Only what differs is evaluated anew. False, and anything done, where that is much or ends
// elsewhere.
bool Retention::change_to(std::span<const Span> then) {
  constexpr size_t kMuch = 4;  // one in so many storages
  const std::vector<Span> now = spans();
  // The spans of each storage that has others than before.
  struct Change {
    ArenaId storage;
    size_t begin;
    size_t end;
  };
  std::vector<Change> changes;
  size_t at = 0;
  size_t begin = 0;
  for (const ArenaId id : graph_.bytes.ids()) {
    size_t end = begin;
    bool is_same = true;
    for (; end < then.size() && then[end].storage == id; ++end) {
      is_same = is_same && at < now.size() && now[at] == then[end];
      at += is_same ? 1 : 0;
    }
    is_same = is_same && (at == now.size() || now[at].storage != id);
    while (at < now.size() && now[at].storage == id) ++at;
    if (!is_same) changes.push_back({id, begin, end});
    begin = end;
  }
  if (changes.size() > graph_.bytes.size() / kMuch) return false;
  for (const Change& each : changes) {
    int32_t next = graph_.producer[each.storage] + 1;
    for (const Span& span : then.subspan(each.begin, each.end - each.begin)) {
      change_bits(each.storage, next, span.first - 1, false);
      change_bits(each.storage, span.first, span.last, true);
      next = span.last + 1;
    }
    change_bits(each.storage, next, graph_.op_count, false);
  }
  return settle() && std::ranges::equal(spans(), then);
}

void Retention::sum_cost() {
  extra_cost_ = 0;
  for (int32_t t = 0; t <= graph_.op_count; ++t) {
    for (const int32_t way : runs(t)) extra_cost_ += graph_.cost[way];
    if (own_[t] != t) extra_cost_ += graph_.cost[own_[t]] - graph_.cost[t];
  }
}

bool Retention::drop_all() {
  const Snapshot before = snapshot();
  std::vector<Span> left;
  for (const Span& each : before.spans) {
    const int32_t producer = graph_.producer[each.storage];
    const int32_t last = graph_.last_stage[producer];
    // Behind the op's last stage the storage stays.
    const int32_t first = last == producer ? each.first : std::max(each.first, last + 1);
    if (first <= each.last) left.push_back({each.storage, first, each.last});
  }
  if (build(left)) return true;
  restore(before);
  return false;
}

bool Retention::take(std::span<const OpId> schedule) {
  const Snapshot before = snapshot();
  std::vector<Span> spans;
  IdVector<ArenaId, Span> newest(graph_.bytes.size(), Span{kNone, 0, -1});
  IdVector<ArenaId, int32_t> made_in(graph_.bytes.size(), -1);  // the stage of the newest making
  const auto read = [&](ArenaId id, int32_t stage) {
    if (made_in[id] < 0 || made_in[id] >= stage) return;
    Span& span = newest[id];
    if (span.last < made_in[id]) {
      if (span.storage != kNone) spans.push_back(span);
      span = {id, made_in[id] + 1, stage};
    }
    span.last = stage;
  };
  int32_t stage = 0;
  bool is_in_order = true;
  for (const OpId each : schedule) {
    const int32_t way = graph_.way_of[each];
    const int32_t op = graph_.op_of(way);
    is_in_order = is_in_order && op <= stage;
    for (const ArenaId input : graph_.inputs[way]) read(input, stage);
    for (const ArenaId output : graph_.outputs[op]) made_in[output] = stage;
    if (op == stage) ++stage;
  }
  for (const ArenaId kept : graph_.inputs[graph_.op_count]) read(kept, graph_.op_count);
  for (const Span& each : newest) {
    if (each.storage != kNone) spans.push_back(each);
  }
  if (is_in_order && stage == graph_.op_count && build(spans)) return true;
  restore(before);
  return false;
}

std::vector<OpId> Retention::schedule() const {
  std::vector<OpId> result;
  for (int32_t t = 0; t <= graph_.op_count; ++t) {
    for (const int32_t way : runs(t)) result.push_back(graph_.run_ids[way]);
    if (t < graph_.op_count) result.push_back(graph_.run_ids[own_[t]]);
  }
  return result;
}

double Retention::cost() const {
  IdVector<OpId, int32_t> counts(graph_.way_of.size(), 0);
  for (const OpId id : schedule()) ++counts[id];
  double sum = 0;
  for (const OpId id : counts.ids()) sum += counts[id] * graph_.cost[graph_.way_of[id]];
  return sum;
}

}  // namespace snug::plan
