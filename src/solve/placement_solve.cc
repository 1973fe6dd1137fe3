// SPDX-License-Identifier: Apache-2.0
// Placement of plain data: checks it, compresses time, asks plan/placement, judges the answer.
#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/float_mode.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "plan/placement/placement.h"
#include "snug/does_not_fit.h"
#include "snug/error.h"
#include "snug/solve.h"

namespace snug {
namespace {

constexpr int32_t kLocalSearchRounds = 40;

std::string place_of(const PlacementRequest& request, const PlacementItem& item) {
  if (item.line > 0) return request.name + ":" + std::to_string(item.line);
  return request.name + (request.name.empty() ? "" : ", ") + "item '" + item.id + "'";
}

void check(const PlacementRequest& request) {
  for (const PlacementItem& item : request.items) {
    const auto fail = [&](const std::string& message, const char* hint) {
      throw Error(ErrorCode::bad_data, place_of(request, item), message, hint);
    };
    if (item.lower >= item.upper) {
      fail("lower " + std::to_string(item.lower) + " is not below upper " +
               std::to_string(item.upper),
           "a lifetime [lower, upper) has at least one unit of time");
    }
    if (item.size < 0)
      fail("size " + std::to_string(item.size) + " is negative", "sizes begin at 0");
  }
  if (request.capacity && *request.capacity < 0) {
    throw Error(ErrorCode::bad_config, "capacity",
                std::to_string(*request.capacity) + " is negative", "capacities begin at 0");
  }
}

// Lifetimes in ranks of the times that occur.
std::vector<plan::LiveRange> live_ranges(const std::vector<PlacementItem>& items) {
  std::vector<int64_t> times;
  for (const PlacementItem& item : items) {
    times.push_back(item.lower);
    times.push_back(item.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto rank_of = [&](int64_t time) {
    return static_cast<int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<plan::LiveRange> ranges;
  for (const PlacementItem& item : items)
    ranges.push_back({plan::StorageId(ranges.size()), rank_of(item.lower), rank_of(item.upper) - 1,
                      item.size, kNone});
  return ranges;
}

// Sets load and load_time.
void measure_load(const PlacementRequest& request, PlacementResult& result) {
  struct Change {
    int64_t time;
    int64_t size;  // negative at the end of a lifetime, so that ends come first
  };
  std::vector<Change> changes;
  for (const PlacementItem& item : request.items) {
    changes.push_back({item.lower, item.size});
    changes.push_back({item.upper, -item.size});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.size < b.size;
  });
  int64_t in_use = 0;
  for (const Change& change : changes) {
    if (change.size > std::numeric_limits<int64_t>::max() - in_use) {
      throw Error(ErrorCode::bad_data, request.name,
                  "the sizes that live at time " + std::to_string(change.time) +
                      " add up to more than a signed 64-bit number",
                  "divide all sizes by a common factor");
    }
    in_use += change.size;
    if (in_use <= result.load) continue;
    result.load = in_use;
    result.load_time = change.time;
  }
}

// Where the capacity does not do. `height`: of the lowest placement found, where one was looked
// for.
[[noreturn]] void refuse(const PlacementRequest& request, int64_t load, const std::string& message,
                         const std::string& hint, std::optional<int64_t> height = {}) {
  RefusalFacts facts{.proof = message, .smallest_bytes = height, .bound_bytes = load};
  if (height)
    facts.ways.push_back({.keys = {{"capacity", std::to_string(*height)}},
                          .least_bytes = *height,
                          .text = "the lowest that was found"});
  throw DoesNotFit(request.name, message, std::move(facts), hint);
}

plan::Placement search(const PlacementRequest& request, const PlacementResult& result) {
  const StopScope stop({.cancel = request.cancel, .deadline = {}});
  const std::vector<plan::LiveRange> ranges = live_ranges(request.items);
  const plan::PlacementLimits limits{.local_search_rounds = kLocalSearchRounds,
                                     .exact_search_nodes = request.max_nodes};
  if (!request.capacity) return plan::place(ranges, limits);
  plan::PlacementWithin found = plan::place_within(ranges, *request.capacity, limits);
  if (found.placement.height <= *request.capacity) return std::move(found.placement);
  if (found.is_impossible) {
    refuse(request, result.load,
           "no placement within the capacity of " + std::to_string(*request.capacity) +
               " exists: an exhaustive search found none",
           "the lowest that was found has a height of " + std::to_string(found.placement.height),
           found.placement.height);
  }
  refuse(request, result.load,
         "no placement found within the capacity of " + std::to_string(*request.capacity) +
             "; the load is " + std::to_string(result.load) + ", the best height that was found " +
             std::to_string(found.placement.height),
         "give that capacity, or more nodes to the search", found.placement.height);
}

}  // namespace

double PlacementResult::gap() const {
  return load == 0 ? 0.0 : static_cast<double>(height - load) / static_cast<double>(load);
}

std::string PlacementResult::to_json() const {
  nlohmann::ordered_json json = {
      {"load", load}, {"height", height}, {"gap", gap()}, {"seconds", seconds}};
  if (capacity) json["capacity"] = *capacity;
  return json.dump(2);
}

std::string PlacementResult::to_text() const {
  std::string lines = "load     " + std::to_string(load) + " at time " + std::to_string(load_time) +
                      "\nheight   " + std::to_string(height) + "\n";
  if (capacity) lines += "capacity " + std::to_string(*capacity) + "\n";
  return lines + "gap      " + fixed_text(100.0 * gap(), 4) + " %\nseconds  " +
         fixed_text(seconds, 3) + "\n";
}

PlacementResult solve_placement(const PlacementRequest& request) {
  const DefaultFloatMode float_mode;
  check(request);
  const auto start = std::chrono::steady_clock::now();
  PlacementResult result;
  result.capacity = request.capacity;
  measure_load(request, result);
  if (request.capacity && result.load > *request.capacity) {
    refuse(request, result.load,
           "the capacity of " + std::to_string(*request.capacity) + " is below the load: at time " +
               std::to_string(result.load_time) + ", " + std::to_string(result.load) +
               " must be held at once",
           "no placement needs less than " + std::to_string(result.load));
  }
  plan::Placement placement = search(request, result);
  if (placement.height == plan::kNoHeight && placement.offsets.empty()) {
    throw Error(ErrorCode::unsupported, request.name,
                "no placement below the largest signed 64-bit number was found",
                "divide all sizes by a common factor");
  }
  result.height = placement.height;
  result.offsets = std::move(placement.offsets);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace snug
