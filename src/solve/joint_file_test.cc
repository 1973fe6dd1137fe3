// SPDX-License-Identifier: Apache-2.0
// Problem files with views, ordered ops, parts and a boundary: what is read, what is refused, and
// what the check says of schedules.
#include <gtest/gtest.h>

#include <fstream>

#include "io/test_folder.h"
#include "snug/error.h"
#include "snug/solve_remat.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"

namespace snug::solve {
namespace {

// h is read through a view on both sides; y goes out, dy comes in.
constexpr const char* kJoint = R"({
  "storages": [{"id": "x", "bytes": 4}, {"id": "h", "bytes": 10}, {"id": "ht", "view_of": "h"},
               {"id": "hr", "view_of": "ht"}, {"id": "y", "bytes": 6}, {"id": "dy", "bytes": 6},
               {"id": "dh", "bytes": 10}, {"id": "dx", "bytes": 4}, {"id": "wt", "view_of": "w"}],
  "resident": ["w"], "keep": ["dx"],
  "boundary": {"forward_outputs": ["y"], "between_bytes": 3, "forward_base_bytes": 1,
               "backward_base_bytes": 2},
  "ops": [
    {"id": "load", "cost": 0, "inputs": [], "outputs": ["x"], "recompute": false},
    {"id": "turn_w", "cost": 0, "inputs": ["w"], "outputs": ["wt"]},
    {"id": "f", "cost": 1, "inputs": ["x", "wt"], "outputs": ["h"]},
    {"id": "turn", "cost": 0, "inputs": ["h"], "outputs": ["ht"]},
    {"id": "row", "cost": 0, "inputs": ["ht"], "outputs": ["hr"]},
    {"id": "draw", "cost": 1, "inputs": ["hr"], "outputs": ["y"], "ordered": true},
    {"id": "tangent", "phase": "backward", "cost": 0, "inputs": [], "outputs": ["dy"]},
    {"id": "b", "phase": "backward", "cost": 1, "inputs": ["dy", "hr", "y"], "outputs": ["dh"], "ordered": true},
    {"id": "db", "phase": "backward", "cost": 1, "inputs": ["dh", "ht", "x"], "outputs": ["dx"], "part": "backward"}
  ]})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kJoint;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, const std::string& words) {
  EXPECT_ERROR((void)parse_remat_problem(text, "p.json"), words);
}

TEST(JointFile, Reads_every_field) {
  const plan::Problem problem = parse_remat_problem(kJoint, "p.json");
  const auto storage = [&](int32_t number) { return problem.storages[plan::StorageId(number)]; };
  const auto op = [&](int32_t number) { return problem.ops[plan::OpId(number)]; };
  EXPECT_EQ(storage(3).view_of, plan::StorageId(2));  // "ht", a view of it too
  EXPECT_EQ(storage(4).view_of, plan::StorageId(2));
  EXPECT_EQ(storage(9).view_of, plan::StorageId(0));
  EXPECT_TRUE(op(3).may_recompute);
  EXPECT_TRUE(op(5).is_ordered);
  EXPECT_FALSE(op(5).may_recompute);
  EXPECT_EQ(op(8).part, plan::GraphPart::backward);
  ASSERT_TRUE(problem.boundary);
  EXPECT_EQ(problem.boundary->forward_outputs.size(), 1u);
  EXPECT_EQ(problem.boundary->between_bytes, 3);
  EXPECT_EQ(problem.boundary->forward_base_bytes, 1);
  EXPECT_EQ(problem.boundary->backward_base_bytes, 2);
  // A view may be listed in front of what it lies in; of the boundary everything may be missing.
  EXPECT_NO_THROW((void)parse_remat_problem(
      changed(
          R"([{"id": "x", "bytes": 4}, {"id": "h", "bytes": 10}, {"id": "ht", "view_of": "h"})",
          R"([{"id": "ht", "view_of": "h", "bytes": 0}, {"id": "x", "bytes": 4}, {"id": "h", "bytes": 10})"),
      "p.json"));
  const plan::Problem bare = parse_remat_problem(
      changed(R"({"forward_outputs": ["y"], "between_bytes": 3, "forward_base_bytes": 1,
               "backward_base_bytes": 2})",
              "{}"),
      "p.json");
  EXPECT_EQ(bare.boundary, plan::GraphBoundary{});
}

