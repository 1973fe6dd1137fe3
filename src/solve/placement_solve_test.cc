// SPDX-License-Identifier: Apache-2.0
// The contract of `snug solve placement`: heights by an independent checker, bad files one clear
// error each, capacities with their proofs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>

#include "io/file.h"
#include "snug/error.h"
#include "snug/solve.h"

namespace snug::solve {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

std::string file_with(const std::string& text) {
  const std::string path = testing::TempDir() + "placement.csv";
  io::write_file(path, text);
  return path;
}

PlacementRequest request_of(const std::string& text) {
  PlacementRequest request;
  request.name = file_with(text);
  request.items = read_placement_csv(request.name);
  return request;
}

// Why the offsets are no placement of this height; empty if they are. Compares every pair.
std::string violation(const std::vector<PlacementItem>& items, const PlacementResult& result) {
  if (result.offsets.size() != items.size()) return "not one offset per item";
  int64_t height = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const PlacementItem& a = items[i];
    const int64_t a_from = result.offsets[i];
    if (a_from < 0) return a.id + " lies below 0";
    height = std::max(height, a_from + a.size);
    for (size_t j = 0; j < i; ++j) {
      const PlacementItem& b = items[j];
      const int64_t b_from = result.offsets[j];
      const bool in_time = a.lower < b.upper && b.lower < a.upper;
      const bool in_bytes = a_from < b_from + b.size && b_from < a_from + a.size;
      if (in_time && in_bytes && a.size > 0 && b.size > 0) return a.id + " overlaps " + b.id;
    }
  }
  return height == result.height ? "" : "the height is " + std::to_string(height);
}

// Code, place and text of the error, or "none".
template <class Call>
void expect_error(const Call& call, ErrorCode code, const std::set<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_FALSE(error.hint().empty()) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
  }
}

TEST(SolvePlacement, Places_a_file_and_writes_the_same_columns_with_offset) {
  const auto request = request_of("id,lower,upper,size\na,0,10,4\nb,5,15,3\nc,10,20,4\n");
  const PlacementResult result = solve_placement(request);
  EXPECT_EQ(violation(request.items, result), "");
  EXPECT_EQ(result.load, 7);
  EXPECT_EQ(result.load_time, 5);
  EXPECT_EQ(result.height, 7);
  EXPECT_EQ(result.gap(), 0.0);
  const std::string output = testing::TempDir() + "placed.csv";
  write_placement_csv(output, request.items, result.offsets);
  const std::string text = io::read_all(output, 1000);
  EXPECT_TRUE(text.starts_with("id,lower,upper,size,offset\na,0,10,4,")) << text;
  // What was written can be read, and solves to the same.
  const auto again = read_placement_csv(output);
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[2].id, "c");
}

TEST(SolvePlacement, Ends_when_it_is_cancelled) {
  auto request = request_of("id,lower,upper,size\na,0,10,4\nb,5,15,3\nc,10,20,4\n");
  std::atomic<bool> cancel{true};
  request.cancel = &cancel;
  try {
    (void)solve_placement(request);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  cancel = false;
  EXPECT_EQ(solve_placement(request).height, 7);
}

TEST(SolvePlacement, Prints_exactly_the_promised_keys) {
  auto request = request_of("id,lower,upper,size\na,0,1,8\n");
  EXPECT_TRUE(solve_placement(request).to_json().starts_with(
      "{\n  \"load\": 8,\n  \"height\": 8,\n  \"gap\": 0.0,\n  \"seconds\": "));
  EXPECT_EQ(solve_placement(request).to_json().find("capacity"), std::string::npos);
  request.capacity = 9;
  EXPECT_NE(solve_placement(request).to_json().find("\"capacity\": 9"), std::string::npos);
}

TEST(SolvePlacement, Columns_in_any_order_and_quoted_ids) {
  const auto items =
      read_placement_csv(file_with("\xEF\xBB\xBFoffset, size ,upper,lower,id\r\n7,5,9,-3,\"a, "
                                   "\"\"b\"\"\nc\"\r\n,0,2,1,\r\n\r\n"));
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].id, "a, \"b\"\nc");
  EXPECT_EQ(items[0].lower, -3);
  EXPECT_EQ(items[0].upper, 9);
  EXPECT_EQ(items[0].size, 5);
  EXPECT_EQ(items[1].id, "");
  EXPECT_EQ(items[1].line, 4);  // the first row takes two lines
  const std::string output = testing::TempDir() + "quoted.csv";
  write_placement_csv(output, items, {0, 0});
  const auto again = read_placement_csv(output);
  EXPECT_EQ(again[0].id, items[0].id);
  EXPECT_EQ(again[1].id, items[1].id);
}

