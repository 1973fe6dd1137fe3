// SPDX-License-Identifier: Apache-2.0
#include "choose/trials.h"

#include <algorithm>
#include <limits>

#include "base/stop.h"
#include "choose/plan_split.h"
#include "choose/sizes.h"
#include "compile/forward.h"
#include "plan/frontier/frontier.h"
#include "snug/error.h"

namespace snug::choose {
namespace {

// Shares of the ops of the request's own splits, and some at the least. With more searches a
// refusal would take more than five plans; with fewer, budgets that hints name are not the
// smallest.
constexpr int64_t kBuiltShare = 3;
constexpr int64_t kBuiltAlways = 200'000;
constexpr int64_t kSearchedShare = 2;
constexpr int64_t kSearchedAlways = 16'000;

// A hundredth of a run's bytes is not worth a search or a placement.
bool is_worthwhile(int64_t bytes, const std::optional<Variation::Found>& found) {
  return !found || bytes < found->least_bytes - found->least_bytes / 100;
}

// No schedule is faster: each op runs once, in the kernel that serves it best.
double least_step_seconds(const BatchSplit& split) {
  double seconds = 0;
  for (const plan::Op& op : split.problem().ops) seconds += plan::least_seconds(op);
  return step_seconds_of(split, seconds);
}

}  // namespace

Trials::Trials(const RunPlanRequest& request, const std::vector<Candidate>& candidates,
               const Backend& backend)
    : backend_(backend), smallest_(smallest_of(candidates, request).split->form.micro_batch) {
  for (const Candidate& candidate : candidates) {
    if (known_.empty() || known_.back() != candidate.split) known_.push_back(candidate.split);
  }
  std::sort(known_.begin(), known_.end());
  known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
  for (const BatchSplit* split : known_) {
    ops_ = static_cast<int64_t>(split->problem().ops.size());
    ops_left_ += kBuiltShare * ops_;
  }
  ops_left_ = std::max(ops_left_, kBuiltAlways);
  // Those that accumulate are searched once.
  const auto whole = std::count_if(known_.begin(), known_.end(), [](const BatchSplit* split) {
    return split->accumulation_steps == 1;
  });
  const int64_t searches = whole + (std::cmp_less(whole, known_.size()) ? 1 : 0);
  searched_ops_left_ = std::max(kSearchedShare * searches * ops_, kSearchedAlways);
}

// Its network is built a few times, only forward.
std::optional<RunPlanRequest> Trials::changed(const RunPlanRequest& request,
                                              const Lever::Setting& setting) {
  stop_point();
  if (ops_left_ <= 0) return std::nullopt;
  ops_left_ -= ops_;
  try {
    return setting.apply(request);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_config) throw;
    return std::nullopt;
  }
}

Variation::Variation(Trials& trials, RunPlanRequest request)
    : trials_(trials), request_(std::move(request)) {
  request_.on_progress = {};
  if (request_.startup_bytes > request_.budget_bytes) return;
  try {
    take_row_sparse_sums(request_);
    build_smallest();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_config) throw;
    possible_.clear();  // its keys do not go together
  }
}

void Variation::build_smallest() {
  sizes_ = micro_batches_of(request_);
  const std::vector<int64_t> tried = {sizes_.front(), sizes_.back(), trials_.smallest_};
  for (const int64_t size : sizes_) {
    if (std::find(tried.begin(), tried.end(), size) == tried.end()) continue;
    for (const bool has_two_passes : {false, true}) {
      if (!may_have_passes(request_, size, has_two_passes)) continue;
      BatchSplit* split = built({.micro_batch = size, .has_two_passes = has_two_passes});
      if (split != nullptr && is_within(*split)) possible_.push_back(split);
    }
  }
  if (!splits_.empty()) sizes_ = affordable(sizes_, splits_.begin()->second.problem());
  std::stable_sort(possible_.begin(), possible_.end(),
                   [&](const BatchSplit* a, const BatchSplit* b) {
                     return least_peak_bytes(*a, request_) < least_peak_bytes(*b, request_);
                   });
}