TEST(JointFile, A_view_that_is_none_is_refused) {
  const auto view = [](const std::string& text) {
    return changed(R"({"id": "ht", "view_of": "h"})", text);
  };
  expect_refused(view(R"({"id": "ht", "view_of": "q"})"), "\"storages[2].view_of\" names \"q\"");
  expect_refused(view(R"({"id": "ht", "view_of": null})"),
                 "\"storages[2].view_of\" must be a text");
  expect_refused(view(R"({"id": "ht", "view_of": "ht"})"), "leads back to \"ht\" itself");
  expect_refused(view(R"({"id": "ht", "view_of": "hr"})"), "leads back to \"ht\" itself");
  expect_refused(view(R"({"id": "ht", "view_of": "h", "bytes": 1})"),
                 "\"storages[2].bytes\" are those of a view");
  expect_refused(view(R"({"id": "ht"})"), "bytes");
  expect_refused(changed(R"("resident": ["w"])", R"("resident": ["w", "ht"])"),
                 "and \"resident\" names it too");
}

TEST(JointFile, An_op_that_makes_views_does_nothing_else) {
  const auto turn = [](const std::string& rest) {
    return changed(R"({"id": "turn", "cost": 0, "inputs": ["h"], "outputs": ["ht"]})",
                   R"({"id": "turn", )" + rest + "}");
  };
  expect_refused(turn(R"("cost": 1, "inputs": ["h"], "outputs": ["ht"])"),
                 "makes views of 'h' and has a cost");
  expect_refused(turn(R"("cost": 0, "inputs": ["h"], "outputs": ["ht"], "scratch_bytes": 1)"),
                 "has scratch");
  expect_refused(turn(R"("cost": 0, "inputs": ["h"], "outputs": ["ht"], "recompute": false)"),
                 "\"ops[3].recompute\" must not be false where an op makes only views");
  expect_refused(turn(R"("cost": 0, "inputs": ["h"], "outputs": ["ht"], "ordered": true)"),
                 "is ordered");
  expect_refused(turn(R"("cost": 0, "inputs": ["h"], "outputs": ["ht"], "part": "forward")"),
                 "is of one part");
  expect_refused(turn(R"("cost": 0, "inputs": [], "outputs": ["ht"])"), "does not read it");
  expect_refused(turn(R"("cost": 0, "inputs": ["h", "x"], "outputs": ["ht"])"),
                 "reads 'x', which is no part of it");
  expect_refused(turn(R"("cost": 0, "inputs": ["x"], "outputs": ["ht"])"), "no part of it");
  expect_refused(changed(R"("inputs": ["h"], "outputs": ["ht"]})",
                         R"("inputs": ["h"], "outputs": ["ht", "wt"]})"),
                 "makes views of 'h' and of 'w'");
  expect_refused(changed(R"("inputs": ["hr"], "outputs": ["y"])",
                         R"("inputs": ["hr"], "outputs": ["y", "wt"])"),
                 "makes the view 'wt' beside other storages, and not 'w', in which it lies");
  // In place through a view.
  expect_refused(changed(R"("cost": 1, "inputs": ["dh", "ht", "x"], "outputs": ["dx"])",
                         R"("cost": 1, "inputs": ["dh", "ht", "x"], "outputs": ["wt"])"),
                 "an op that writes in place names 'w' in its outputs");
  expect_refused(changed(R"("inputs": ["hr"], "outputs": ["y"])",
                         R"("inputs": ["hr"], "outputs": ["y"], "reuses": {"y": "hr"})"),
                 "reuses the view 'hr'\nhint: name the storage in which it lies, \"h\"");
  // What lies in something that was written over is gone.
  expect_refused(changed(R"("inputs": ["hr"], "outputs": ["y"])",
                         R"("inputs": ["hr", "h"], "outputs": ["y"], "reuses": {"y": "h"})"),
                 "reads 'hr', in whose place op 'draw' has already written");
  // An op that makes a storage may make views of it as well.
  EXPECT_NO_THROW((void)parse_remat_problem(changed(R"("outputs": ["h"]},
    {"id": "turn", "cost": 0, "inputs": ["h"], "outputs": ["ht"]},)",
                                                    R"("outputs": ["h", "ht"]},)"),
                                            "p.json"));
}

