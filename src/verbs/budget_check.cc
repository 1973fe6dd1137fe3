// SPDX-License-Identifier: Apache-2.0
#include "verbs/budget_check.h"

#include <fmt/format.h>

#include <optional>

#include "base/units.h"
#include "setup/notices.h"
#include "snug/error.h"
#include "snug/memory.h"

namespace snug::train {
namespace {

// Counters of control groups lag behind by some pages for each core.
constexpr int64_t kCountingSlackBytes = int64_t{8} << 20;
// What planning needs is reserved with room: 2 to 5 times what was measured.
constexpr int64_t kRoomOfStartup = 8;

std::string both_units(int64_t bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
}

}  // namespace

int64_t checked_budget(const RunConfig& config, const RunOptions& options, AboveLimit consequence,
                       const std::string& root) {
  const int64_t budget = resolve_memory(config.memory, root);
  if (!options.memory.empty()) return budget;
  const std::optional<MemoryLimit> limit = group_memory(root);
  if (limit && budget > limit->bytes) {
    const std::string text =
        fmt::format("the budget of {} is above the {}, which is {}", both_units(budget),
                    limit->source, both_units(limit->bytes));
    if (consequence == AboveLimit::is_refused) {
      throw Error(ErrorCode::out_of_budget, "memory", text + ": the run would be killed",
                  fmt::format("--memory auto takes what the limit allows, --memory {} all of it",
                              limit->bytes));
    }
    warn(options, Warning{.code = "budget_above_limit",
                          .text = text + ": this plan is for another machine",
                          .count = budget - limit->bytes,
                          .share = static_cast<double>(budget - limit->bytes) /
                                   static_cast<double>(budget)});
    return budget;
  }
  const MemoryLimit left = memory_left(root);
  if (budget > left.bytes + kCountingSlackBytes) {
    warn(options,
         Warning{.code = "memory_taken",
                 .text = fmt::format("other processes leave {} ({}), less than the budget of {}: a "
                                     "run that needs more may be killed",
                                     format_bytes(left.bytes), left.source, format_bytes(budget)),
                 .count = budget - left.bytes,
                 .share = static_cast<double>(budget - left.bytes) / static_cast<double>(budget)});
  }
  return budget;
}

void check_startup(int64_t budget, int64_t startup_bytes, const RunOptions& options,
                   const std::string& root) {
  if (!options.budgets_whole_process) return;
  const std::optional<MemoryLimit> limit = group_memory(root);
  if (limit && startup_bytes > limit->bytes && budget <= limit->bytes) {
    throw Error(ErrorCode::out_of_budget, "memory",
                fmt::format("the run does not fit {}: reading the data, a vocabulary and planning "
                            "need {} by themselves, more than the {}, which is {}",
                            format_bytes(budget), format_bytes(startup_bytes), limit->source,
                            both_units(limit->bytes)),
                "raise that limit; where there is none, `snug plan` says which budget works");
  }
  const int64_t surely = startup_bytes / kRoomOfStartup;
  const MemoryLimit there_is = machine_memory(root);
  if (surely <= there_is.bytes) return;
  throw Error(ErrorCode::out_of_budget, "memory",
              fmt::format("planning alone needs more than {} here, whatever the budget, and the {} "
                          "is {}",
                          format_bytes(surely), there_is.source, both_units(there_is.bytes)),
              "plan where there is more memory, or use a model of fewer layers");
}

}  // namespace snug::train