// Null where too much was built already.
BatchSplit* Variation::built(const Form& form) {
  if (const auto found = splits_.find(form); found != splits_.end()) return &found->second;
  stop_point();
  if (trials_.ops_left_ <= 0) return nullptr;
  SplitForm of{form.micro_batch, form.has_two_passes};
  if (form.packs_weights) {
    const BatchSplit* plain = built({form.micro_batch, form.has_two_passes});
    if (plain == nullptr) return nullptr;
    of.packed = plain->packable;
  }
  BatchSplit split = build_split(request_, of, trials_.backend_, update_);
  // In 16 bits it looked at every length.
  const size_t programs = request_.has_16_bits ? request_.lengths.size() : 1;
  trials_.ops_left_ -= static_cast<int64_t>(split.problem().ops.size() * programs);
  split.let_graph_go();
  compile::let_traces_go(request_.network);
  return &splits_.emplace(form, std::move(split)).first->second;
}

bool Variation::is_within(const BatchSplit& split) const {
  return least_peak_bytes(split, request_) <= request_.budget_bytes;
}

bool Variation::is_searched() const { return request_.trains && request_.strategy.empty(); }

// The same program: the run would find the same schedules.
const BatchSplit* Variation::equal_split(const BatchSplit& split) const {
  for (const BatchSplit* known : trials_.known_) {
    if (known->frontier->points().size() > 1 &&
        known->form.has_two_passes == split.form.has_two_passes &&
        known->form.packed == split.form.packed && known->problem() == split.problem())
      return known;
  }
  return nullptr;
}

const BatchSplit* Variation::alike_split(const BatchSplit& split) const {
  for (const BatchSplit* known : trials_.known_) {
    if (known->frontier->points().size() > 1 &&
        plan::has_same_structure(known->problem(), split.problem()))
      return known;
  }
  return nullptr;
}

bool Variation::search(BatchSplit& split, int64_t kept_ops) {
  const auto ops = static_cast<int64_t>(split.problem().ops.size());
  if (trials_.searched_ops_left_ < kept_ops + ops) return false;
  trials_.searched_ops_left_ -= ops;
  plan_split(request_, nullptr, split);
  return true;
}

// False where no searches are left.
bool Variation::plan(BatchSplit& split, int64_t kept_ops) {
  if (split.frontier) return true;
  stop_point();
  if (!is_searched()) {
    plan_split(request_, nullptr, split);
    return true;
  }
  if (const BatchSplit* known = equal_split(split)) {
    split.frontier = known->frontier;
    return true;
  }
  if (!split.form.packed.empty()) {
    BatchSplit* plain = built({split.form.micro_batch, split.form.has_two_passes});
    if (plain == nullptr || !plan(*plain, kept_ops)) return false;
    plan_split(request_, plain, split);
    return true;
  }
  if (split.accumulation_steps == 1) return search(split, kept_ops);
  // A run has the schedules of the largest that accumulates.
  RunPlanRequest open = request_;
  open.micro_batch = 0;
  const std::optional<int64_t> largest = largest_accumulating(
      affordable(micro_batches_of(open), split.problem()), request_.global_batch);
  BatchSplit* model = largest ? built({.micro_batch = *largest}) : &split;
  if (model == nullptr) return false;
  if (!model->frontier) {
    if (const BatchSplit* known = equal_split(*model)) {
      model->frontier = known->frontier;
    } else if (!search(*model, kept_ops)) {
      return false;
    }
  }
  if (model != &split) plan_split(request_, model, split);
  return true;
}

// Its fastest plan that fits, where it has one.
void Variation::note_fastest(const BatchSplit& split, std::optional<Found>& found) const {
  const auto best = best_within(candidates_of({&split, 1}, request_), request_);
  if (!best) return;
  if (!found) found = Found{.least_bytes = best->peak_bytes, .step_seconds = best->step_seconds};
  found->least_bytes = std::min(found->least_bytes, best->peak_bytes);
  found->step_seconds = std::min(found->step_seconds, best->step_seconds);
}

// The plan with the smallest load, and the slowest of these, which leaves room and is placed
// soon: smallest_of() would place others, too, and save next to nothing.
void Variation::note_smallest(const BatchSplit& split, Found& found) const {
  const std::vector<Candidate> candidates = candidates_of({&split, 1}, request_);
  const auto smallest = std::min_element(candidates.rbegin(), candidates.rend(),
                                         [](const Candidate& a, const Candidate& b) {
                                           return a.least_peak_bytes < b.least_peak_bytes;
                                         });
  if (!is_worthwhile(smallest->least_peak_bytes, found)) return;
  found.least_bytes = std::min(found.least_bytes, placed(*smallest, request_).peak_bytes);
}