TEST(JointFile, Order_and_parts_do_not_contradict_themselves) {
  expect_refused(changed(R"("ordered": true})", R"("ordered": true, "recompute": true})"),
                 "\"ops[5].recompute\" must not be true beside \"ordered\"");
  expect_refused(changed(R"("ordered": true})", R"("ordered": 1})"), "ops[5].ordered");
  expect_refused(changed(R"("part": "backward")", R"("part": "both")"),
                 "\"ops[8].part\" is no part: \"both\"");
  expect_refused(changed(R"("part": "backward")", R"("part": "forward")"),
                 "is of the forward part and listed behind the boundary, which lies in front of op "
                 "'tangent'");
  expect_refused(changed(R"("ordered": true})", R"("ordered": true, "part": "backward"})"),
                 "is of the backward part and listed in front of the boundary");
  const std::string whole = kJoint;
  const size_t begin = whole.find("  \"boundary\"");
  const size_t end = whole.find("  \"ops\"");
  expect_refused(whole.substr(0, begin) + whole.substr(end),
                 "is of one part and the problem has no boundary");
}

TEST(JointFile, A_boundary_without_sense_is_refused) {
  const auto with = [](const std::string& from, const std::string& to) {
    return changed(from, to);
  };
  expect_refused(with(R"(["y"], "between)", R"(["dy"], "between)"),
                 "'dy' is made by no op in front of the boundary, which lies in front of op "
                 "'tangent'");
  expect_refused(with(R"(["y"], "between)", R"(["q"], "between)"),
                 "\"boundary.forward_outputs[0]\" names \"q\"");
  expect_refused(with(R"("between_bytes": 3)", R"("between_bytes": -3)"), "boundary.between_bytes");
  expect_refused(with(R"("between_bytes": 3)", R"("between_byte": 3)"),
                 "\"boundary.between_byte\" is no field of a boundary\nhint: did you mean "
                 "'between_bytes'?");
  expect_refused(with(R"("inputs": ["hr"], "outputs": ["y"])",
                      R"("inputs": ["hr", "x"], "outputs": ["y"], "reuses": {"y": "x"})"),
                 "in whose place");
  expect_refused(
      R"({"storages": [], "boundary": [], "ops": [{"id": "a", "cost": 0, "inputs": [], "outputs": []}]})",
      "\"boundary\" must be an object");
  expect_refused(
      R"({"storages": [], "boundary": {}, "ops": [{"id": "a", "cost": 0, "inputs": [], "outputs": []}]})",
      "no op of phase loss, backward or update lies behind it");
  expect_refused(R"({"storages": [{"id": "s", "bytes": 1}, {"id": "t", "bytes": 1}],
      "boundary": {"forward_outputs": ["s"]},
      "ops": [{"id": "a", "cost": 0, "inputs": [], "outputs": ["s"]},
              {"id": "b", "cost": 0, "inputs": ["s"], "outputs": ["t"], "reuses": {"t": "s"}},
              {"id": "c", "phase": "backward", "cost": 0, "inputs": ["t"], "outputs": []}]})",
                 "op 'b' writes in the place of 's' in front of the boundary");
}

const std::vector<std::string> kListed = {"load", "turn_w",  "f", "turn", "row",
                                          "draw", "tangent", "b", "db"};

