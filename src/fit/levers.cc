// SPDX-License-Identifier: Apache-2.0
#include "fit/levers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "fit/splits.h"
#include "ops/optimizer/optimizers.h"
#include "programs/programs.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr int64_t kShortestLength = 8;  // and lengths are multiples of it

using Request = RunPlanRequest;

template <class Change>
Lever simple(std::string words, bool changes_result, Change change) {
  const auto apply = [change](const Request& request) {
    Request other = request;
    change(other);
    return other;
  };
  return {{{std::move(words), apply}}, changes_result};
}

// The names up to their first dot, in the order of the model, but those that hold the head; empty
// where that is all there is.
std::string all_but_the_head(const NetworkDef& network, const std::vector<Value>& parameters) {
  std::vector<std::string> parts;
  std::set<std::string> heads;
  for (const Value& value : parameters) {
    const std::string part = value.name.substr(0, value.name.find('.'));
    if (network.is_head(value.name)) heads.insert(part);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  if (heads.empty()) return {};  // nothing would be left to train
  std::string patterns;
  for (const std::string& part : parts) {
    if (heads.count(part) == 0) patterns += (patterns.empty() ? "" : ",") + part + ".*";
  }
  return patterns;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void add_freezing(const Request& request, std::vector<Lever>& levers) {
  const std::vector<Value> parameters = parameters_of(request.network);
  const auto add = [&](const std::string& patterns) {
    levers.push_back(
        simple(option_words(request.words, "freeze", "'" + patterns + "'"), true,
               [patterns](Request& other) { other.recipe.freeze = split_at_commas(patterns); }));
  };
  const bool has_embeddings = std::any_of(
      parameters.begin(), parameters.end(),
      [](const Value& value) { return value.name.find("embeddings") != std::string::npos; });
  if (has_embeddings) add("*embeddings*");
  if (const std::string patterns = all_but_the_head(request.network, parameters); !patterns.empty())
    add(patterns);
}

// Nothing where these hyper-parameters do not go together in that optimizer.
std::optional<optim::Options> options_of(const Optimizer& optimizer, const Recipe& recipe) {
  try {
    return optim::make_options(*optimizer.name, recipe.given, recipe.optimizer.weight_decay);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_config) throw;
    return std::nullopt;
  }
}

// The other form, where the request allows one alone.
void add_two_passes(const Request& request, std::vector<Lever>& levers) {
  if (!request.two_pass_clip || !request.recipe.waits_for_norm()) return;
  const bool other_form = !*request.two_pass_clip;
  levers.push_back(
      simple(option_words(request.words, "two_pass_clip", other_form ? "true" : "false"), false,
             [other_form](Request& other) { other.two_pass_clip = other_form; }));
}

// States in 8 bits, where the optimizer has any of a weight's size.
void add_state_bits(const Request& request, std::vector<Lever>& levers) {
  const Recipe& recipe = request.recipe;
  if (recipe.states.bits == 8) return;
  constexpr int64_t kAnySize = 64;
  optim::StateStorage storage = recipe.states;
  storage.bits = 8;
  if (!optim::codec_for(storage, recipe.optimizer, "", {kAnySize, kAnySize}, false)) return;
  levers.push_back(simple(option_words(request.words, "optim_bits", "8"), true,
                          [](Request& other) { other.recipe.states.bits = 8; }));
}

// Those without states, where they take what the user set.
void add_optimizers(const Request& request, std::vector<Lever>& levers) {
  const Recipe& recipe = request.recipe;
  for (const Optimizer* each : optimizers()) {
    if (each == recipe.optimizer.optimizer) continue;
    const auto takes = [&](const auto& given) {
      return std::any_of(each->parameters->begin(), each->parameters->end(),
                         [&](const HyperParameter& its) { return its.name == given.first; });
    };
    if (!std::all_of(recipe.given.begin(), recipe.given.end(), takes)) continue;
    const std::optional<optim::Options> options = options_of(*each, recipe);
    if (!options || !optim::states_of(*options, "any", {1, 1}).empty()) continue;
    levers.push_back(simple(option_words(request.words, "optim", *each->name), true,
                            [options](Request& other) { other.recipe.optimizer = *options; }));
  }
}

// Three quarters, a half, three eighths, ... of the longest row.
std::vector<int64_t> shorter_lengths(int64_t longest) {
  std::vector<int64_t> lengths;
  const auto add = [&](int64_t length) {
    length = length / kShortestLength * kShortestLength;
    if (length >= kShortestLength && length < longest &&
        (lengths.empty() || length < lengths.back()))
      lengths.push_back(length);
  };
  for (int64_t parts = 1; longest / parts >= kShortestLength; parts *= 2) {
    add(longest * 3 / (4 * parts));
    add(longest / (2 * parts));
  }
  return lengths;
}

void add_sizes(const Request& request, std::vector<Lever>& levers) {
  if (!request.resized) return;
  // A batch that may be split needs no more than its smallest part, however large it is.
  const bool is_whole = micro_batches_of(request) == std::vector{request.global_batch};
  if (is_whole && request.global_batch > 1 && (request.micro_batch == 0 || !request.trains)) {
    const std::string key = request.trains ? "train_batch_size" : "eval_batch_size";
    Lever batch{{}, request.trains};
    for (int64_t size = request.global_batch - 1; size > 0; --size) {
      batch.settings.push_back(
          {option_words(request.words, key, std::to_string(size)),
           [size](const Request& from) { return from.resized(from, from.lengths.back(), size); }});
    }
    levers.push_back(std::move(batch));
  }
  if (request.network.shortest.empty()) return;
  for (const auto& [name, longest] : request.lengths.back().by_name()) {
    Lever length{{}, true};
    for (const int64_t each : shorter_lengths(longest)) {
      length.settings.push_back(
          {length_words(request.words, name, each), [name = name, each](const Request& from) {
             return from.resized(from, Lengths(from.lengths.back()).set(name, each),
                                 from.global_batch);
           }});
    }
    if (!length.settings.empty()) levers.push_back(std::move(length));
  }
}

}  // namespace

