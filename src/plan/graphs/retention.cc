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
  own_.assign(stages, 0);
  if (graph.has_variants) {
    for (auto* by_op : {&marked_way_, &way_, &way_turn_, &needs_mark_}) by_op->assign(stages, 0);
  }
  run_bits_.assign(stages / 64 + 1, 0);
  last_read_.assign(storages, 0);
  storage_mark_.assign(storages, 0);
  int64_t words = 0;
  for (const ArenaId id : graph.bytes.ids()) {
    const int32_t made = graph.producer[id] + 1;
    rows_.push_back({words, made / 64});
    words += graph.op_count / 64 - made / 64 + 1;
  }
  bits_.assign(words, 0);
  keep_all();
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

void Retention::set_limit(int64_t limit_bytes) {
  if (graph_.has_variants) commit();
  limit_ = static_cast<double>(limit_bytes);
  if (!graph_.has_variants) return;
  for (int32_t t = 0; t <= graph_.op_count; ++t) {
    const auto has_variants = [&](int32_t way) {
      return !graph_.variants_of(graph_.op_of(way)).empty();
    };
    if (has_variants(t) || std::any_of(runs_[t].begin(), runs_[t].end(), has_variants))
      mark_dirty(t);
  }
  // Ops that write over others may forbid what the new ways need.
  if (!settle()) roll_back();
  commit();
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
// ask for and the front does not have. In a trial nothing changes: what cannot be made again is
// held.
bool Retention::collect_runs(int32_t stage) {
  new_runs_.clear();
  ++mark_;
  const auto need = [&](ArenaId storage) {
    const int32_t op = graph_.producer[storage];
    if (op_mark_[op] == mark_) return true;
    if (is_retained(storage, stage)) return true;
    if (op >= stage) return false;
    if (stage > graph_.last_stage[op]) {
      if (!is_trial_) {
        retain_into(storage, stage);
      } else if (std::ranges::find(held_, storage) == held_.end()) {
        held_.push_back(storage);
      }
      return true;
    }
    op_mark_[op] = mark_;
    new_runs_.push_back(op);
    return true;
  };
  const auto need_if_started = [&](ArenaId storage) {
    if (!stays_behind(storage, stage)) return true;
    if (graph_.producer[storage] == stage) return true;
    return need(storage);
  };
  for (const ArenaId input : graph_.inputs[way_of(stage, stage)]) {
    if (!need(input)) return false;
  }
  for (const int32_t way : runs_[stage]) {
    for (const ArenaId output : graph_.outputs[way]) {
      if (!need_if_started(output)) return false;
    }
  }
  for (size_t i = 0; i < candidates_[stage].size(); ++i) {
    if (!need_if_started(candidates_[stage][i])) return false;
  }
  for (size_t i = 0; i < new_runs_.size(); ++i) {
    const auto inputs = graph_.inputs[way_of(new_runs_[i], stage)];
    work_ += static_cast<int64_t>(inputs.size());
    for (const ArenaId input : inputs) {
      if (!need(input)) return false;
    }
  }
  sort_new_runs();
  if (graph_.has_variants) name_ways();
  return true;
}

// Ways for the ops that were collected.
void Retention::name_ways() {
  for (int32_t& run : new_runs_) {
    const int32_t op = run;
    if (!graph_.variants_of(op).empty()) run = way_[op];
    marked_way_[op] = run;
  }
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
  const bool is_collected = graph_.has_variants && choose_ways(stage);
  if (!is_collected && !collect_runs(stage)) return false;
  Entry entry;
  entry.kind = Entry::Kind::stage;
  entry.stage = stage;
  entry.peak = peak_.at(stage);
  entry.own = own_[stage];
  // What an op makes again was not retained for this stage.
  for (const int32_t way : new_runs_) {
    for (const ArenaId output : graph_.outputs[way]) {
      if (is_retained(output, stage)) trim(output, stage);
    }
  }
  auto& runs = runs_[stage];
  const int32_t own = way_of(stage, stage);
  const auto is_passed_for_nothing = [&](ArenaId id) {
    return is_retained(id, stage) && !stays_behind(id, stage) && !is_read_by_marked(id, stage, own);
  };
  if (own != entry.own) {
    replace_own(stage, own);
    for (const ArenaId input : graph_.inputs[entry.own]) {
      if (is_passed_for_nothing(input)) trim(input, stage);
    }
  }
  if (runs != new_runs_) {
    entry.has_runs = true;
    entry.run_count = static_cast<int32_t>(runs.size());
    const size_t begin = journal_runs_.size();
    journal_runs_.insert(journal_runs_.end(), runs.begin(), runs.end());
    replace_runs(stage, runs, new_runs_);
    runs = new_runs_;
    // What only a run that is gone has read.
    for (size_t i = begin; i < journal_runs_.size(); ++i) {
      const int32_t op = graph_.op_of(journal_runs_[i]);
      if (op_mark_[op] == mark_ && (!graph_.has_variants || marked_way_[op] == journal_runs_[i]))
        continue;
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
  const double peak = stage_peak(stage, own, runs_[stage], retained_bytes_.at(stage));
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

int32_t Retention::find_run(int32_t op, int32_t stage) const {
  const auto& runs = runs_[stage];
  const auto found =
      std::ranges::lower_bound(runs, op, {}, [&](int32_t way) { return graph_.op_of(way); });
  return found != runs.end() && graph_.op_of(*found) == op ? *found : -1;
}

bool Retention::is_read(ArenaId storage, int32_t stage) const {
  for (const int32_t reader : graph_.readers[storage]) {
    if (reader >= stage) return reader == stage && reads(stage, own_[stage], storage);
    const int32_t way = find_run(reader, stage);
    if (way >= 0 && reads(reader, way, storage)) return true;
  }
  return false;
}

void Retention::mark_runs(std::span<const int32_t> runs) {
  ++mark_;
  for (const int32_t way : runs) {
    const int32_t op = graph_.op_of(way);
    op_mark_[op] = mark_;
    if (graph_.has_variants) marked_way_[op] = way;
  }
}

// By the ops that are marked, or by the stage's own.
bool Retention::is_read_by_marked(ArenaId storage, int32_t stage, int32_t own) const {
  for (const int32_t reader : graph_.readers[storage]) {
    if (reader >= stage) return reader == stage && reads(stage, own, storage);
    if (op_mark_[reader] != mark_) continue;
    if (graph_.variants_of(reader).empty() || graph_.reads(marked_way_[reader], storage))
      return true;
  }
  return false;
}

// Where no marked op reads or makes the storage.
void Retention::untouch(ArenaId storage, int32_t stage) {
  const int32_t producer = graph_.producer[storage];
  const bool is_made = producer == stage || op_mark_[producer] == mark_;
  if (!is_made && !is_read_by_marked(storage, stage, own_[stage])) touches_.remove(storage, stage);
}

// The runs of the stage are marked.
void Retention::replace_own(int32_t stage, int32_t to) {
  const int32_t from = std::exchange(own_[stage], to);
  for (const ArenaId input : graph_.inputs[to]) touches_.add(input, stage);
  for (const ArenaId input : graph_.inputs[from]) untouch(input, stage);
  extra_cost_ += graph_.cost[to] - graph_.cost[from];
}

// The runs `to` are marked.
void Retention::replace_runs(int32_t stage, IndexSpan<const int32_t> from,
                             IndexSpan<const int32_t> to) {
  const auto change = [&](int32_t way, int32_t by) {
    for (const std::span<const ArenaId> ids : {graph_.inputs[way], graph_.outputs[way]}) {
      for (const ArenaId id : ids) {
        if (by > 0) {
          touches_.add(id, stage);
        } else {
          untouch(id, stage);
        }
      }
    }
    extra_cost_ += by * graph_.cost[way];
  };
  size_t a = 0;
  size_t b = 0;
  while (a < from.size() || b < to.size()) {
    const int32_t old_op = a < from.size() ? graph_.op_of(from[a]) : graph_.op_count;
    const int32_t new_op = b < to.size() ? graph_.op_of(to[b]) : graph_.op_count;
    if (old_op < new_op) {
      change(from[a++], -1);
    } else if (new_op < old_op) {
      change(to[b++], 1);
    } else if (from[a] != to[b]) {
      change(to[b++], 1);
      change(from[a++], -1);
    } else {
      ++a, ++b;
    }
  }
}

// Replays the steps of one stage; -1 where something is retained that an op overwrites.
double Retention::stage_peak(int32_t stage, int32_t own, IndexSpan<const int32_t> runs,
                             double retained_bytes) {
  ++mark_;
  const auto steps = static_cast<int32_t>(runs.size()) + 1;
  const auto way_at = [&](int32_t step) { return step + 1 == steps ? own : runs[step]; };
  for (int32_t step = 0; step < steps; ++step) {
    for (const ArenaId input : graph_.inputs[way_at(step)]) {
      storage_mark_[input] = mark_;
      last_read_[input] = step;
    }
  }
  const auto stays = [&](ArenaId id) { return stays_behind(id, stage); };
  double in_use = retained_bytes;
  double peak = in_use;
  for (int32_t step = 0; step < steps; ++step) {
    const int32_t way = way_at(step);
    const auto inputs = graph_.inputs[way];
    const auto outputs = graph_.outputs[way];
    work_ += static_cast<int64_t>(inputs.size() + outputs.size()) + 1;
    for (const ArenaId output : outputs) in_use += static_cast<double>(graph_.bytes[output]);
    peak = std::max(peak, in_use + static_cast<double>(graph_.fixed_bytes[way]));
    for (const ArenaId input : inputs) {
      if (last_read_[input] == step && !stays(input))
        in_use -= static_cast<double>(graph_.bytes[input]);
    }
    for (const ArenaId output : outputs) {
      if (storage_mark_[output] != mark_ && !stays(output))
        in_use -= static_cast<double>(graph_.bytes[output]);
    }
    for (const ArenaId gone : graph_.overwritten[way]) {
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
      auto& now = runs_[entry.stage];
      if (entry.has_runs) {
        const auto before = std::span(journal_runs_).last(static_cast<size_t>(entry.run_count));
        mark_runs(before);
        replace_runs(entry.stage, now, std::span<const int32_t>(before));
        now.assign(before.begin(), before.end());
        journal_runs_.resize(journal_runs_.size() - before.size());
      }
      if (entry.own != own_[entry.stage]) {
        mark_runs(now);
        replace_own(entry.stage, entry.own);
      }
      peak_.set(entry.stage, entry.peak);
    }
    journal_.pop_back();
  }
}

}  // namespace snug::plan
