// SPDX-License-Identifier: Apache-2.0
#include "choose/sizes.h"

#include <algorithm>

#include "compile/compile.h"
#include "graph/text.h"
#include "snug/error.h"

namespace snug::choose {
namespace {

constexpr size_t kMostOpsInAll = 90'000;  // forward, of all splits together

// The name of the switch, without what a command line puts before it.
std::string split_key(const RunPlanRequest& request) {
  const std::string words = spec::option_words(request.words, "allow_batch_norm_split", "");
  return words.substr(words.find_first_not_of('-'));
}

// Where two passes are asked for.
void check_two_passes(const RunPlanRequest& request) {
  if (!request.recipe.waits_for_norm() || !request.recipe.updates)
    throw Error(ErrorCode::bad_config, "two_pass_clip",
                "no update waits for the norm of its gradients: max_grad_norm is 0",
                "omit it: each update follows its gradient anyway");
  if (request.micro_batch > 0 && request.micro_batch != request.global_batch)
    throw Error(ErrorCode::bad_config, "two_pass_clip",
                "a micro-batch of " + std::to_string(request.micro_batch) +
                    " is not the batch of " + std::to_string(request.global_batch) +
                    ", and two passes need one micro-batch",
                "omit micro_batch_size, or two_pass_clip");
}

// Where the rows are coupled and the micro-batch is given, and is not the batch.
void check_coupled(const RunPlanRequest& request, const std::string& coupling, int64_t given) {
  const int64_t batch = request.global_batch;
  if (!request.allow_coupled_split)
    throw Error(
        ErrorCode::bad_config, "micro_batch_size",
        "the model " + coupling + ", and a micro-batch of " + std::to_string(given) +
            " is not the batch of " + std::to_string(batch),
        "omit it, or set " + split_key(request) + " to train on the rows of micro-batches only");
  if (batch % given != 0)
    throw Error(ErrorCode::bad_config, "micro_batch_size",
                "the model " + coupling + " and needs equal micro-batches, but " +
                    std::to_string(given) + " does not divide the batch of " +
                    std::to_string(batch),
                "choose a divisor of the batch");
}

// The batch statistic of one value a channel: its variance is 0, so every output is the bias and no
// gradient comes through. Empty where a program of single rows has none.
std::string single_value(const RunPlanRequest& request) {
  for (const Lengths& lengths : request.lengths) {
    const auto forward = compile::forward_of(
        request.network, {.rows = 1, .lengths = lengths, .training = true, .micro_batches = 1});
    const Graph& graph = forward->graph;
    for (const NodeId id : graph.nodes.ids()) {
      const Node& node = graph.nodes[id];
      if (!node.op->has_statistics) continue;
      const Shape& x = graph.type(node.inputs[0]).shape;
      if (element_count(x) == x.back()) return scoped_name(node);
    }
  }
  return {};
}

// Single rows are no split where they have such a statistic.
void leave_single_values(const RunPlanRequest& request, std::vector<int64_t>& sizes) {
  const std::string found = single_value(request);
  if (found.empty()) return;
  sizes.pop_back();
  if (!sizes.empty()) return;
  const bool is_command_line = request.words == spec::OptionWords::command_line;
  throw Error(ErrorCode::bad_config,
              request.micro_batch > 0 ? "micro_batch_size"
              : is_command_line       ? "train_batch_size"
                                      : "batch_rows",
              "where rows come singly, " + found +
                  " normalises one value a channel: it would be the bias "
                  "whatever the row is, and nothing would be trained",
              "give micro-batches of 2 rows or more");
}

}  // namespace

std::string coupling_of(const RunPlanRequest& request) {
  const compile::NetworkDef& network = request.network;
  if (request.trains && !network.coupling.empty()) return network.coupling;
  if (network.eval_coupling.empty()) return {};
  return request.trains ? network.eval_coupling + ", in evaluation" : network.eval_coupling;
}

std::vector<int64_t> micro_batches(int64_t global_batch) {
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t pieces) {
    if (pieces > global_batch) return;
    const int64_t size = (global_batch + pieces - 1) / pieces;
    if (sizes.empty() || sizes.back() > size) sizes.push_back(size);
  };
  add(1);
  for (int64_t pieces = 2; pieces <= global_batch; pieces *= 2) {
    add(pieces);
    add(pieces + pieces / 2);
  }
  add(global_batch);
  return sizes;
}

std::vector<int64_t> micro_batches_of(const RunPlanRequest& request) {
  const int64_t batch = request.global_batch;
  const bool has_two_passes = request.trains && request.two_pass_clip.value_or(false);
  if (has_two_passes) check_two_passes(request);
  const int64_t given = has_two_passes ? batch : request.micro_batch;
  const std::string coupling = coupling_of(request);
  const bool must_be_equal = !coupling.empty();
  if (must_be_equal && given > 0 && given != batch) check_coupled(request, coupling, given);
  std::vector<int64_t> sizes = micro_batches(batch);
  if (must_be_equal) std::erase_if(sizes, [batch](int64_t size) { return batch % size != 0; });
  if (must_be_equal && !request.allow_coupled_split) sizes = {batch};
  if (given > 0) sizes = {given};
  if (sizes.back() == 1 && request.trains && !request.network.coupling.empty())
    leave_single_values(request, sizes);
  return sizes;
}

bool may_have_passes(const RunPlanRequest& request, int64_t micro_batch, bool has_two_passes) {
  if (!has_two_passes) return !request.trains || !request.two_pass_clip.value_or(false);
  return request.trains && request.two_pass_clip.value_or(true) && request.recipe.updates &&
         request.recipe.waits_for_norm() && micro_batch == request.global_batch;
}

std::vector<int64_t> affordable(const std::vector<int64_t>& sizes, const plan::Problem& problem) {
  const auto ops = static_cast<size_t>(
      std::count_if(problem.ops.begin(), problem.ops.end(),
                    [](const plan::Op& op) { return op.phase == Phase::forward; }));
  if (sizes.size() < 3 || ops * sizes.size() <= kMostOpsInAll) return sizes;
  if (ops > kMostOpsOfMany) return {sizes.front(), sizes.back()};
  const size_t count = std::max<size_t>(3, kMostOpsInAll / ops);
  std::vector<int64_t> chosen = {sizes[0]};
  for (size_t i = 0; i + 1 < count; ++i)
    chosen.push_back(sizes[1 + i * (sizes.size() - 2) / (count - 2)]);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::optional<int64_t> largest_accumulating(const std::vector<int64_t>& sizes,
                                            int64_t global_batch) {
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](int64_t size) { return size < global_batch; });
  return found == sizes.end() ? std::nullopt : std::optional(*found);
}

}  // namespace snug::choose
