// SPDX-License-Identifier: Apache-2.0
#include "plan/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "plan/placement/greedy.h"

namespace snug::plan {
namespace {

bool is_disjoint(const std::vector<LiveRange>& ranges, const Placement& placement) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (size_t j = i + 1; j < ranges.size(); ++j) {
      const bool in_time = ranges[i].first <= ranges[j].last && ranges[j].first <= ranges[i].last;
      const bool in_bytes = placement.offsets[i] < placement.offsets[j] + ranges[j].bytes &&
                            placement.offsets[j] < placement.offsets[i] + ranges[i].bytes;
      if (in_time && in_bytes && ranges[i].bytes > 0 && ranges[j].bytes > 0) return false;
    }
  }
  return true;
}

int64_t height_of(const std::vector<LiveRange>& ranges, const Placement& placement) {
  int64_t height = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].bytes > 0) height = std::max(height, placement.offsets[i] + ranges[i].bytes);
  }
  return height;
}

std::vector<LiveRange> random_ranges(uint64_t seed, size_t count, int32_t steps,
                                     int64_t max_units) {
  std::mt19937_64 random(seed);
  std::vector<LiveRange> ranges;
  for (size_t i = 0; i < count; ++i) {
    const auto a = static_cast<int32_t>(random() % static_cast<uint64_t>(steps));
    const auto b = static_cast<int32_t>(random() % static_cast<uint64_t>(steps));
    ranges.push_back({StorageId(i), std::min(a, b), std::max(a, b),
                      static_cast<int64_t>(random() % static_cast<uint64_t>(max_units + 1)),
                      kNone});
  }
  return ranges;
}

// The true optimum: every order, each range at its lowest free offset, contains an optimal
// placement.
int64_t brute_force_height(const std::vector<LiveRange>& ranges) {
  std::vector<int32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = std::numeric_limits<int64_t>::max();
  const Sections sections = sections_of(ranges);
  do {
    internal::GreedyPlacement greedy(ranges, sections);
    if (greedy.place(order, internal::Fit::first, best)) best = greedy.placement().height;
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::vector<LiveRange> read_csv(const std::string& name) {
  std::ifstream file(std::string(SNUG_SOURCE_DIR) + "/tests/data/placement/" + name);
  std::vector<LiveRange> ranges;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    long long id = 0, lower = 0, upper = 0, size = 0;
    if (std::sscanf(line.c_str(), "%lld,%lld,%lld,%lld", &id, &lower, &upper, &size) != 4) continue;
    ranges.push_back(
        {StorageId(id), static_cast<int32_t>(lower), static_cast<int32_t>(upper) - 1, size, kNone});
  }
  return ranges;
}

TEST(Placement, Nothing_and_zero_bytes_take_no_room) {
  EXPECT_EQ(place({}).height, 0);
  const std::vector<LiveRange> ranges = {{StorageId(0), 0, 5, 0, kNone},
                                         {StorageId(1), 0, 5, 64, kNone},
                                         {StorageId(2), 2, 2, 0, kNone}};
  const Placement placement = place(ranges);
  EXPECT_EQ(placement.height, 64);
  EXPECT_EQ(placement.offsets.size(), 3u);
}

TEST(Placement, Random_ranges_are_disjoint_and_the_height_is_true) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto ranges = random_ranges(seed, 5 + seed * 3, 40, 9);
    for (const Placement& each :
         {place_portfolio(ranges, load_of(ranges)),
          place(ranges, {.local_search_rounds = 10, .exact_search_nodes = 500}),
          place_local_search(ranges, load_of(ranges), place_portfolio(ranges, 0), 10),
          place_coarse(ranges, load_of(ranges), {{}, kNoHeight})}) {
      ASSERT_TRUE(is_disjoint(ranges, each)) << seed;
      ASSERT_EQ(each.height, height_of(ranges, each)) << seed;
      ASSERT_GE(each.height, load_of(ranges)) << seed;
    }
  }
}

