// SPDX-License-Identifier: Apache-2.0
// Problem files, the independent check, and both against the solver.
#include <gtest/gtest.h>

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/test_folder.h"
#include "plan/frontier/remat.h"
#include "plan/problem/liveness.h"
#include "snug/error.h"
#include "snug/solve_remat.h"
#include "solve/remat_check.h"
#include "solve/remat_file.h"

namespace snug::solve {
namespace {

// A chain of three with gradients; y1 and y2 may be made again.
constexpr const char* kChain = R"({
  "storages": [{"id": "x", "bytes": 100}, {"id": "y1", "bytes": 100}, {"id": "y2", "bytes": 100},
               {"id": "y3", "bytes": 100}, {"id": "d3", "bytes": 100}, {"id": "d2", "bytes": 100},
               {"id": "d1", "bytes": 100}, {"id": "dw", "bytes": 10}],
  "resident": ["w"], "keep": ["dw", "d1"],
  "ops": [
    {"id": "load", "phase": "forward", "cost": 0, "inputs": [], "outputs": ["x"], "recompute": false},
    {"id": "f1", "phase": "forward", "cost": 1, "inputs": ["x", "w"], "outputs": ["y1"]},
    {"id": "f2", "phase": "forward", "cost": 2, "inputs": ["y1", "w"], "outputs": ["y2"]},
    {"id": "f3", "phase": "forward", "cost": 3, "inputs": ["y2", "y2"], "outputs": ["y3"]},
    {"id": "b3", "phase": "backward", "cost": 1, "inputs": ["y3"], "outputs": ["d3"]},
    {"id": "b2", "phase": "backward", "cost": 1, "inputs": ["d3", "y2"], "outputs": ["d2", "dw"]},
    {"id": "b1", "phase": "backward", "cost": 1, "inputs": ["d2", "y1"], "outputs": ["d1"], "scratch_bytes": 5}
  ]})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kChain;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "snug_solve_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

