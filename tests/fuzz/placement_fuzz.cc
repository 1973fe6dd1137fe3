// SPDX-License-Identifier: Apache-2.0
// Placement problems in CSV, and a short search on them.
#include <string>
#include <utility>

#include "fuzz/fuzz.h"
#include "snug/solve.h"

namespace snug::fuzz {

void read_placement(std::string_view input) {
  const unsigned char choice = take_byte(input);
  PlacementRequest request;
  request.items = read_placement_csv(write_file("problem.csv", input));
  request.name = "problem.csv";
  request.max_nodes = 100;
  if (request.items.size() > 200) return;  // the search is the planner's, not the reader's
  if ((choice & 1) != 0) request.capacity = int64_t{1} << (choice >> 1) % 63;
  const PlacementResult result = solve_placement(request);
  require(result.height >= result.load, "no height is below the load");
  for (size_t i = 0; i < request.items.size(); ++i)
    require(result.offsets[i] >= 0 && result.offsets[i] <= result.height - request.items[i].size,
            "every item lies within the height");
  (void)result.to_json();
}

}  // namespace snug::fuzz