// As in a recurrent net whose every step is nearly full: matrices, their halves and quarters, and
// scratch of a matrix and a little more.
std::vector<LiveRange> nearly_equal_ranges(uint64_t seed) {
  constexpr int64_t kSizes[] = {1000, 1003, 250, 500, 503};
  constexpr int32_t kSteps = 300;
  std::mt19937_64 random(seed);
  std::vector<int64_t> live(kSteps, 0);
  std::vector<LiveRange> ranges;
  for (int32_t i = 0; i < 6 * kSteps; ++i) {
    const int32_t first = i / 6;
    const int32_t last = std::min<int32_t>(kSteps - 1, first + static_cast<int32_t>(random() % 12));
    const int64_t bytes = kSizes[random() % std::size(kSizes)];
    const auto begin = live.begin() + first;
    const auto end = live.begin() + last + 1;
    if (std::any_of(begin, end, [&](int64_t used) { return used + bytes > 8000; })) continue;
    std::for_each(begin, end, [&](int64_t& used) { used += bytes; });
    ranges.push_back({StorageId(ranges.size()), first, last, bytes, kNone});
  }
  return ranges;
}

TEST(Placement, Coarse_sizes_lower_what_is_full_at_every_step) {
  double greedy = 0;
  double coarse = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<LiveRange> ranges = nearly_equal_ranges(seed);
    const int64_t load = load_of(ranges);
    const Placement portfolio = place_portfolio(ranges, load);
    const Placement improved = place_coarse(ranges, load, portfolio);
    ASSERT_TRUE(is_disjoint(ranges, improved)) << seed;
    ASSERT_EQ(improved.height, height_of(ranges, improved)) << seed;
    ASSERT_LE(improved.height, portfolio.height) << seed;
    greedy += static_cast<double>(portfolio.height) / static_cast<double>(load);
    coarse += static_cast<double>(improved.height) / static_cast<double>(load);
  }
  EXPECT_LT(coarse, 0.97 * greedy);
}

TEST(Placement, Exact_search_equals_brute_force_on_small_instances) {
  int32_t harder_than_greedy = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto ranges = random_ranges(seed, 7, 6, 5);
    const int64_t best = brute_force_height(ranges);
    const auto found = place_exact(ranges, best, 1'000'000);
    ASSERT_EQ(found.end, SearchEnd::solved) << seed;
    ASSERT_TRUE(is_disjoint(ranges, found.placement)) << seed;
    ASSERT_EQ(found.placement.height, best) << seed;
    ASSERT_EQ(place(ranges).height, best) << seed;
    if (best > 0) {
      ASSERT_EQ(place_exact(ranges, best - 1, 1'000'000).end, SearchEnd::impossible) << seed;
    }
    const int64_t greedy = place_portfolio(ranges, load_of(ranges), {{}, kNoHeight}, 0, 1).height;
    ASSERT_LE(best, greedy) << seed;
    if (greedy > best) ++harder_than_greedy;
  }
  EXPECT_GE(harder_than_greedy, 1);  // else the search was never needed
}

// Instances whose load no placement reaches are rare: one of seven ranges, and it with one more.
TEST(Placement, Exact_search_proves_that_the_load_is_out_of_reach) {
  int32_t above_load = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    std::vector<LiveRange> ranges = {{StorageId(0), 1, 2, 2, kNone}, {StorageId(1), 1, 4, 2, kNone},
                                     {StorageId(2), 5, 5, 3, kNone}, {StorageId(3), 0, 0, 3, kNone},
                                     {StorageId(4), 4, 5, 3, kNone}, {StorageId(5), 2, 4, 2, kNone},
                                     {StorageId(6), 0, 1, 3, kNone}};
    if (seed > 0) ranges.push_back(random_ranges(seed, 1, 6, 3).front());
    const int64_t load = load_of(ranges);
    const int64_t best = brute_force_height(ranges);
    if (best > load) ++above_load;
    const auto found = place_exact(ranges, load, 100'000);
    ASSERT_EQ(found.end, best > load ? SearchEnd::impossible : SearchEnd::solved) << seed;
    const auto within = place_within(ranges, load);
    ASSERT_EQ(within.is_impossible, best > load) << seed;
    ASSERT_EQ(place(ranges).height, best) << seed;
  }
  EXPECT_GE(above_load, 5);
}

