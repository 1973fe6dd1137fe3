// SPDX-License-Identifier: Apache-2.0
// A schedule as the set of what stays in memory between stages (stage_graph.h). For every storage
// and every boundary between two stages one bit says whether it is retained; which ops run again in
// a stage, and in which ways, follows from the bits at its two ends and the limit only, so a change
// of some bits touches few stages.
// Keeps cost, peaks and overflow up to date, bit changes can be taken back.
//
// Normal form, kept by every change: a storage that is retained into a stage is read there or
// retained further, and is not made again there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/graphs/range_bytes.h"
#include "plan/graphs/stage_graph.h"
#include "plan/graphs/touches.h"

namespace snug::plan {

class Retention {
 public:
  /// Starts with everything retained until its last use.
  Retention(const StageGraph& graph, int64_t limit_bytes);

  /// Retains a storage at the boundaries first .. last (boundary t: the front of stage t), or stops
  /// retaining it. False where no schedule has these bits; take the change back then.
  [[nodiscard]] bool set(ArenaId storage, int32_t first, int32_t last, bool is_retained) {
    plan(storage, first, last, is_retained);
    return settle();
  }
  /// The same in two steps, for several storages that only make sense together.
  void plan(ArenaId storage, int32_t first, int32_t last, bool is_retained) {
    change_bits(storage, first, last, is_retained);
  }
  /// Where no schedule has these bits, or more work is needed to see it: false.
  [[nodiscard]] bool settle(int64_t most_work = INT64_MAX);

  /// Changes since the last commit or restore can be taken back: all, or those since a mark.
  void commit() {
    journal_.clear();
    journal_runs_.clear();
  }
  [[nodiscard]] size_t mark() const { return journal_.size(); }
  /// Bits that changed since the last commit or restore, in order.
  struct BitChange {
    ArenaId storage;
    int32_t first = 0;  // boundaries
    int32_t last = 0;
    bool is_retained = false;
  };
  [[nodiscard]] std::vector<BitChange> changes() const;
  void roll_back(size_t to_mark = 0);
  /// Retains only what cannot be made again: everything else is made in the stage that reads it.
  /// False, and nothing changed, where in-place ops do not permit it.
  [[nodiscard]] bool drop_all();
  /// The state of a schedule. False, and nothing changed, where its first runs leave the order of
  /// the stages or no state is like it (an op that runs twice in one stage runs once).
  [[nodiscard]] bool take(std::span<const OpId> schedule);
  /// Commits where the problem has variants: ways follow the limit, where they can.
  void set_limit(int64_t limit_bytes);

  [[nodiscard]] bool is_retained(ArenaId storage, int32_t boundary) const {
    const Row& row = rows_[storage];
    const int32_t word = boundary / 64 - row.first_word;
    return word >= 0 && (bits_[row.begin + word] >> (boundary % 64) & 1) != 0;
  }
  [[nodiscard]] bool stays_behind(ArenaId storage, int32_t stage) const {
    return stage < graph_.op_count && is_retained(storage, stage + 1);
  }
  [[nodiscard]] const Touches& touches() const { return touches_; }
  /// Whether an op that runs in the stage reads the storage.
  [[nodiscard]] bool is_read(ArenaId storage, int32_t stage) const;
  /// What runs again in a stage, in the order it runs: ways.
  [[nodiscard]] IndexSpan<const int32_t> runs(int32_t stage) const { return runs_[stage]; }
  /// The way in which the op runs again in the stage; -1 where it does not.
  [[nodiscard]] int32_t find_run(int32_t op, int32_t stage) const;
  [[nodiscard]] bool runs_again(int32_t op, int32_t stage) const {
    return find_run(op, stage) >= 0;
  }
  [[nodiscard]] double extra_cost() const { return extra_cost_; }
  /// The cost of all runs, summed as Liveness does: the same runs cost the same to the bit.
  [[nodiscard]] double cost() const;
  /// Sum over stages of the bytes above the limit.
  [[nodiscard]] double overflow() const { return peak_.above(limit_); }
  [[nodiscard]] bool fits() const { return peak_.largest() <= limit_; }
  [[nodiscard]] int64_t peak(int32_t stage) const { return static_cast<int64_t>(peak_.at(stage)); }
  /// What the fullest of the stages first .. last has left to the limit.
  [[nodiscard]] double room(int32_t first, int32_t last) const {
    return limit_ - peak_.largest(first, last);
  }
  [[nodiscard]] int32_t worst_stage() const { return peak_.where_largest(); }
  [[nodiscard]] int64_t peak() const { return peak(worst_stage()); }
  /// Op ids of the problem in order of execution.
  [[nodiscard]] std::vector<OpId> schedule() const;
  [[nodiscard]] int64_t limit_bytes() const { return static_cast<int64_t>(limit_); }
  /// Operands looked at so far: a measure of work that does not depend on the machine.
  [[nodiscard]] int64_t work() const { return work_; }

  /// A storage and the boundaries first .. last, at which it is retained.
  struct Span {
    ArenaId storage;
    int32_t first = 0;
    int32_t last = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };
  /// What is retained, to remember a state and come back to it: spans that do not touch, by storage
  /// and boundary.
  struct Snapshot {
    std::vector<Span> spans;
    double extra_cost = 0;
    double limit = 0;  // the state's then
  };
  [[nodiscard]] Snapshot snapshot() const { return {spans(), extra_cost_, limit_}; }
  /// Where the problem has variants and the limit is another, ways may be others, and so the state.
  void restore(const Snapshot& snapshot);

