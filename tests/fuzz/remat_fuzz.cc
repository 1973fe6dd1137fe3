// SPDX-License-Identifier: Apache-2.0
// Problems and schedules of `snug solve`, with a NUL between the two. The listed order of whatever
// is read is valid, in each op's last way as well, and its peak that of the plain problem that is
// solved for it.
#include <vector>

#include "fuzz/fuzz.h"
#include "plan/problem/liveness.h"
#include "plan/problem/plain_problem.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"

namespace snug::fuzz {

static solve::ScheduleFile listed_order(const plan::Problem& problem, bool in_last_ways,
                                        int64_t& peak_bytes) {
  const plan::PlainProblem plain = plan::plain_problem(problem);
  IdVector<plan::OpId, plan::OpId> order(plain.problem.ops.ids());
  for (const plan::OpId variant : plain.problem.variant_ids()) {
    if (in_last_ways) order[plain.problem.op_of(variant)] = variant;
  }
  const plan::JointSchedule joint = plan::joint_schedule(problem, plain, order);
  peak_bytes = plan::analyse(plain.problem, order).load_bytes + plain.common_bytes;
  solve::ScheduleFile schedule;
  for (const plan::OpId id : joint.ops) schedule.ops.push_back(problem.run(id).name);
  if (joint.parts) schedule.boundary_step = joint.parts->boundary_step;
  return schedule;
}

void read_remat(std::string_view input) {
  const auto parts = parts_of(input, 2);
  const plan::Problem problem = solve::load_remat_problem(write_file("problem.json", parts[0]));
  for (const bool in_last_ways : {false, true}) {
    int64_t peak_bytes = 0;
    const RematCheck listed =
        solve::replay(problem, listed_order(problem, in_last_ways, peak_bytes));
    require(listed.violations.empty(), "the listed order is a schedule");
    require(listed.peak_bytes == peak_bytes, "solver and check count the same bytes");
  }
  if (parts[1].empty()) return;
  const RematCheck check =
      solve::replay(problem, solve::load_remat_schedule(write_file("schedule.json", parts[1])));
  require(check.peak_bytes >= 0, "no peak is negative");
}

}  // namespace snug::fuzz
