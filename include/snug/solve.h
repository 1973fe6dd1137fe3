// SPDX-License-Identifier: Apache-2.0
// The planner alone on plain data: placement. Deterministic; nothing is global and nothing is
// printed; every failure is a snug::Error.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

/// A buffer that lives on the half-open interval [lower, upper) of some clock.
struct PlacementItem {
  std::string id;
  int64_t lower = 0;
  int64_t upper = 0;  // > lower
  int64_t size = 0;   // bytes, or any other unit; >= 0
  int64_t line = 0;   // of the file it came from; 0 where there is none
};

struct PlacementRequest {
  std::vector<PlacementItem> items;
  std::string name;  // in errors, where a file's name would stand
  /// With a capacity any placement within it is enough; without one the lowest that is found.
  std::optional<int64_t> capacity;
  /// Limit of the exact search. A node is one decision on at most a few hundred items; about 10 µs.
  int64_t max_nodes = 2'000'000;
  /// Set by anybody at any time: the search throws Error{cancelled}. Null: never.
  const std::atomic<bool>* cancel = nullptr;
};

struct PlacementResult {
  std::vector<int64_t> offsets;  // one per item, >= 0, in the unit of the sizes
  int64_t load = 0;              // largest sum of sizes that live at one time: no height is smaller
  int64_t load_time = 0;         // the first time at which it is reached
  int64_t height = 0;            // largest offset + size
  std::optional<int64_t> capacity;
  double seconds = 0;  // of the search

  /// (height - load) / load; 0 where nothing is placed.
  [[nodiscard]] double gap() const;
  /// One JSON object: load, height, gap, seconds, and capacity where there was one.
  [[nodiscard]] std::string to_json() const;
  /// The same as lines for people.
  [[nodiscard]] std::string to_text() const;
};

/// Reads a CSV file (RFC 4180) whose first line names the columns id, lower, upper and size in any
/// order; a column `offset` is ignored. Throws Error{bad_data} with file, line and fix.
[[nodiscard]] std::vector<PlacementItem> read_placement_csv(const std::string& file);

/// Reads a capacity: a whole number in the unit of the sizes ("29"), or bytes with their unit
/// ("1MiB"). Throws Error{bad_config}.
[[nodiscard]] int64_t parse_capacity(std::string_view text);

/// A number of nodes for `max_nodes`; throws Error{bad_config} for all but digits.
[[nodiscard]] int64_t parse_max_nodes(std::string_view text);

/// Places every item so that none that live at the same time overlap. Throws Error{out_of_budget}
/// where the load exceeds the capacity (the proof) or no placement within it was found, and
/// Error{bad_data} for items that contradict their own description.
[[nodiscard]] PlacementResult solve_placement(const PlacementRequest& request);

/// Writes the columns id, lower, upper, size and offset, in the order of the items; the file
/// appears whole or not at all.
void write_placement_csv(const std::string& file, const std::vector<PlacementItem>& items,
                         const std::vector<int64_t>& offsets);

}  // namespace snug