void expect_refused(const std::string& text, const std::string& part) {
  try {
    (void)parse_remat_problem(text, "p.json");
    ADD_FAILURE() << "accepted, expected: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(RematFile, Reads_every_field) {
  const plan::Problem problem = parse_remat_problem(kChain, "p.json");
  ASSERT_EQ(problem.ops.size(), 7u);
  EXPECT_FALSE(problem.ops[plan::OpId(0)].may_recompute);
  EXPECT_TRUE(problem.ops[plan::OpId(1)].may_recompute);
  EXPECT_FALSE(problem.ops[plan::OpId(4)].may_recompute);
  EXPECT_EQ(problem.ops[plan::OpId(3)].inputs.size(), 1u);  // a repeated input is one operand
  EXPECT_EQ(problem.ops[plan::OpId(6)].scratch_bytes, 5);
  EXPECT_EQ(problem.keep.size(), 2u);
  const plan::Problem in_place = parse_remat_problem(
      changed(R"("outputs": ["y3"])", R"("outputs": ["y3"], "reuses": {})"), "p.json");
  EXPECT_TRUE(in_place.ops[plan::OpId(3)].reuses.empty());
}

TEST(RematFile, Refuses_what_is_wrong_and_says_where) {
  expect_refused("[", "p.json");
  expect_refused("[]", "must be an object");
  expect_refused(R"({"ops": []})", "storages");
  expect_refused(R"({"storages": [], "ops": []})", "must not be empty");
  expect_refused(changed(R"("bytes": 10})", R"("bytes": -10})"), "storages[7].bytes");
  expect_refused(changed(R"("bytes": 10})", R"("bytes": 1.5})"), "storages[7].bytes");
  expect_refused(changed(R"({"id": "dw", "bytes": 10})", R"({"id": "d1", "bytes": 10})"),
                 "two storages");
  expect_refused(changed(R"("cost": 3)", R"("cost": "3")"), "ops[3].cost");
  expect_refused(changed(R"("cost": 3)", R"("cost": -3)"), "must not be negative");
  expect_refused(changed(R"("cost": 3)", R"("cost": 1e308)"), "ops[3].cost\" is above 1e30");
  expect_refused(changed(R"("cost": 3, )", ""), "cost");
  expect_refused(changed(R"("id": "f3")", R"("id": "f2")"), "two ops");
  expect_refused(changed(R"("phase": "forward", "cost": 3)", R"("phase": "forwards", "cost": 3)"),
                 "is no phase");
  expect_refused(changed(R"(["y2", "y2"])", R"(["y2", "q"])"), "neither in");
  expect_refused(changed(R"(["y2", "y2"])", R"(["d1"])"), "before any op has made it");
  expect_refused(changed(R"("outputs": ["y3"])", R"("outputs": ["y2"])"), "another op has made");
  expect_refused(changed(R"("keep": ["dw", "d1"])", R"("keep": ["dz"])"), "keep[0]");
  expect_refused(changed(R"("scratch_bytes": 5)", R"("scratch_bytes": "5")"), "scratch_bytes");
  expect_refused(changed(R"("recompute": false)", R"("recompute": 0)"), "recompute");
  expect_refused(changed(R"("outputs": ["y3"])", R"("outputs": ["y3"], "reuses": {"y3": "x"})"),
                 "reuses something else");
  expect_refused(changed(R"("outputs": ["y3"])", R"("outputs": ["y3"], "reuses": {"y3": "y2"})"),
                 "has already written");
  expect_refused(changed(R"("outputs": ["y1"])", R"("outputs": ["y1"], "reuses": {"y1": "w"})"),
                 "resident");
}

TEST(RematFile, A_field_that_is_not_known_is_refused_by_name) {
  expect_refused(
      changed(R"("keep": ["dw", "d1"])", R"("keep": ["dw", "d1"], "aliases": {"y1": "x"})"),
      "\"aliases\" is no field of a problem\nhint: say it with those that there are");
  expect_refused(changed(R"("resident": ["w"])", R"("residents": ["w"])"),
                 "did you mean 'resident'?");
  expect_refused(changed(R"("bytes": 10})", R"("bytes": 10, "alias": null})"),
                 "\"storages[7].alias\" is no field of a storage");
  expect_refused(changed(R"("scratch_bytes": 5)", R"("scratch": 5)"),
                 "\"ops[6].scratch\" is no field of an op");
  const Folder folder;
  const std::string good =
      folder.write("good.json", R"({"schedule": ["a"], "peak_bytes": 1, "kept_cost": 0.5})");
  EXPECT_EQ(load_remat_schedule(good).ops, (std::vector<std::string>{"a"}));
  EXPECT_ERROR(
      (void)load_remat_schedule(folder.write("bad.json", R"({"schedule": ["a"], "order": ["b"]})")),
      "\"order\" is no field of a schedule");
}

TEST(RematCheck, Replays_what_is_valid) {
  const plan::Problem problem = parse_remat_problem(kChain, "p.json");
  const RematCheck plain = replay(problem, {{"load", "f1", "f2", "f3", "b3", "b2", "b1"}});
  EXPECT_TRUE(plain.violations.empty());
  EXPECT_DOUBLE_EQ(plain.cost, 9);
  EXPECT_EQ(plain.peak_bytes, 410);  // b2: y1, y2, d3, d2, dw
  EXPECT_EQ(plain.peak_op, "b2");
  const RematCheck again = replay(problem, {{"load", "f1", "f2", "f3", "b3", "b2", "f1", "b1"}});
  EXPECT_TRUE(again.violations.empty());
  EXPECT_DOUBLE_EQ(again.cost, 10);
  EXPECT_EQ(again.peak_bytes, 410);  // x is there instead of y1
}

TEST(RematCheck, Finds_what_is_wrong) {
  const plan::Problem problem = parse_remat_problem(kChain, "p.json");
  const auto expect_violation = [&](const std::vector<std::string>& schedule,
                                    const std::string& part) {
    const RematCheck check = replay(problem, {schedule});
    ASSERT_FALSE(check.violations.empty()) << part;
    EXPECT_NE(check.violations.front().find(part), std::string::npos) << check.violations.front();
  };
  expect_violation({"load", "f1", "f2", "f3", "b3", "b2"}, "\"b1\" has never run");
  expect_violation({"load", "f1", "f2", "f3", "b3", "b2", "b1", "b1"}, "may run once");
  expect_violation({"load", "f2", "f1", "f3", "b3", "b2", "b1"}, "which is not there");
  expect_violation({"load", "f1", "f2", "f4"}, "there is no op");
}

TEST(RematCheck, Storages_that_an_op_overwrites_are_gone) {
  const plan::Problem problem = parse_remat_problem(
      R"({"storages": [{"id": "a", "bytes": 10}, {"id": "b", "bytes": 8}, {"id": "c", "bytes": 1}],
          "ops": [{"id": "fa", "cost": 1, "inputs": [], "outputs": ["a"]},
                  {"id": "fb", "cost": 1, "inputs": ["a"], "outputs": ["b"], "reuses": {"b": "a"}},
                  {"id": "fc", "cost": 1, "inputs": ["b"], "outputs": ["c"]}]})",
      "p.json");
  EXPECT_EQ(replay(problem, {{"fa", "fb", "fc"}}).peak_bytes, 10);
  EXPECT_FALSE(replay(problem, {{"fa", "fb", "fb", "fc"}}).violations.empty());
  EXPECT_TRUE(replay(problem, {{"fa", "fb", "fa", "fb", "fc"}}).violations.empty());
}

