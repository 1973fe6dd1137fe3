// SPDX-License-Identifier: Apache-2.0
// Problems and schedules of `snug solve`, with a NUL between the two.
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"

namespace snug::fuzz {

void read_remat(std::string_view input) {
  const auto parts = parts_of(input, 2);
  const plan::Problem problem = solve::load_remat_problem(write_file("problem.json", parts[0]));
  std::vector<std::string> schedule;
  for (const plan::Op& op : problem.ops) schedule.push_back(op.name);
  if (!parts[1].empty())
    schedule = solve::load_remat_schedule(write_file("schedule.json", parts[1]));
  const RematCheck check = solve::replay(problem, schedule);
  require(check.peak_bytes >= 0, "no peak is negative");
}

}  // namespace snug::fuzz
