// SPDX-License-Identifier: Apache-2.0
#include "snug/idioms.h"

#include <algorithm>
#include <utility>

#include "base/wildcard.h"
#include "compile/programs.h"
#include "network/facts.h"
#include "session/session_plan.h"
#include "snug/error.h"

namespace snug {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, where, what, hint);
}

void check_no_optimizer(const SessionOptions& options) {
  const SessionOptions plain;
  const auto refuse = [](const char* name, bool is_given) {
    if (is_given)
      fail(name, "gradients alone have no optimizer", "leave it away, or train with Session::step");
  };
  refuse("optim", options.optim != plain.optim);
  refuse("optim_args", !options.optim_args.empty());
  refuse("learning_rate", options.learning_rate != plain.learning_rate);
  refuse("weight_decay", options.weight_decay != plain.weight_decay);
  refuse("max_grad_norm", options.max_grad_norm != plain.max_grad_norm);
  refuse("param_groups", !options.param_groups.empty());
  refuse("optim_bits", options.optim_bits != plain.optim_bits);
  refuse("optim_bits_overrides", !options.optim_bits_overrides.empty());
  refuse("layerwise_lr_decay", options.layerwise_lr_decay != plain.layerwise_lr_decay);
  refuse("lr_scheduler_type", options.lr_scheduler_type != plain.lr_scheduler_type);
  refuse("warmup_steps", options.warmup_steps != plain.warmup_steps);
  refuse("max_steps", options.max_steps != plain.max_steps);
}

// Freezes every weight that `xs` does not name.
std::vector<std::string> frozen_by(const Network& network, const std::vector<std::string>& xs,
                                   const SessionOptions& options) {
  if (xs.empty()) return options.freeze;
  if (!options.freeze.empty())
    fail("freeze", "the weights are chosen by name already", "give one of the two");
  const std::vector<std::string> names =
      train::parameter_names(changed_network(described(network, options).def, options));
  std::vector<std::string> frozen = names;
  for (const std::string& x : xs) {
    const bool is_known = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches_wildcard(x, name);
    });
    if (!is_known)
      fail("xs", "the network has no weight '" + x + "'", "Session::tensors() lists them");
    std::erase_if(frozen, [&](const std::string& name) { return matches_wildcard(x, name); });
  }
  return frozen;
}

}  // namespace

Checkpoints::Checkpoints(const char* word) {
  const std::string text = word;
  if (text != "collection" && text != "memory" && text != "speed")
    fail("checkpoints", "there is no way to choose checkpoints called '" + text + "'",
         "use \"collection\", \"memory\", \"speed\" or a list of names");
  strategy_ = text == "collection" ? "marked" : text;
}

Checkpoints::Checkpoints(std::vector<std::string> names) {
  if (names.empty())
    fail("checkpoints", "no checkpoints are given", "name tensors, or use \"memory\" or \"speed\"");
  // Their order has no meaning; a session is the same for all.
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name.empty() || name.find(';') != std::string::npos)
      fail("checkpoints", "'" + name + "' is no name of a tensor", "names are set with named()");
    strategy_ += (strategy_.empty() ? "marks:" : ";") + name;
  }
}

Session gradients(const Network& ys, const std::vector<std::string>& xs,
                  const Checkpoints& checkpoints, SessionOptions options) {
  check_no_optimizer(options);
  if (!options.recompute.empty())
    fail("recompute", "the checkpoints say already what is recomputed", "leave it away");
  options.only_gradients = true;
  options.recompute = checkpoints.strategy();
  options.freeze = frozen_by(ys, xs, options);
  Session session(ys, options);
  const bool is_automatic = options.recompute == "memory" || options.recompute == "speed";
  if (is_automatic && session.plan().ops_run_again == 0)
    fail("checkpoints",
         "'" + options.recompute + "' finds nothing in the network that could be run again",
         "name tensors, or mark them with keep()");
  return session;
}

RecomputeOptimizer::RecomputeOptimizer(SessionOptions optimizer) : options_(std::move(optimizer)) {
  if (!options_.recompute.empty())
    fail("recompute", "the options say already what is recomputed: '" + options_.recompute + "'",
         "leave it away, or do without RecomputeOptimizer");
}

RecomputeOptimizer& RecomputeOptimizer::set_checkpoints(const Checkpoints& checkpoints) {
  options_.recompute = checkpoints.strategy();
  return *this;
}

Session RecomputeOptimizer::minimize(const Network& cost) const {
  if (options_.recompute.empty())
    fail("checkpoints", "minimize is called before set_checkpoints", "set them first");
  return Session(cost, options_);
}

void gradient_checkpointing_enable(SessionOptions& options) { options.recompute = "recompute-all"; }
void gradient_checkpointing_disable(SessionOptions& options) { options.recompute = "keep-all"; }

}  // namespace snug