TEST(RematCheck, Written_residents_must_be_seen_as_in_the_listed_order) {
  const plan::Problem problem = parse_remat_problem(
      R"({"storages": [{"id": "a", "bytes": 10}, {"id": "b", "bytes": 8}], "resident": ["w"], "keep": ["b"],
          "ops": [{"id": "fa", "cost": 1, "inputs": ["w"], "outputs": ["a"]},
                  {"id": "up", "phase": "update", "cost": 1, "inputs": ["w"], "outputs": ["w"]},
                  {"id": "fb", "cost": 1, "inputs": ["a"], "outputs": ["b"]}]})",
      "p.json");
  EXPECT_TRUE(replay(problem, {{"fa", "up", "fb"}}).violations.empty());
  EXPECT_FALSE(replay(problem, {{"up", "fa", "fb"}}).violations.empty());
  EXPECT_FALSE(replay(problem, {{"fa", "up", "fa", "fb"}}).violations.empty());
  EXPECT_FALSE(replay(problem, {{"fa", "up", "up", "fb"}}).violations.empty());
}

TEST(SolveRemat, Fractions_and_bytes_and_the_files_agree) {
  const Folder folder;
  const std::string file = folder.write("p.json", kChain);
  RematRequest request;
  request.file = file;
  request.budget = "1.0";
  const RematReport all = solve_remat(request);
  EXPECT_EQ(all.budget_bytes, 410);
  EXPECT_EQ(all.keep_all_peak_bytes, 410);
  EXPECT_DOUBLE_EQ(all.overhead, 0);
  request.budget = "330";
  const RematReport tight = solve_remat(request);
  EXPECT_FALSE(tight.fits);
  EXPECT_NE(tight.refusal().find("330 bytes"), std::string::npos);
  EXPECT_LE(tight.lower_bound_peak_bytes, tight.peak_bytes);
  const std::string schedule = folder.write("s.json", all.to_json());
  const RematCheck check = check_remat(file, schedule);
  EXPECT_TRUE(check.violations.empty());
  EXPECT_EQ(check.peak_bytes, all.peak_bytes);
  EXPECT_DOUBLE_EQ(check.cost, all.cost);
  for (const char* bad : {"0", "-1", "0.0", "x", "1.2.3", "-0.5"}) {
    request.budget = bad;
    EXPECT_THROW((void)solve_remat(request), Error) << bad;
  }
}

TEST(SolveRemat, An_impossible_budget_of_the_listed_order_names_the_op_that_proves_it) {
  // "a" cannot be made again and lies beside "mid" in the listed order only.
  const Folder folder;
  RematRequest request;
  request.file = folder.write("p.json", R"({
    "storages": [{"id": "a", "bytes": 100}, {"id": "b", "bytes": 10}, {"id": "c", "bytes": 20}, {"id": "d", "bytes": 1}],
    "keep": ["d"],
    "ops": [
      {"id": "fa", "phase": "backward", "cost": 1, "inputs": [], "outputs": ["a"]},
      {"id": "fb", "cost": 1, "inputs": [], "outputs": ["b"]},
      {"id": "mid", "cost": 1, "inputs": ["b"], "outputs": ["c"]},
      {"id": "end", "cost": 1, "inputs": ["c", "a"], "outputs": ["d"]}]})");
  request.budget = "129";
  request.may_reorder = false;
  const RematReport given = solve_remat(request);
  EXPECT_FALSE(given.fits);
  EXPECT_EQ(given.lower_bound_peak_bytes, 130);
  EXPECT_EQ(given.lower_bound_op, "mid");
  EXPECT_NE(given.refusal().find("op 'mid' needs 130 bytes"), std::string::npos);
  request.may_reorder = true;
  const RematReport free = solve_remat(request);
  EXPECT_TRUE(free.fits);
  EXPECT_EQ(free.lower_bound_peak_bytes, 121);
}