 private:
  struct Entry {
    enum class Kind : uint8_t { bits, stage } kind = Kind::bits;
    ArenaId storage;  // of bits
    int32_t stage = 0;
    int32_t first = 0;
    int32_t last = 0;
    bool value = false;
    // A stage as it was before:
    double peak = 0;
    int32_t own = 0;        // the way of its op
    bool has_runs = false;  // others than behind it; the last of journal_runs_
    int32_t run_count = 0;
  };

  // The bits of a storage, from the word of the boundary behind its producer on: before that it is
  // not there.
  struct Row {
    int64_t begin = 0;
    int32_t first_word = 0;
  };

  [[nodiscard]] std::vector<Span> spans() const;
  void add_spans(ArenaId storage, std::vector<Span>& spans) const;
  [[nodiscard]] int32_t next_boundary(ArenaId storage, int32_t first, int32_t last,
                                      bool is_retained) const;
  void write_bits(ArenaId storage, int32_t first, int32_t last, bool value);
  void change_bits(ArenaId storage, int32_t first, int32_t last, bool value);
  void add_bytes(ArenaId storage, int32_t first, int32_t last, bool value);
  void mark_dirty(int32_t stage);
  void add_candidate(ArenaId storage, int32_t stage);
  void clear_candidates();
  [[nodiscard]] bool evaluate(int32_t stage);
  [[nodiscard]] bool collect_runs(int32_t stage);
  void name_ways();
  void sort_new_runs();
  [[nodiscard]] double stage_peak(int32_t stage, int32_t own, IndexSpan<const int32_t> runs,
                                  double retained_bytes);
  void trim(ArenaId storage, int32_t stage);
  void retain_into(ArenaId storage, int32_t stage);
  void mark_runs(std::span<const int32_t> runs);
  [[nodiscard]] bool reads(int32_t op, int32_t way, ArenaId storage) const {
    return graph_.variants_of(op).empty() || graph_.reads(way, storage);
  }
  [[nodiscard]] bool is_read_by_marked(ArenaId storage, int32_t stage, int32_t own) const;
  void untouch(ArenaId storage, int32_t stage);
  void replace_runs(int32_t stage, IndexSpan<const int32_t> from, IndexSpan<const int32_t> to);
  void replace_own(int32_t stage, int32_t to);
  void keep_all();
  [[nodiscard]] bool change_to(std::span<const Span> spans);
  [[nodiscard]] bool build(std::span<const Span> spans);
  void sum_cost();

  // Ways in which the ops of a stage run (retention_ways.cc).
  enum class Prefer : uint8_t { time, bytes };
  struct OpWay {
    int32_t op;
    int32_t way;
  };
  struct Trial {
    std::vector<OpWay> ways;  // of the ops that have variants
    double cost = 0;
    double peak = 0;
  };
  struct Needs {
    double cost = 0;
    double bytes = 0;
    bool is_possible = true;
  };
  [[nodiscard]] bool choose_ways(int32_t stage);
  [[nodiscard]] Trial try_ways(int32_t stage, Prefer prefer);
  [[nodiscard]] Trial try_again(int32_t stage);
  void take_ways(const Trial& trial);
  [[nodiscard]] int32_t way_of(int32_t op, int32_t stage);
  [[nodiscard]] int32_t fastest_way(int32_t op, int32_t stage);
  [[nodiscard]] int32_t leanest_way(int32_t op, int32_t stage, int32_t fastest);
  [[nodiscard]] Needs needs_of(int32_t way, int32_t stage);
  [[nodiscard]] bool read_what_is_there(int32_t stage, const Trial& trial);
  [[nodiscard]] bool make_what_is_shared(int32_t stage, const Trial& trial);
  [[nodiscard]] double trial_bytes(int32_t stage, int32_t own) const;

  const StageGraph& graph_;
  double limit_ = 0;
  IdVector<ArenaId, Row> rows_;
  IndexVector<uint64_t> bits_;
  Touches touches_;
  IndexVector<std::vector<int32_t>> runs_;  // per stage: ways, by op
  IndexVector<int32_t> own_;                // per stage: the way of its op
  RangeBytes peak_;                         // per stage
  RangeSum retained_bytes_;                 // per boundary
  double extra_cost_ = 0;
  int64_t work_ = 0;

  std::vector<Entry> journal_;
  std::vector<int32_t> journal_runs_;
  IndexVector<uint64_t> dirty_;  // a bit for each stage
  int32_t dirty_count_ = 0;
  int32_t last_dirty_word_ = 0;  // none behind it has any
  // Per stage: storages that may have to be made there, of the changes since the last settling.
  IndexVector<std::vector<ArenaId>> candidates_;
  std::vector<int32_t> candidate_stages_;
  std::vector<int32_t> new_runs_;
  IndexVector<uint64_t> run_bits_;  // scratch, per op
  IndexVector<int32_t> op_mark_;    // mark_: the op runs in the stage that is looked at
  // Where there are variants, by op:
  IndexVector<int32_t> marked_way_;  // how a marked op runs
  IndexVector<int32_t> way_;         // how an op runs in the trial
  IndexVector<int32_t> way_turn_;    // trial_: its way is known
  IndexVector<int32_t> needs_mark_;  // needs_turn_: counted in the needs that are looked at
  std::vector<ArenaId> held_;        // what a trial would have to retain
  Prefer prefer_ = Prefer::time;
  bool is_trial_ = false;
  int32_t trial_ = 0;
  int32_t needs_turn_ = 0;
  IdVector<ArenaId, int32_t> last_read_;  // position in the stage, valid where marked
  IdVector<ArenaId, int32_t> storage_mark_;
  int32_t mark_ = 0;
};

}  // namespace snug::plan
