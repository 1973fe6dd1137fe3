// SPDX-License-Identifier: Apache-2.0
// From a caller's options to what planning and updating are asked for.
#pragma once

#include "fit/run_plan.h"
#include "network/facts.h"
#include "session/update.h"
#include "snug/session.h"

namespace snug {

/// Throws Error{bad_config} that names the option.
void check_options(const SessionOptions& options);
[[nodiscard]] train::Recipe recipe_of(const SessionOptions& options);
[[nodiscard]] train::UpdateRule update_rule(const SessionOptions& options,
                                            const NetworkDef& network);
/// `micro_batch` 0: the planner's choice.
[[nodiscard]] train::RunPlan plan_session(const NetworkDef& network, const std::string& name,
                                          const SessionOptions& options, int64_t micro_batch,
                                          const Backend& backend);

}  // namespace snug