// A forward chain and its gradients as a problem file.
std::string chain_file(int32_t length) {
  std::string storages;
  std::string ops;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ",") + item;
  };
  const auto op = [&](const std::string& id, const char* phase, const std::string& inputs,
                      const std::string& output) {
    add(storages, R"({"id":")" + output + R"(","bytes":64})");
    add(ops, R"({"id":")" + id + R"(","phase":")" + phase + R"(","cost":1,"inputs":[)" + inputs +
                 R"(],"outputs":[")" + output + R"("]})");
  };
  const auto quoted = [](const char* name, int32_t i) {
    return '"' + std::string(name) + std::to_string(i) + '"';
  };
  op("f0", "forward", "", "y0");
  for (int32_t i = 1; i < length; ++i)
    op("f" + std::to_string(i), "forward", quoted("y", i - 1), "y" + std::to_string(i));
  op("loss", "backward", quoted("y", length - 1), "d" + std::to_string(length));
  for (int32_t i = length; i-- > 0;)
    op("b" + std::to_string(i), "backward", quoted("y", i) + "," + quoted("d", i + 1),
       "d" + std::to_string(i));
  return R"({"storages":[)" + storages + R"(],"ops":[)" + ops + "]}";
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(SolveRemat, A_time_limit_holds_for_reading_bounds_and_search_and_for_a_whole_curve) {
  const std::string file = ::testing::TempDir() + "snug_long_chain.json";
  std::ofstream(file) << chain_file(10'000);
  RematRequest request;
  request.file = file;
  request.budget = "0.5";
  request.time_limit_seconds = 2;
  // The processor time of this thread, so that a busy machine does not count.
  double begin = thread_seconds();
  const RematReport report = solve_remat(request);
  EXPECT_LT(thread_seconds() - begin, 2.5);
  EXPECT_TRUE(report.is_stopped);
  EXPECT_GE(report.schedule.size(), 20'001u);
  begin = thread_seconds();
  const RematCurve curve = remat_curve(request);
  EXPECT_LT(thread_seconds() - begin, 2.5);
  ASSERT_FALSE(curve.points.empty());
  EXPECT_EQ(curve.points.back().peak_bytes, report.keep_all_peak_bytes);
  std::filesystem::remove(file);
}

TEST(SolveRemat, A_time_limit_that_is_no_number_of_seconds_is_refused) {
  const Folder folder;
  RematRequest request;
  request.file = folder.write("p.json", kChain);
  request.budget = "1.0";
  for (const double bad : {std::nan(""), -std::nan(""), HUGE_VAL, -HUGE_VAL, -1.0}) {
    request.time_limit_seconds = bad;
    EXPECT_THROW((void)solve_remat(request), Error) << bad;
    EXPECT_THROW((void)remat_curve(request), Error) << bad;
  }
  request.time_limit_seconds = 1e300;
  EXPECT_TRUE(solve_remat(request).fits);
}

TEST(SolveRemat, A_time_limit_is_read_as_a_number_above_0) {
  EXPECT_EQ(parse_time_limit("0.5"), 0.5);
  EXPECT_EQ(parse_time_limit("1e3"), 1000);
  for (const char* bad :
       {"", "0", "-0.0", "-1", "0x10", "1e-400", "1e400", "inf", "nan", "2s", " 2"})
    EXPECT_THROW((void)parse_time_limit(bad), Error) << bad;
}

TEST(SolveRemat, A_curve_falls_and_every_point_is_valid) {
  const Folder folder;
  const std::string file = folder.write("p.json", kChain);
  RematRequest request;
  request.file = file;
  const RematCurve curve = remat_curve(request);
  ASSERT_FALSE(curve.points.empty());
  const plan::Problem problem = load_remat_problem(file);
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const RematReport& point = curve.points[i];
    const RematCheck check = replay(problem, {point.schedule});
    EXPECT_TRUE(check.violations.empty());
    EXPECT_EQ(check.peak_bytes, point.peak_bytes);
    EXPECT_GE(point.cost, point.lower_bound_cost * (1 - 1e-9));
    if (i == 0) continue;
    EXPECT_GT(point.peak_bytes, curve.points[i - 1].peak_bytes);
    EXPECT_LT(point.cost, curve.points[i - 1].cost);
  }
  EXPECT_DOUBLE_EQ(curve.points.back().overhead, 0);
}

}  // namespace
}  // namespace snug::solve