// Rectangles cut from one without waste: every section is full, and nothing may be wasted.
TEST(Placement, A_packing_without_gaps_is_found_again) {
  for (const size_t count : {20u, 60u, 120u}) {
    std::mt19937_64 random(count);
    struct Cut {
      int32_t begin, end;
      int64_t bottom, top;
    };
    std::vector<Cut> cuts = {{0, 100, 0, 1000}};
    while (cuts.size() < count) {
      Cut& cut = cuts[random() % cuts.size()];
      Cut rest = cut;
      if (random() % 2 == 0 && cut.end - cut.begin > 1) {
        cut.end = cut.begin + 1 +
                  static_cast<int32_t>(random() % static_cast<uint64_t>(cut.end - cut.begin - 1));
        rest.begin = cut.end;
      } else if (cut.top - cut.bottom > 1) {
        cut.top = cut.bottom + 1 +
                  static_cast<int64_t>(random() % static_cast<uint64_t>(cut.top - cut.bottom - 1));
        rest.bottom = cut.top;
      } else {
        continue;
      }
      cuts.push_back(rest);
    }
    std::vector<LiveRange> ranges;
    for (const Cut& cut : cuts)
      ranges.push_back({StorageId(0), cut.begin, cut.end - 1, cut.top - cut.bottom, kNone});
    const auto found = place_exact(ranges, 1000, 2'000'000);
    ASSERT_EQ(found.end, SearchEnd::solved) << count;
    EXPECT_TRUE(is_disjoint(ranges, found.placement)) << count;
    EXPECT_EQ(found.placement.height, 1000) << count;
  }
}

// What hands over to the next, one after the other, beside what lives in between: a recurrent net.
// States of two units, the products of a step four units each. A greedy order that puts the
// products where they fit best leaves no room for both of two neighbouring states.
TEST(Placement, States_that_hand_over_in_turns_reach_the_load) {
  std::vector<LiveRange> ranges;
  const auto add = [&](int32_t first, int32_t last, int64_t bytes) {
    ranges.push_back({StorageId(ranges.size()), first, last, bytes, kNone});
  };
  for (int32_t step = 0; step < 500; ++step) {
    const int32_t now = 4 * step;
    add(now, now + 4, 2);      // the state, until the next one exists
    add(now + 1, now + 3, 4);  // product of the input
    add(now + 1, now + 1, 4);  // its scratch
    add(now + 2, now + 4, 4);  // product of the state
    add(now + 2, now + 2, 4);
  }
  const Placement found = place_portfolio(ranges, load_of(ranges));
  EXPECT_TRUE(is_disjoint(ranges, found));
  EXPECT_EQ(found.height, load_of(ranges));
  EXPECT_GT(place_portfolio(ranges, load_of(ranges), {{}, kNoHeight}, 0, 1).height,
            load_of(ranges));
}

// A peak in the middle of a thousand ranges that live through it, as keep-all's: for the search
// they are one.
TEST(Placement, A_thousand_ranges_around_the_peak_are_one_group_of_the_core) {
  int32_t missed_by_greedy = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto ranges = random_ranges(seed, 14, 10, 6);
    if (place(ranges).height > load_of(ranges)) continue;
    for (LiveRange& range : ranges) {
      range.first += 1000;
      range.last += 1000;
    }
    for (int32_t i = 0; i < 1000; ++i)
      ranges.push_back({StorageId(ranges.size()), i, 2010 - i, 3, kNone});
    const int64_t load = load_of(ranges);
    const PlacementWithin found = place_around_core(ranges, load, {{}, kNoHeight});
    ASSERT_EQ(found.placement.height, load) << seed;
    ASSERT_TRUE(is_disjoint(ranges, found.placement)) << seed;
    if (place_portfolio(ranges, load, {{}, kNoHeight}, 0, 1).height > load) ++missed_by_greedy;
  }
  EXPECT_GE(missed_by_greedy, 1);
}