TEST(SolvePlacement, Bad_files_are_one_clear_error_with_line_and_fix) {
  const auto expect_bad = [](const std::string& text, const std::set<std::string>& parts) {
    const std::string path = file_with(text);
    SCOPED_TRACE(text);
    expect_error(
        [&] {
          (void)solve_placement({read_placement_csv(path), path, {}});
        },
        ErrorCode::bad_data, parts);
  };
  const std::string header = "id,lower,upper,size\n";
  expect_bad("", {"placement.csv", "empty"});
  expect_bad("\n\n", {"placement.csv", "empty"});
  expect_bad("id,lower,upper\na,0,1\n", {"placement.csv:1", "'size'"});
  expect_bad("0,1,2,3\n", {"placement.csv:1", "unknown column '0'"});
  expect_bad("id,lower,upper,size,colour\n", {"placement.csv:1", "'colour'"});
  expect_bad("id,lower,upper,size,size\n", {"placement.csv:1", "'size' occurs twice"});
  expect_bad("offset,id,lower,upper,size,offset\n", {"placement.csv:1", "'offset' occurs twice"});
  expect_bad(header + "a,0,1,2\nb,3,3,1\n", {"placement.csv:3", "lower 3 is not below upper 3"});
  expect_bad(header + "a,4,3,1\n", {"placement.csv:2", "lower 4"});
  expect_bad(header + "a,0,1,-1\n", {"placement.csv:2", "size -1 is negative"});
  expect_bad(header + "a,0,1,1.5\n", {"placement.csv:2", "size '1.5'", "whole number"});
  expect_bad(header + "a,0,1,\n", {"placement.csv:2", "size ''", "whole number"});
  expect_bad(header + "a,zero,1,2\n", {"placement.csv:2", "lower 'zero'"});
  expect_bad(header + "a,0,9223372036854775808,2\n", {"placement.csv:2", "upper", "64-bit"});
  expect_bad(header + "a,0,1,2\nb,0,1,2\na,0,1,2\n", {"placement.csv:4", "'a'", "line 2"});
  expect_bad(header + "a,0,1\n", {"placement.csv:2", "3 fields", "4"});
  expect_bad(header + "a\"b,0,1,2\n", {"placement.csv:2", "quote"});
  expect_bad(header + "\"a,0,1,2\n", {"placement.csv:2", "is not closed"});
  expect_bad(header + "\"a\"b,0,1,2\n", {"placement.csv:2", "after the closing quote"});
  expect_error([] { (void)read_placement_csv("nowhere.csv"); }, ErrorCode::io, {"nowhere.csv"});
}

TEST(SolvePlacement, Files_have_limits) {
  const auto expect_refused = [](const std::string& path, const std::set<std::string>& parts) {
    expect_error([&] { (void)read_placement_csv(path); }, ErrorCode::bad_data, parts);
  };
  expect_refused(file_with(std::string(64, ',') + "\n"),
                 {"placement.csv:1", "more than 64 fields"});
  std::string rows = "id,lower,upper,size\n";
  for (int i = 0; i < 1'000'000; ++i) rows += std::to_string(i) + ",0,1,1\n";
  EXPECT_EQ(read_placement_csv(file_with(rows)).size(), 1'000'000u);
  expect_refused(file_with(rows + "one,0,1,1\n"),
                 {"placement.csv:1000002", "more than 1000000 rows"});
  const std::string path = file_with("id");
  std::filesystem::resize_file(path, (64 << 20) + 1);
  expect_refused(path, {"placement.csv", "at most 64.0 MiB"});
}

