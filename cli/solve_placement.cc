// SPDX-License-Identifier: Apache-2.0
// snug solve placement: offsets for the lifetimes and sizes in a file.
#include <CLI/CLI.hpp>

#include "common.h"
#include "snug/solve.h"
#include "solve.h"
#include "terminal.h"
#include "words.h"

namespace snug::cli {
int solve_placement_verb(const std::vector<std::string>& words) {
  PlacementRequest request;
  std::string capacity;
  std::string max_nodes = std::to_string(request.max_nodes);
  std::string output;
  bool is_json = false;
  CLI::App app(
      "Finds offsets so that no two buffers that live at the same time overlap, and the highest "
      "byte is as low as possible. The file is CSV with the columns id, lower, upper and size; a "
      "lifetime is [lower, upper). Prints the load (the largest sum of sizes that live at one "
      "time: no height is smaller), the height, the gap (height - load) / load, and seconds.",
      "snug solve placement");
  app.add_option("file", request.name, "Problem (CSV)")->required();
  app.add_option("--capacity", capacity,
                 "In the unit of the sizes (29), or bytes with their unit (1MiB): any placement "
                 "within it is enough; exit code 2 where there is none or none was found");
  app.add_option("--output", output, "File for the same columns and offset (CSV)");
  app.add_option("--max-nodes", max_nodes,
                 "Limit of the exact search, about 10 microseconds each; 0 leaves it out")
      ->capture_default_str();
  app.add_flag("--json", is_json, "Print one JSON object and nothing else");
  if (!parse_words(app, words)) return kDone;
  check_output(request.name, output);
  request.max_nodes = parse_max_nodes(max_nodes);
  if (!capacity.empty()) request.capacity = parse_capacity(capacity);
  request.cancel = interrupt_flag();
  request.items = read_placement_csv(request.name);
  const PlacementResult result = solve_placement(request);
  if (!output.empty()) write_placement_csv(output, request.items, result.offsets);
  print(is_json ? result.to_json() + "\n" : result.to_text(), is_json);
  return kDone;
}

}  // namespace snug::cli