TEST(Placement, Hard_instances_are_solved_within_their_capacity) {
  constexpr int64_t kCapacity = 1'048'576;
  int32_t harder_than_greedy = 0;
  for (char name = 'A'; name <= 'K'; ++name) {
    const auto ranges = read_csv(std::string(1, name) + ".csv");
    ASSERT_GE(ranges.size(), 154u) << name;
    if (place_portfolio(ranges, kCapacity).height > kCapacity) ++harder_than_greedy;
    const auto found = place_exact(ranges, kCapacity, 2'000'000);
    ASSERT_EQ(found.end, SearchEnd::solved) << name;
    EXPECT_TRUE(is_disjoint(ranges, found.placement)) << name;
    EXPECT_EQ(found.placement.height, height_of(ranges, found.placement)) << name;
    EXPECT_LE(found.placement.height, kCapacity) << name;
  }
  EXPECT_EQ(harder_than_greedy, 11);
}

TEST(Placement, A_hard_instance_is_placed_validly_within_limits_and_always_alike) {
  const auto ranges = read_csv("A.csv");
  ASSERT_EQ(ranges.size(), 154u);
  const PlacementLimits limits{.local_search_rounds = 20, .exact_search_nodes = 2'000};
  const Placement first = place(ranges, limits);
  EXPECT_TRUE(is_disjoint(ranges, first));
  EXPECT_LT(first.height, 1'048'576 * 4 / 3);
  EXPECT_EQ(first.offsets, place(ranges, limits).offsets);
}

TEST(Placement, A_stack_of_two_thousand_ranges_hits_the_load) {
  std::vector<LiveRange> ranges;
  for (int32_t i = 0; i < 1000; ++i) {
    ranges.push_back({StorageId(i), i, 4000 - i, 64 * (1 + i % 7), kNone});  // nested
    ranges.push_back(
        {StorageId(i), 2 * i, 2 * i + 1, 64 * (1 + i % 5), kNone});  // short-lived beside them
  }
  const Placement placement = place(ranges);
  EXPECT_EQ(placement.height, load_of(ranges));
  EXPECT_TRUE(is_disjoint(ranges, placement));
}

// What keep-all with a global clip has: activations that die in turns, short ranges beside them,
// and gradients that take the room and stay.
std::vector<LiveRange> kept_and_gathered(int32_t layers) {
  std::vector<LiveRange> ranges;
  for (int32_t i = 0; i < layers; ++i) {
    const int32_t back = 4 * layers - 2 * i;
    ranges.push_back({StorageId(i), 2 * i, back, 4096, kNone});
    ranges.push_back({StorageId(i), 2 * i, 2 * i + 1, 4096, kNone});
    ranges.push_back({StorageId(i), back - 1, back, 4096, kNone});
    for (int32_t k = 0; k < 4; ++k)
      ranges.push_back({StorageId(i), back, 4 * layers + 1, 64, kNone});
  }
  return ranges;
}

TEST(Placement, Searches_for_gaps_pass_what_is_full) {
  const auto looks_a_range = [](int32_t layers) {
    const std::vector<LiveRange> ranges = kept_and_gathered(layers);
    const Sections sections = sections_of(ranges);
    internal::GreedyPlacement greedy(ranges, sections);
    EXPECT_TRUE(greedy.place(internal::greedy_order(ranges, internal::Key::bytes),
                             internal::Fit::first, std::numeric_limits<int64_t>::max()));
    EXPECT_TRUE(is_disjoint(ranges, greedy.placement()));
    return static_cast<double>(greedy.looks()) / static_cast<double>(ranges.size());
  };
  EXPECT_LT(looks_a_range(4000), 300);
}

}  // namespace
}  // namespace snug::plan
