// SPDX-License-Identifier: Apache-2.0
// Whether the machine grants the budget, before anything is read: the control group's limit, and
// what other processes leave.
#pragma once

#include <string>

#include "snug/run.h"

namespace snug::verbs {

/// What follows from a budget above the control group's limit: a run would be killed for it; a plan
/// may be for another machine.
enum class AboveLimit { is_refused, is_said };

/// The budget in bytes (resolve_memory). Throws Error{out_of_budget} where it is above the limit
/// and that is refused; says on_message where it is above the limit otherwise, and where other
/// processes leave less than it. A caller's own memory is there already: then nothing is checked.
/// Inside somebody else's process the budget is resident values and arena alone, which must keep
/// the same limits.
int64_t checked_budget(const RunConfig& config, const RunOptions& options, AboveLimit consequence,
                       const std::string& root = "/");

/// Before a plan is made for `budget`, where planning alone would be killed: throws
/// Error{out_of_budget} where what reading and planning need is above the control group's limit and
/// so is refused anyway, and where it is far above all that there is, whatever the budget.
/// Otherwise the refusal that planning makes says more.
void check_startup(int64_t budget, int64_t startup_bytes, const RunOptions& options,
                   const std::string& root = "/");

/// What a run writes into a folder, and holds itself meanwhile.
struct FilesInFolder {
  std::string key;     // of the configuration, that names the folder
  std::string folder;  // which exists
  int64_t bytes = 0;
  int64_t process_bytes = 0;
  int64_t smallest_bytes = 0;  // of the process, within any budget that works
};
/// Where the folder lies in memory its files count in the control group, beside the process: throws
/// Error{out_of_budget} where both together are above its limit.
void check_files_in_memory(const FilesInFolder& files, const std::string& root = "/");

}  // namespace snug::verbs