TEST(JointCheck, Counts_both_parts_and_what_crosses) {
  const plan::Problem problem = parse_remat_problem(kJoint, "p.json");
  const RematCheck check = replay(problem, {kListed, 6});
  ASSERT_TRUE(check.violations.empty()) << check.violations.front();
  ASSERT_TRUE(check.parts);
  EXPECT_EQ(check.parts->forward_peak_bytes, 21);   // draw: x, h, y, and 1
  EXPECT_EQ(check.parts->backward_peak_bytes, 38);  // b: x, h, y, dy, dh, and 2
  EXPECT_EQ(check.parts->crossing_bytes, 20);
  EXPECT_EQ(check.parts->crossing, (std::vector<std::string>{"x", "h", "y"}));
  EXPECT_EQ(check.peak_bytes, 38);
  EXPECT_EQ(check.peak_op, "b");
  // f again behind the boundary: h does not cross, and its views are made again.
  const RematCheck again = replay(problem, {{"load", "turn_w", "f", "turn", "row", "draw",
                                             "tangent", "f", "turn", "row", "b", "db"},
                                            6});
  ASSERT_TRUE(again.violations.empty()) << again.violations.front();
  EXPECT_EQ(again.parts->crossing, (std::vector<std::string>{"x", "y"}));
  EXPECT_DOUBLE_EQ(again.cost, check.cost + 1);
}

TEST(JointCheck, The_boundary_itself_may_be_the_peak) {
  const plan::Problem problem =
      parse_remat_problem(changed(R"("between_bytes": 3)", R"("between_bytes": 100)"), "p.json");
  const RematCheck check = replay(problem, {kListed, 6});
  EXPECT_EQ(check.peak_bytes, 120);
  EXPECT_EQ(check.peak_op, "");
  EXPECT_NE(check.to_text().find("peak 120 bytes at the boundary"), std::string::npos);
  EXPECT_NE(check.to_text().find("parts      forward 21 bytes (6 runs)"), std::string::npos);
  EXPECT_NE(check.to_json().find(R"("crossing":["x","h","y"],"boundary_step":6)"),
            std::string::npos);
}

TEST(JointCheck, Without_its_place_the_boundary_is_where_the_peak_is_smallest) {
  const plan::Problem problem = parse_remat_problem(kJoint, "p.json");
  const RematCheck check = replay(problem, {kListed});
  ASSERT_TRUE(check.violations.empty()) << check.violations.front();
  EXPECT_EQ(check.parts->boundary_step, 6);
  // f runs again for the backward part, and is better counted there: the forward base is large.
  const plan::Problem heavy = parse_remat_problem(
      changed(R"("forward_base_bytes": 1)", R"("forward_base_bytes": 30)"), "p.json");
  const std::vector<std::string> again = {"load", "turn_w",  "f",    "turn", "row", "draw",
                                          "f",    "tangent", "turn", "row",  "b",   "db"};
  EXPECT_EQ(replay(heavy, {again}).parts->boundary_step, 6);
  EXPECT_EQ(replay(heavy, {again, 7}).parts->boundary_step, 7);
  EXPECT_GE(replay(heavy, {again, 7}).peak_bytes, replay(heavy, {again}).peak_bytes);
}