TEST(SolvePlacement, A_capacity_below_the_load_is_refused_with_the_proof) {
  auto request = request_of("id,lower,upper,size\na,0,10,4\nb,5,15,3\nc,7,9,2\n");
  request.capacity = 8;
  expect_error([&] { (void)solve_placement(request); }, ErrorCode::out_of_budget,
               {"placement.csv", "at time 7", "9 must be held", "capacity of 8"});
  request.capacity = 9;
  EXPECT_EQ(solve_placement(request).height, 9);
}

TEST(SolvePlacement, A_capacity_that_no_placement_meets_is_refused_as_proved) {
  PlacementRequest request = request_of(
      "id,lower,upper,size\n0,1,3,2\n1,1,5,2\n2,5,6,3\n3,0,1,3\n4,4,6,3\n5,2,5,2\n6,0,2,3\n");
  const PlacementResult lowest = solve_placement(request);
  EXPECT_EQ(violation(request.items, lowest), "");
  EXPECT_EQ(lowest.load, 7);
  EXPECT_EQ(lowest.height, 8);
  EXPECT_DOUBLE_EQ(lowest.gap(), 1.0 / 7);
  request.capacity = 7;
  expect_error([&] { (void)solve_placement(request); }, ErrorCode::out_of_budget,
               {"placement.csv", "no placement", "exhaustive", "8"});
}

TEST(SolvePlacement, Gives_up_at_the_limit_and_says_how_near_it_came) {
  PlacementRequest request;
  request.name = std::string(SNUG_SOURCE_DIR) + "/tests/data/placement/A.csv";
  request.items = read_placement_csv(request.name);
  request.capacity = 1'048'576;
  request.max_nodes = 0;
  expect_error([&] { (void)solve_placement(request); }, ErrorCode::out_of_budget,
               {"A.csv", "no placement found", "best height"});
}

TEST(SolvePlacement, Solves_a_hard_file_within_its_capacity) {
  PlacementRequest request;
  request.name = std::string(SNUG_SOURCE_DIR) + "/tests/data/placement/K.csv";
  request.items = read_placement_csv(request.name);
  request.capacity = 1'048'576;
  const PlacementResult result = solve_placement(request);
  EXPECT_EQ(violation(request.items, result), "");
  EXPECT_EQ(result.height, 1'048'576);
}

TEST(SolvePlacement, Takes_the_largest_numbers_and_refuses_their_sum) {
  PlacementRequest request;
  request.items = {{"a", -kLargest - 1, 0, kLargest}, {"b", 0, kLargest, kLargest}};
  const PlacementResult result = solve_placement(request);
  EXPECT_EQ(result.height, kLargest);
  EXPECT_EQ(result.offsets, (std::vector<int64_t>{0, 0}));
  request.items.push_back({"c", 5, 6, 1});
  expect_error([&] { (void)solve_placement(request); }, ErrorCode::bad_data, {"time 5", "64-bit"});
}

TEST(SolvePlacement, Nothing_and_no_bytes_have_no_height) {
  PlacementRequest request = request_of("id,lower,upper,size\n");
  EXPECT_EQ(solve_placement(request).height, 0);
  EXPECT_EQ(solve_placement(request).gap(), 0.0);
  request.items = {{"a", 0, 1, 0}, {"b", 0, 1, 0}};
  request.capacity = 0;
  EXPECT_EQ(solve_placement(request).offsets, (std::vector<int64_t>{0, 0}));
}

TEST(SolvePlacement, Is_the_same_in_every_run) {
  PlacementRequest request;
  request.items = read_placement_csv(std::string(SNUG_SOURCE_DIR) + "/tests/data/placement/D.csv");
  request.max_nodes = 5'000;
  const PlacementResult first = solve_placement(request);
  EXPECT_EQ(violation(request.items, first), "");
  EXPECT_EQ(first.offsets, solve_placement(request).offsets);
}

}  // namespace
}  // namespace snug::solve
