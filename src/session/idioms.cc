// SPDX-License-Identifier: Apache-2.0
#include "snug/idioms.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/wildcard.h"
#include "compile/compile.h"
#include "network/facts.h"
#include "session/session_plan.h"
#include "snug/error.h"
#include "spec/table.h"

namespace snug {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, where, what, hint);
}

void check_no_optimizer(const SessionOptions& options) {
  const TrainSpec given = spec::spec_of(options);
  for (const spec::Field& field : spec::fields()) {
    if (field.is_of_update && field.json(given) != field.json(TrainSpec()))
      fail(field.name, "gradients alone have no optimizer", "omit it, or train with Session::step");
  }
}

// Freezes every weight that `xs` does not name.
std::vector<std::string> frozen_by(const Network& network, const std::vector<std::string>& xs,
                                   const SessionOptions& options) {
  if (xs.empty()) return options.freeze;
  if (!options.freeze.empty())
    fail("freeze", "the weights are chosen by name already", "give one of the two");
  const std::vector<std::string> names = compile::parameter_names(session::changed_network(
      session::described(network, options).def, session::resolve(spec::spec_of(options))));
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
    fail("recompute", "the checkpoints say already what is recomputed", "omit it");
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
         "omit it, or do without RecomputeOptimizer");
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
