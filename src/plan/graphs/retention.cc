// SPDX-License-Identifier: Apache-2.0
#include "plan/graphs/retention.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/index_vector.h"

namespace snug::plan {

Retention::Retention(const StageGraph& graph, int64_t limit_bytes)
    : graph_(graph), limit_(static_cast<double>(limit_bytes)), touches_(graph) {
  const auto stages = static_cast<size_t>(graph.op_count) + 1;
  const size_t storages = graph.bytes.size();
  dirty_.assign(stages / 64 + 1, 0);
  candidates_.assign(stages, {});
  op_mark_.assign(stages, 0);
  run_bits_.assign(stages / 64 + 1, 0);
  last_read_.assign(storages, 0);
  storage_mark_.assign(storages, 0);
  std::vector<Span> all;
  int64_t words = 0;
  for (const ArenaId id : graph.bytes.ids()) {
    const int32_t made = graph.producer[id] + 1;
    rows_.push_back({words, made / 64});
    words += graph.op_count / 64 - made / 64 + 1;
    const auto readers = graph.readers[id];
    if (!readers.empty()) all.push_back({id, made, readers.back()});
  }
  bits_.assign(words, 0);
  SNUG_CHECK(build(all), "the listed order is not valid");
}

// Only behind the storage's producer.
void Retention::write_bits(ArenaId storage, int32_t first, int32_t last, bool value) {
  const Row& row = rows_[storage];
  const int32_t first_word = first / 64;
  const int32_t last_word = last / 64;
  for (int32_t word = first_word; word <= last_word; ++word) {
    uint64_t mask = ~uint64_t{0};
    if (word == first_word) mask &= ~uint64_t{0} << (first % 64);
    if (word == last_word) mask &= ~uint64_t{0} >> (63 - last % 64);
    uint64_t& bits = bits_[row.begin + word - row.first_word];
    bits = value ? bits | mask : bits & ~mask;
  }
}

// The first of the boundaries first .. last where the storage is retained, or is not; the one
// behind them where there is none.
int32_t Retention::next_boundary(ArenaId storage, int32_t first, int32_t last,
                                 bool is_retained) const {
  const Row& row = rows_[storage];
  for (int32_t t = first; t <= last; t = (t / 64 + 1) * 64) {
    const uint64_t word = bits_[row.begin + t / 64 - row.first_word];
    const uint64_t left = (is_retained ? word : ~word) >> (t % 64);
    if (left != 0) return std::min(t + std::countr_zero(left), last + 1);
  }
  return last + 1;
}

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
  for (const ArenaId id : graph_.bytes.ids()) {
    touches_.add(id, graph_.producer[id]);
    for (const int32_t reader : graph_.readers[id]) touches_.add(id, reader);
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

// The cost is summed from nothing, so that no rounding tells where the state came from.
void Retention::restore(const Snapshot& snapshot) {
  commit();
  const int64_t work = work_;
  if (!change_to(snapshot.spans) && !build(snapshot.spans))
    SNUG_CHECK(false, "a snapshot that no schedule has");
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
    for (const int32_t op : runs(t)) extra_cost_ += graph_.cost[op];
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
    const int32_t op = graph_.stage_of[each];
    is_in_order = is_in_order && op <= stage;
    for (const ArenaId input : graph_.inputs[op]) read(input, stage);
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
    for (const int32_t op : runs(t)) result.push_back(graph_.op_ids[op]);
    if (t < graph_.op_count) result.push_back(graph_.op_ids[t]);
  }
  return result;
}

double Retention::cost() const {
  IdVector<OpId, int32_t> counts(graph_.op_ids.size(), 0);
  for (const OpId id : graph_.op_ids) ++counts[id];
  for (int32_t t = 0; t <= graph_.op_count; ++t) {
    for (const int32_t op : runs(t)) ++counts[graph_.op_ids[op]];
  }
  double sum = 0;
  for (const OpId id : counts.ids()) sum += counts[id] * graph_.cost[graph_.stage_of[id]];
  return sum;
}

void Retention::mark_dirty(int32_t stage) {
  if (stage < 0) return;
  const int32_t word = stage / 64;
  const uint64_t bit = uint64_t{1} << (stage % 64);
  dirty_count_ += (dirty_[word] & bit) == 0 ? 1 : 0;
  dirty_[word] |= bit;
  last_dirty_word_ = std::max(last_dirty_word_, word);
}

void Retention::add_candidate(ArenaId storage, int32_t stage) {
  if (stage < 0) return;
  if (candidates_[stage].empty()) candidate_stages_.push_back(stage);
  candidates_[stage].push_back(storage);
}

void Retention::clear_candidates() {
  for (const int32_t stage : candidate_stages_) candidates_[stage].clear();
  candidate_stages_.clear();
}

// The bytes of one storage, on the boundaries first .. last, and on the peaks of the stages between
// them: there it lives from end to end. Stages where it is touched are evaluated afterwards anyway.
void Retention::add_bytes(ArenaId storage, int32_t first, int32_t last, bool value) {
  double bytes = static_cast<double>(graph_.bytes[storage]);
  if (!value) bytes = -bytes;
  retained_bytes_.add(first, last, bytes);
  peak_.add(first, last - 1, bytes);
  work_ += (last - first) / 64 + 4;
}

void Retention::change_bits(ArenaId storage, int32_t first, int32_t last, bool value) {
  // Runs of boundaries that really change.
  for (int32_t t = next_boundary(storage, first, last, !value); t <= last;
       t = next_boundary(storage, t, last, !value)) {
    const int32_t end = next_boundary(storage, t, last, value) - 1;
    write_bits(storage, t, end, value);
    add_bytes(storage, t, end, value);
    Entry entry;
    entry.storage = storage;
    entry.first = t;
    entry.last = end;
    entry.value = value;
    journal_.push_back(entry);
    mark_dirty(t - 1);
    mark_dirty(end);
    add_candidate(storage, t - 1);
    add_candidate(storage, end);
    for (int32_t each = touches_.first_from(storage, t); each < end;
         each = touches_.first_from(storage, each + 1))
      mark_dirty(each);
    t = end + 1;
  }
}

// Evaluates dirty stages from the last to the first: whatever a stage trims lies before it.
bool Retention::settle(int64_t most_work) {
  const int64_t begin = work_;
  bool is_valid = true;
  while (dirty_count_ > 0) {
    while (dirty_[last_dirty_word_] == 0) --last_dirty_word_;
    uint64_t& word = dirty_[last_dirty_word_];
    const int32_t bit = 63 - std::countl_zero(word);
    word &= ~(uint64_t{1} << bit);
    --dirty_count_;
    if (is_valid) is_valid = evaluate(last_dirty_word_ * 64 + bit) && work_ - begin <= most_work;
  }
  last_dirty_word_ = 0;
  clear_candidates();
  return is_valid;
}

// The ops that must run in this stage before its own: what its op and what is retained behind it
// ask for and the front does not have.
bool Retention::collect_runs(int32_t stage) {
  new_runs_.clear();
  ++mark_;
  const auto need = [&](ArenaId storage) {
    const int32_t op = graph_.producer[storage];
    if (op_mark_[op] == mark_) return true;
    if (is_retained(storage, stage)) return true;
    if (op >= stage) return false;
    if (stage > graph_.last_stage[op]) {
      retain_into(storage, stage);
      return true;
    }
    op_mark_[op] = mark_;
    new_runs_.push_back(op);
    return true;
  };
  const auto need_if_started = [&](ArenaId storage) {
    if (stage >= graph_.op_count || !is_retained(storage, stage + 1)) return true;
    if (graph_.producer[storage] == stage) return true;
    return need(storage);
  };
  for (const ArenaId input : graph_.inputs[stage]) {
    if (!need(input)) return false;
  }
  for (const int32_t op : runs_[stage]) {
    for (const ArenaId output : graph_.outputs[op]) {
      if (!need_if_started(output)) return false;
    }
  }
  for (size_t i = 0; i < candidates_[stage].size(); ++i) {
    if (!need_if_started(candidates_[stage][i])) return false;
  }
  for (size_t i = 0; i < new_runs_.size(); ++i) {
    const auto inputs = graph_.inputs[new_runs_[i]];
    work_ += static_cast<int64_t>(inputs.size());
    for (const ArenaId input : inputs) {
      if (!need(input)) return false;
    }
  }
  sort_new_runs();
  return true;
}

// Many runs are sorted faster as bits.
void Retention::sort_new_runs() {
  constexpr size_t kFew = 64;
  if (new_runs_.size() < kFew) {
    std::sort(new_runs_.begin(), new_runs_.end());
    return;
  }
  for (const int32_t op : new_runs_)
    run_bits_[op / 64] |= uint64_t{1} << (static_cast<size_t>(op) % 64);
  size_t count = 0;
  for (size_t word = 0; word < run_bits_.size(); ++word) {
    for (uint64_t left = run_bits_[word]; left != 0; left &= left - 1)
      new_runs_[count++] =
          static_cast<int32_t>(word * 64) + static_cast<int32_t>(std::countr_zero(left));
    run_bits_[word] = 0;
  }
}

bool Retention::evaluate(int32_t stage) {
  if (!collect_runs(stage)) return false;
  Entry entry;
  entry.kind = Entry::Kind::stage;
  entry.stage = stage;
  entry.peak = peak_.at(stage);
  // What an op makes again was not retained for this stage.
  for (const int32_t op : new_runs_) {
    for (const ArenaId output : graph_.outputs[op]) {
      if (is_retained(output, stage)) trim(output, stage);
    }
  }
  auto& runs = runs_[stage];
  const auto is_passed_for_nothing = [&](ArenaId id) {
    return is_retained(id, stage) && (stage == graph_.op_count || !is_retained(id, stage + 1)) &&
           !is_read_by_marked(id, stage);
  };
  if (runs != new_runs_) {
    entry.has_runs = true;
    entry.run_count = static_cast<int32_t>(runs.size());
    const size_t begin = journal_runs_.size();
    journal_runs_.insert(journal_runs_.end(), runs.begin(), runs.end());
    replace_runs(stage, runs, new_runs_);
    runs = new_runs_;
    // What only a run that is gone has read.
    for (size_t i = begin; i < journal_runs_.size(); ++i) {
      if (op_mark_[journal_runs_[i]] == mark_) continue;
      for (const ArenaId input : graph_.inputs[journal_runs_[i]]) {
        if (is_passed_for_nothing(input)) trim(input, stage);
      }
    }
  }
  // A storage no longer retained behind this stage may have been passed through for nothing.
  for (size_t i = 0; i < candidates_[stage].size(); ++i) {
    const ArenaId id = candidates_[stage][i];
    if (is_passed_for_nothing(id)) trim(id, stage);
  }
  const double peak = stage_peak(stage, runs_[stage]);
  if (peak < 0) {
    journal_.push_back(entry);
    return false;
  }
  peak_.set(stage, peak);
  journal_.push_back(entry);
  return true;
}

// Stops retaining a storage into a stage, back to where it was last read or made.
void Retention::trim(ArenaId storage, int32_t stage) {
  const int32_t from = touches_.last_before(storage, stage);
  SNUG_CHECK(from != Touches::kNoneBefore, "a storage retained before it was made");
  change_bits(storage, from + 1, stage, false);
}

// What cannot be made again stays from where it was last read or made.
void Retention::retain_into(ArenaId storage, int32_t stage) {
  const int32_t from = touches_.last_before(storage, stage);
  SNUG_CHECK(from != Touches::kNoneBefore, "a storage read before it was made");
  change_bits(storage, from + 1, stage, true);
}

bool Retention::is_read(ArenaId storage, int32_t stage) const {
  const auto& runs = runs_[stage];
  for (const int32_t reader : graph_.readers[storage]) {
    if (reader >= stage) return reader == stage;
    if (std::binary_search(runs.begin(), runs.end(), reader)) return true;
  }
  return false;
}

void Retention::mark_runs(std::span<const int32_t> runs) {
  ++mark_;
  for (const int32_t op : runs) op_mark_[op] = mark_;
}

// By the ops that are marked, or by the stage's own.
bool Retention::is_read_by_marked(ArenaId storage, int32_t stage) const {
  for (const int32_t reader : graph_.readers[storage]) {
    if (reader >= stage) return reader == stage;
    if (op_mark_[reader] == mark_) return true;
  }
  return false;
}

// Where no marked op reads or makes the storage.
void Retention::untouch(ArenaId storage, int32_t stage) {
  const int32_t producer = graph_.producer[storage];
  const bool is_made = producer == stage || op_mark_[producer] == mark_;
  if (!is_made && !is_read_by_marked(storage, stage)) touches_.remove(storage, stage);
}

// The runs `to` are marked.
void Retention::replace_runs(int32_t stage, IndexSpan<const int32_t> from,
                             IndexSpan<const int32_t> to) {
  const auto change = [&](int32_t op, int32_t by) {
    for (const std::span<const ArenaId> ids : {graph_.inputs[op], graph_.outputs[op]}) {
      for (const ArenaId id : ids) {
        if (by > 0) {
          touches_.add(id, stage);
        } else {
          untouch(id, stage);
        }
      }
    }
    extra_cost_ += by * graph_.cost[op];
  };
  size_t a = 0;
  size_t b = 0;
  while (a < from.size() || b < to.size()) {
    if (b == to.size() || (a < from.size() && from[a] < to[b])) {
      change(from[a++], -1);
    } else if (a == from.size() || to[b] < from[a]) {
      change(to[b++], 1);
    } else {
      ++a, ++b;
    }
  }
}

// Replays the steps of one stage; -1 where something is retained that an op overwrites.
double Retention::stage_peak(int32_t stage, IndexSpan<const int32_t> runs) {
  ++mark_;
  const auto steps = static_cast<int32_t>(runs.size()) + 1;
  const auto op_of = [&](int32_t step) { return step + 1 == steps ? stage : runs[step]; };
  for (int32_t step = 0; step < steps; ++step) {
    for (const ArenaId input : graph_.inputs[op_of(step)]) {
      storage_mark_[input] = mark_;
      last_read_[input] = step;
    }
  }
  const bool is_end = stage == graph_.op_count;
  const auto stays = [&](ArenaId id) { return !is_end && is_retained(id, stage + 1); };
  double in_use = retained_bytes_.at(stage);
  double peak = in_use;
  for (int32_t step = 0; step < steps; ++step) {
    const int32_t op = op_of(step);
    const auto inputs = graph_.inputs[op];
    const auto outputs = graph_.outputs[op];
    work_ += static_cast<int64_t>(inputs.size() + outputs.size()) + 1;
    for (const ArenaId output : outputs) in_use += static_cast<double>(graph_.bytes[output]);
    peak = std::max(peak, in_use + static_cast<double>(graph_.fixed_bytes[op]));
    for (const ArenaId input : inputs) {
      if (last_read_[input] == step && !stays(input))
        in_use -= static_cast<double>(graph_.bytes[input]);
    }
    for (const ArenaId output : outputs) {
      if (storage_mark_[output] != mark_ && !stays(output))
        in_use -= static_cast<double>(graph_.bytes[output]);
    }
    for (const ArenaId gone : graph_.overwritten[op]) {
      if (stays(gone)) return -1;
    }
  }
  return peak;
}

std::vector<Retention::BitChange> Retention::changes() const {
  std::vector<BitChange> found;
  for (const Entry& each : journal_) {
    if (each.kind == Entry::Kind::bits)
      found.push_back({each.storage, each.first, each.last, each.value});
  }
  return found;
}

void Retention::roll_back(size_t to_mark) {
  while (journal_.size() > to_mark) {
    const Entry entry = journal_.back();
    if (entry.kind == Entry::Kind::bits) {
      write_bits(entry.storage, entry.first, entry.last, !entry.value);
      add_bytes(entry.storage, entry.first, entry.last, !entry.value);
    } else {
      if (entry.has_runs) {
        auto& now = runs_[entry.stage];
        const auto before = std::span(journal_runs_).last(static_cast<size_t>(entry.run_count));
        mark_runs(before);
        replace_runs(entry.stage, now, std::span<const int32_t>(before));
        now.assign(before.begin(), before.end());
        journal_runs_.resize(journal_runs_.size() - before.size());
      }
      peak_.set(entry.stage, entry.peak);
    }
    journal_.pop_back();
  }
}

}  // namespace snug::plan