bool Variation::fits_by_likeness() {
  for (BatchSplit* split : possible_) {
    stop_point();
    const BatchSplit* alike = is_searched() && !split->frontier ? alike_split(*split) : nullptr;
    if (alike == nullptr) {
      if (!plan(*split, 0)) continue;
    } else {
      split->frontier = plan::build_frontier_like(split->problem(), alike->problem(),
                                                  *alike->frontier, frontier_options(request_));
    }
    const bool fits = best_within(candidates_of({split, 1}, request_), request_).has_value();
    if (alike != nullptr) split->frontier.reset();  // not what a run would find
    if (fits) return true;
  }
  return false;
}

std::optional<Variation::Found> Variation::planned() {
  std::optional<Found> found;
  for (BatchSplit* split : possible_) {
    if (!is_worthwhile(least_peak_bytes(*split, request_), found) &&
        least_step_seconds(*split) >= found->step_seconds)
      continue;
    if (!plan(*split, found ? trials_.kept_ops_ : 0)) continue;
    note_fastest(*split, found);
    if (found) note_smallest(*split, *found);
  }
  if (found) find_faster(*found);
  return found;
}

// As the request's own splits go: those of its sizes, fastest first, then the others. Larger is not
// always faster: speeds jump with the sizes of operands, and rows fill up what does not divide.
std::vector<int64_t> Variation::likely_fastest(std::vector<int64_t> sizes) const {
  std::map<int64_t, double> seconds;
  for (const BatchSplit* known : trials_.known_) {
    if (!known->form.has_two_passes && known->form.packed.empty())
      seconds[known->form.micro_batch] = least_step_seconds(*known);
  }
  const auto expected = [&](int64_t size) {
    const auto found = seconds.find(size);
    return found == seconds.end() ? std::numeric_limits<double>::infinity() : found->second;
  };
  std::stable_sort(sizes.begin(), sizes.end(),
                   [&](int64_t a, int64_t b) { return expected(a) < expected(b); });
  return sizes;
}

// The whole batch, then all smaller micro-batches that fit; two passes last.
void Variation::find_faster(Found& found) {
  const auto accumulates = std::find_if(sizes_.begin(), sizes_.end(), [&](int64_t size) {
    return !request_.trains || size < request_.global_batch;
  });
  for (auto size = sizes_.begin(); size != accumulates; ++size) try_forms(*size, false, found);
  const auto fits = [&](int64_t size) {
    const BatchSplit* split = built({.micro_batch = size});
    return split != nullptr && is_within(*split);
  };
  const auto size =
      std::partition_point(accumulates, sizes_.end(), [&](int64_t each) { return !fits(each); });
  for (const int64_t each : likely_fastest({size, sizes_.end()})) try_forms(each, false, found);
  if (!sizes_.empty()) try_forms(sizes_.front(), true, found);
}

// With packed weights, too, where that is another form.
void Variation::try_forms(int64_t micro_batch, bool has_two_passes, Found& found) {
  Form form{.micro_batch = micro_batch, .has_two_passes = has_two_passes};
  try_faster(form, found);
  const auto plain = splits_.find(form);
  if (plain == splits_.end() || !packed_form(request_, plain->second)) return;
  form.packs_weights = true;
  try_faster(form, found);
}

void Variation::try_faster(const Form& form, Found& found) {
  if (!may_have_passes(request_, form.micro_batch, form.has_two_passes)) return;
  const bool is_built = splits_.contains(form);
  BatchSplit* split =
      is_built || trials_.ops_left_ > trials_.kept_built_ops_ ? built(form) : nullptr;
  if (split == nullptr) {
    found.is_at_most = true;
    return;
  }
  if (!is_within(*split) || least_step_seconds(*split) >= found.step_seconds) return;
  if (!plan(*split, trials_.kept_ops_)) {
    found.is_at_most = true;
    return;
  }
  std::optional<Found> faster;
  note_fastest(*split, faster);
  if (faster) found.step_seconds = std::min(found.step_seconds, faster->step_seconds);
}

}  // namespace snug::choose
