// SPDX-License-Identifier: Apache-2.0
#include "choose/split_search.h"

#include <utility>

#include "choose/build_split.h"
#include "choose/candidates.h"
#include "choose/plan_split.h"
#include "choose/sizes.h"
#include "snug/error.h"

namespace snug::choose {
namespace {

// What runs forward, in order. Which nodes are one op differs with the sizes ("slice+add").
std::string forward_nodes(const plan::Problem& problem) {
  std::string names;
  for (const plan::Op& op : problem.ops) {
    if (op.phase == Phase::forward) names += op.name + "+";
  }
  return names;
}

// Every split trains the same network.
void check_same_network(const plan::Problem& first, const plan::Problem& other) {
  if (forward_nodes(first) == forward_nodes(other)) return;
  throw Error(ErrorCode::bad_config, "network",
              "it was built for several micro-batches, and is not the same network every time",
              "let its function depend on nothing but the builder: no counters, no random numbers");
}

class SplitSearch {
 public:
  SplitSearch(const RunPlanRequest& request, const Backend& backend, PlanningProgress& progress)
      : request_(request),
        backend_(backend),
        progress_(progress),
        searches_(request.trains && request.saved == nullptr && request.strategy.empty()) {}

  [[nodiscard]] Splits run() {
    choose_sizes();
    found_.list.reserve(4 * sizes_.size());  // pointers into it and into models_ stay valid
    models_.reserve(2 * sizes_.size() + 1);
    for (const int64_t size : sizes_) {
      if (size < request_.global_batch) {
        try_accumulating(size);
      } else {
        try_whole(size);
      }
    }
    return std::move(found_);
  }

 private:
  void choose_sizes();
  void expect_splits();
  void try_whole(int64_t size);
  void try_accumulating(int64_t size);
  [[nodiscard]] BatchSplit built(const SplitForm& form);
  [[nodiscard]] BatchSplit planned(const SplitForm& form, const BatchSplit* model);
  [[nodiscard]] bool is_planned(const BatchSplit& split) const;
  const BatchSplit* add_forms(BatchSplit plain);
  const BatchSplit* add_model(BatchSplit split);
  const BatchSplit* add(BatchSplit split);
  void keep_best_graph();

  const RunPlanRequest& request_;
  const Backend& backend_;
  PlanningProgress& progress_;
  const bool searches_;                    // else its plan is replayed or named
  std::vector<int64_t> sizes_;             // that are tried, largest first
  std::optional<int64_t> largest_;         // that accumulates
  std::optional<BatchSplit> first_;        // built, and not planned yet
  const plan::Problem* known_ = nullptr;   // of the split that was built first
  const BatchSplit* schedules_ = nullptr;  // the split whose schedules all have that accumulate
  std::vector<BatchSplit> models_;         // tried for their schedules only
  std::optional<PlacedCandidate> best_;    // the fastest so far that fits
  Splits found_;
};

// Programs that accumulate have the same ops: the schedules of the largest of them serve all, also
// where the micro-batch is given. So one that was chosen once, and is kept on resume, has the plans
// it had then.
void SplitSearch::choose_sizes() {
  RunPlanRequest open = request_;
  open.micro_batch = 0;
  sizes_ = micro_batches_of(request_);
  std::vector<int64_t> all = micro_batches_of(open);
  expect_splits();
  if (request_.trains && all.size() > 1) {
    first_ = built({sizes_.front()});
    all = affordable(all, first_->problem());
    if (request_.micro_batch == 0) sizes_ = all;
    expect_splits();
  }
  largest_ = largest_accumulating(all, request_.global_batch);
}

void SplitSearch::expect_splits() {
  int64_t expected = 0;
  for (const int64_t size : sizes_) {
    for (const bool has_two_passes : {false, true})
      expected += may_have_passes(request_, size, has_two_passes) ? 1 : 0;
  }
  progress_.expect_splits(expected);
}

void SplitSearch::try_whole(int64_t size) {
  for (const bool has_two_passes : {false, true}) {
    if (may_have_passes(request_, size, has_two_passes))
      add_forms(planned({size, has_two_passes}, nullptr));
  }
}

void SplitSearch::try_accumulating(int64_t size) {
  if (schedules_ == nullptr && searches_ && size != *largest_)
    schedules_ = add_model(planned({*largest_}, nullptr));
  if (!may_have_passes(request_, size, false)) return;
  const BatchSplit* const plain = add_forms(planned({size}, schedules_));
  if (schedules_ == nullptr) schedules_ = plain;
}

BatchSplit SplitSearch::built(const SplitForm& form) {
  BatchSplit split = build_split(request_, form, backend_, found_.once,
                                 [&](const char* phase) { progress_.tell(0, phase); });
  // What is packed has other ops.
  if (known_ != nullptr && form.packed.empty()) check_same_network(*known_, split.problem());
  if (known_ == nullptr) known_ = &split.problem();
  return split;
}

BatchSplit SplitSearch::planned(const SplitForm& form, const BatchSplit* model) {
  const bool is_first =
      first_ && first_->form.micro_batch == form.micro_batch && !form.has_two_passes;
  BatchSplit split = is_first ? std::move(*std::exchange(first_, std::nullopt)) : built(form);
  progress_.end_step();
  if (is_planned(split))
    plan_split(request_, model, split,
               [&](double share, const char* phase) { progress_.tell(share, phase); });
  progress_.end_step();
  progress_.tell(0, kPlacement);
  return split;
}

// A plan that is replayed or named is of one form: the packed one where packing is asked for.
bool SplitSearch::is_planned(const BatchSplit& split) const {
  return searches_ || !request_.packs_weights.value_or(false) || !packed_form(request_, split);
}

// The form with packed weights follows the schedules of the one without. Returns where that is.
const BatchSplit* SplitSearch::add_forms(BatchSplit plain) {
  const std::optional<SplitForm> form = packed_form(request_, plain);
  if (!form) return add(std::move(plain));
  BatchSplit packed = built(*form);
  plan_split(request_, searches_ ? &plain : nullptr, packed);
  const bool is_model = request_.packs_weights.value_or(false);
  const BatchSplit* const place = is_model ? add_model(std::move(plain)) : add(std::move(plain));
  add(std::move(packed));
  return place;
}

const BatchSplit* SplitSearch::add_model(BatchSplit split) {
  split.let_graph_go();
  models_.push_back(std::move(split));
  return &models_.back();
}

const BatchSplit* SplitSearch::add(BatchSplit split) {
  found_.list.push_back(std::move(split));
  keep_best_graph();
  return &found_.list.back();
}

// Behind every split that joins: the fastest plan so far that fits keeps its graph.
void SplitSearch::keep_best_graph() {
  BatchSplit& added = found_.list.back();
  const auto order = [](const Candidate& candidate) {
    return std::pair(candidate.step_seconds, candidate.least_peak_bytes);
  };
  std::vector<Candidate> faster = candidates_of({&added, 1}, request_);
  if (best_)
    std::erase_if(faster, [&](const Candidate& each) { return order(each) >= order(*best_); });
  if (const auto found = best_within(faster, request_)) {
    for (BatchSplit& split : found_.list) {
      if (&split != &added) split.let_graph_go();
    }
    best_ = found;
  } else if (best_ || !request_.takes_smallest) {
    added.let_graph_go();
  }
}

}  // namespace

Splits make_splits(const RunPlanRequest& request, const Backend& backend,
                   PlanningProgress& progress) {
  return SplitSearch(request, backend, progress).run();
}

}  // namespace snug::choose