TEST(JointCheck, Finds_what_is_wrong) {
  const plan::Problem problem = parse_remat_problem(kJoint, "p.json");
  const auto expect_wrong = [&](const ScheduleFile& schedule, const std::string& words) {
    const RematCheck check = replay(problem, schedule);
    ASSERT_FALSE(check.violations.empty()) << words;
    EXPECT_NE(check.to_text().find(words), std::string::npos) << check.to_text();
  };
  expect_wrong({{"load", "turn_w", "f", "row", "turn", "draw", "tangent", "b", "db"}, 6},
               "step 3: op \"row\" reads \"ht\", a view that was not made of what is now in \"h\"");
  expect_wrong({{"load", "f", "turn_w", "turn", "row", "draw", "tangent", "b", "db"}, 6},
               "step 1: op \"f\" reads \"wt\", a view that no op has made");
  expect_wrong(
      {{"load", "turn_w", "f", "turn", "row", "f", "draw", "tangent", "b", "db"}, 7},
      "step 6: op \"draw\" reads \"hr\", a view that was not made of what is now in \"h\"");
  expect_wrong({{"load", "turn_w", "turn", "f", "row", "draw", "tangent", "b", "db"}, 6},
               "step 2: op \"turn\" reads \"h\", which is not there");
  expect_wrong({kListed, 5},
               "step 5: the boundary is here, and the forward output \"y\" is not in memory");
  expect_wrong({kListed, 7},
               "step 6: op \"tangent\" runs in the forward part; the boundary is at step 7");
  expect_wrong({{"load", "turn_w", "f", "turn", "row", "draw", "tangent", "draw", "b", "db"}, 6},
               "op \"draw\" has run 2 times and may run once");
  expect_wrong({{"load", "turn_w", "f", "turn", "row", "tangent", "draw", "b", "db"}},
               "step 5: the boundary is here, and the forward output \"y\" is not in memory");
  const plan::Problem forward = parse_remat_problem(
      changed(R"("outputs": ["h"])", R"("outputs": ["h"], "part": "forward")"), "p.json");
  const RematCheck late = replay(forward, {{"load", "turn_w", "f", "turn", "row", "draw", "tangent",
                                            "f", "turn", "row", "b", "db"},
                                           6});
  EXPECT_NE(late.to_text().find("step 7: op \"f\" is of the forward part"), std::string::npos);
}

TEST(JointCheck, Ordered_ops_keep_the_listed_order) {
  const plan::Problem problem = parse_remat_problem(
      R"({"storages": [{"id": "a", "bytes": 1}, {"id": "b", "bytes": 1}], "keep": ["a", "b"],
          "ops": [{"id": "one", "cost": 1, "inputs": [], "outputs": ["a"], "ordered": true},
                  {"id": "two", "cost": 1, "inputs": [], "outputs": ["b"], "ordered": true}]})",
      "p.json");
  EXPECT_TRUE(replay(problem, {{"one", "two"}}).violations.empty());
  EXPECT_NE(replay(problem, {{"two", "one"}})
                .to_text()
                .find("step 1: op \"one\" runs behind op \"two\"; both are ordered"),
            std::string::npos);
  EXPECT_NE(replay(problem, {{"one", "two"}, 1}).to_text().find("the problem has none"),
            std::string::npos);
}

TEST(JointSolve, A_report_is_a_schedule_file_and_says_what_crosses) {
  const io::TestFolder folder;
  std::ofstream(folder / "joint.json") << kJoint;
  RematRequest request;
  request.file = folder / "joint.json";
  request.budget = "1.0";
  const RematReport report = solve_remat(request);
  ASSERT_TRUE(report.fits);
  ASSERT_TRUE(report.parts);
  EXPECT_EQ(report.keep_all_peak_bytes, 38);
  EXPECT_NE(report.to_json().find("\"crossing_bytes\":"), std::string::npos);
  EXPECT_NE(report.to_text().find("parts      forward "), std::string::npos);
  std::ofstream(folder / "schedule.json") << report.to_json();
  const RematCheck check = check_remat(folder / "joint.json", folder / "schedule.json");
  ASSERT_TRUE(check.violations.empty()) << check.violations.front();
  EXPECT_EQ(check.peak_bytes, report.peak_bytes);
  EXPECT_EQ(check.parts->boundary_step, report.parts->boundary_step);
  std::ofstream(folder / "far.json") << R"({"schedule": ["load"], "boundary_step": 2})";
  EXPECT_ERROR((void)load_remat_schedule(folder / "far.json"), "boundary_step");
}

TEST(JointSolve, A_refusal_names_the_boundary_where_that_proves_it) {
  const io::TestFolder folder;
  std::ofstream(folder / "joint.json")
      << changed(R"("between_bytes": 3)", R"("between_bytes": 100)");
  RematRequest request;
  request.file = folder / "joint.json";
  request.budget = "50";
  const RematReport report = solve_remat(request);
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.lower_bound_op, "");
  EXPECT_EQ(report.proof, "pinned");
  EXPECT_NE(report.refusal().find("no schedule fits 50 bytes: the boundary needs 1"),
            std::string::npos)
      << report.refusal();
}

}  // namespace
}  // namespace snug::solve