std::vector<Lever> levers_of(const RunPlanRequest& request) {
  std::vector<Lever> levers;
  if (request.saved != nullptr) return levers;  // a saved plan has the one budget that it needs
  const bool is_whole = request.trains && !request.network.coupling.empty();
  const std::string micro_batch = option_words(request.words, "micro_batch_size", "auto");
  const std::string recompute = option_words(request.words, "recompute", "auto");
  if (request.micro_batch > 0 && request.trains && request.global_batch > 1)
    levers.push_back(simple(micro_batch, false, [](Request& other) { other.micro_batch = 0; }));
  if (!request.strategy.empty())
    levers.push_back(simple(recompute, false, [](Request& other) { other.strategy.clear(); }));
  if (levers.size() == 2) {
    levers.push_back(simple(micro_batch + " " + recompute, false, [](Request& other) {
      other.micro_batch = 0;
      other.strategy.clear();
    }));
  }
  if (is_whole && !request.allow_coupled_split && request.global_batch > 1)
    levers.push_back(simple(option_words(request.words, "allow_batch_norm_split", ""), true,
                            [](Request& other) { other.allow_coupled_split = true; }));
  if (request.trains) add_two_passes(request, levers);
  if (request.trains) add_state_bits(request, levers);
  if (request.trains) add_optimizers(request, levers);
  const bool waits_anyway = request.recipe.scaling == optim::LossScaling::dynamic;
  if (request.trains && request.recipe.max_grad_norm > 0 && !waits_anyway)
    levers.push_back(simple(option_words(request.words, "max_grad_norm", "0"), true,
                            [](Request& other) { other.recipe.max_grad_norm = 0; }));
  add_sizes(request, levers);
  if (request.trains && request.recipe.freeze.empty() && !request.network.is_frozen)
    add_freezing(request, levers);
  return levers;
}

}  // namespace snug::train
