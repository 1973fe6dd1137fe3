// SPDX-License-Identifier: Apache-2.0
#include "verbs/budget_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/heap.h"
#include "base/units.h"
#include "io/file.h"
#include "notices/notices.h"
#include "snug/error.h"
#include "snug/memory.h"

namespace snug::verbs {
namespace {

// Counters of control groups lag behind by some pages for each core.
constexpr int64_t kCountingSlackBytes = int64_t{8} << 20;
// What planning needs is reserved with room: 2 to 5 times what was measured.
constexpr int64_t kRoomOfStartup = 8;

std::string both_units(int64_t bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
}

// What other allocators keep of freed memory, and when they give it back, is their own affair.
std::optional<Warning> allocator_warning() {
  const std::string allocator = foreign_allocator();
  if (allocator.empty()) return std::nullopt;
  return Warning{.code = "other_allocator",
                 .text = "the memory allocator of this process is " + allocator +
                         ", not the C library's: it may keep memory that was freed, and the "
                         "process may then take more than the budget",
                 .share = std::nullopt};
}

}  // namespace

int64_t checked_budget(const RunConfig& config, const RunOptions& options, AboveLimit consequence,
                       const std::string& root) {
  const int64_t budget = resolve_memory(config.memory, root);
  if (options.budgets_whole_process) notices::warn(options, allocator_warning());
  if (!options.memory.empty()) return budget;
  std::vector<MemoryLimit> limits = memory_limits(root);
  std::erase_if(limits, [&](const MemoryLimit& limit) { return limit.bytes >= budget; });
  // What ends a run first, then the tightest.
  std::sort(limits.begin(), limits.end(), [](const MemoryLimit& a, const MemoryLimit& b) {
    const bool a_slows = a.excess == Excess::slowed;
    const bool b_slows = b.excess == Excess::slowed;
    return a_slows != b_slows ? b_slows : a.bytes < b.bytes;
  });
  if (!limits.empty()) {
    const MemoryLimit& limit = limits.front();
    const std::string text = fmt::format("the budget of {} is above the {}, which is {}",
                                         both_units(budget), limit.source, both_units(limit.bytes));
    const Warning warning{
        .code = "budget_above_limit",
        .text = text + (consequence == AboveLimit::is_said
                            ? ": this plan is for another machine"
                            : ": a run that needs more will nearly stand still"),
        .count = budget - limit.bytes,
        .share = static_cast<double>(budget - limit.bytes) / static_cast<double>(budget)};
    if (consequence == AboveLimit::is_said || limit.excess == Excess::slowed) {
      notices::warn(options, warning);
    } else {
      throw Error(
          ErrorCode::out_of_budget, "memory",
          text + (limit.excess == Excess::killed ? ": the run would be killed"
                                                 : ": the run would be given no more memory"),
          fmt::format("--memory auto takes what the limit allows, --memory {} all of it",
                      limit.bytes));
    }
    return budget;
  }
  const MemoryLimit left = memory_left(root);
  if (budget > left.bytes + kCountingSlackBytes) {
    notices::warn(
        options,
        Warning{.code = "memory_taken",
                .text = fmt::format("other processes leave {} ({}), less than the budget of {}: a "
                                    "run that needs more may be killed",
                                    format_bytes(left.bytes), left.source, format_bytes(budget)),
                .count = budget - left.bytes,
                .share = static_cast<double>(budget - left.bytes) / static_cast<double>(budget)});
  }
  return budget;
}

void check_files_in_memory(const FilesInFolder& files, const std::string& root) {
  const std::optional<MemoryLimit> limit = group_memory(root);
  if (!limit || files.bytes + files.process_bytes <= limit->bytes) return;
  if (!io::lies_in_memory(files.folder)) return;
  const int64_t left = limit->bytes - files.bytes;
  throw Error(
      ErrorCode::out_of_budget, files.key,
      fmt::format("{} lies in memory (tmpfs), where files count in the {}, which is {}: those of "
                  "this run take up to {}, the run itself {}",
                  files.folder, limit->source, both_units(limit->bytes), format_bytes(files.bytes),
                  format_bytes(files.process_bytes)),
      "give a folder on a disk" +
          (left >= files.smallest_bytes
               ? fmt::format(", or --memory {}", left / kPageBytes * kPageBytes)
               : std::string()) +
          (files.key == "output_dir" ? "; fewer archives (save_total_limit) take less" : ""));
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

}  // namespace snug::verbs
