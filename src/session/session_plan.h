// SPDX-License-Identifier: Apache-2.0
// A planned session: all that its engines refer to, and the way from a caller's options to it.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>

#include "choose/choose.h"
#include "network/facts.h"
#include "session/machine.h"
#include "session/network_identity.h"
#include "session/resolve.h"
#include "session/run_session.h"
#include "session/update.h"
#include "snug/session.h"

namespace snug::session {

[[nodiscard]] network::DescribedNetwork described(const Network& network,
                                                  const SessionOptions& options);
/// As the spec changes it: with adapters, and with frozen weights in fewer bits.
[[nodiscard]] compile::NetworkDef changed_network(compile::NetworkDef network,
                                                  const ResolvedSpec& resolved);
[[nodiscard]] Machine machine_of(const SessionOptions& options);
/// What is asked of planning. Refers to `session`.
[[nodiscard]] choose::RunPlanRequest plan_request(const compile::NetworkDef& network,
                                                  const RunSession& session,
                                                  const ResolvedSpec& resolved,
                                                  int64_t micro_batch);

/// The same of the run with these keys set (RunSession::changed). Throws Error{bad_config}.
[[nodiscard]] choose::RunPlanRequest request_with(const Network& network, const RunSession& session,
                                                  const LeverKeys& keys);

}  // namespace snug::session

namespace snug {

struct SessionPlan::Impl {
  /// make_plan() makes one.
  Impl(const Network& network, const session::RunSession& session, int64_t micro_batch,
       compile::Records records);

  /// Traces what trains, or what evaluates.
  [[nodiscard]] session::NetworkIdentity identity_of(bool training) const;

  SessionOptions options;
  session::ResolvedSpec resolved;  // of these options
  std::string name;
  Machine machine;
  compile::NetworkDef def;
  NetworkFacts facts;
  session::UpdateRule rule;
  std::set<std::string> trained;  // names of parameters
  choose::RunPlan plan;
  session::NetworkIdentity identity;  // of what trains
  mutable std::atomic<bool> is_block_leased = false;
};

}  // namespace snug

namespace snug::session {

/// `micro_batch` 0: the planner's choice.
[[nodiscard]] std::shared_ptr<const SessionPlan::Impl> make_plan(
    const Network& network, const RunSession& session, int64_t micro_batch,
    compile::Records records = compile::Records::none);

}  // namespace snug::session
