// SPDX-License-Identifier: Apache-2.0
// Fitting of rates, and the cache file of a machine profile: what is kept, what is refused, what is
// repaired.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_limits.h"
#include "backend/cpu/measure_profile.h"
#include "backend/cpu/rate_probes.h"
#include "base/threads.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace snug {
namespace {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

bool rates_equal(const MachineProfile& a, const MachineProfile& b) {
  return a.rates == b.rates && a.cache_bytes == b.cache_bytes && a.waited_share == b.waited_share &&
         a.measurements == b.measurements;
}

// The traits of all ops: measuring leaves out what no kernel takes, so that is looked at here.
TEST(Probes, each_is_a_node_that_a_kernel_takes) {
  const auto backend = make_cpu_backend({.threads = 1, .profile = default_profile()});
  for (const ProbedNode& node : probed_nodes()) {
    ASSERT_NE(node.op, nullptr);
    SCOPED_TRACE(*node.op->name);
    GraphBuilder builder(op_registry(), "probe");
    std::vector<ValueId> operands;
    for (size_t i = 0; i < node.probe.inputs.size(); ++i) {
      const InputTypes& types = node.probe.inputs;
      operands.push_back(types.has(i) ? builder.state("x" + std::to_string(i), types[i]) : kNone);
    }
    builder.op(*node.op->name, operands, node.probe.attrs);
    const NodeSpec spec = spec_of(builder.graph(), NodeId(0));
    EXPECT_NO_THROW((void)backend->select(spec));
    const std::string kind = rate_kind(spec);
    const OpDef* owner = op_registry().find(kind.substr(0, kind.find('.')));
    ASSERT_NE(owner, nullptr) << kind;
    EXPECT_TRUE(owner == node.op || owner->timing.probes != nullptr) << kind;
  }
}

TEST(Probes, one_op_is_typical_and_every_expensive_one_is_measured) {
  int typical = 0;
  for (const OpDef* op : op_registry().all()) {
    typical += op->timing.is_typical ? 1 : 0;
    const bool is_special =
        op->timing.is_expensive || op->timing.usual != nullptr || op->timing.is_typical;
    EXPECT_TRUE(!is_special || op->timing.probes != nullptr) << *op->name;
  }
  EXPECT_EQ(typical, 1);
}

TEST(MachineProfile, Seconds_are_the_sum_of_call_flops_and_bytes) {
  const MachineProfile profile{.machine = "m",
                               .rates = {{"", {1e-6, 0, 1e-9}}, {"matmul", {2e-6, 1e-11, 0}}}};
  const Cost cost{.flops = 1e6, .bytes_read = 1000, .bytes_written = 500};
  EXPECT_DOUBLE_EQ(profile.seconds("matmul", cost), 2e-6 + 1e-5);
  EXPECT_DOUBLE_EQ(profile.seconds("matmul.tn", cost), 2e-6 + 1e-5);
  EXPECT_DOUBLE_EQ(profile.seconds("anything", cost), 1e-6 + 1.5e-6);
}

TEST(MachineLimits, are_those_of_the_fastest_products_and_of_additions) {
  const MachineProfile profile{.machine = "m",
                               .rates = {{"", {.per_byte = 1e-10, .far_per_byte = 3e-10}},
                                         {"exp", {.reached_per_flop = 1e-13}},
                                         {"matmul", {.reached_per_flop = 2e-11}},
                                         {"matmul.nn", {.reached_per_flop = 1e-11}},
                                         {"matmul.tn_few", {.per_flop = 1e-14, .per_byte = 1e-10}},
                                         {"matmul.nn_bf16_amx", {.reached_per_flop = 1e-12}}}};
  const MachineLimits limits = limits_of(profile);
  EXPECT_EQ(limits.arithmetic_seconds(1e9, DType::f32), 1e-2);
  EXPECT_EQ(limits.arithmetic_seconds(1e9, DType::bf16), 1e-3);
  EXPECT_EQ(limits.arithmetic_seconds(1e9, DType::f16), 1e-2) << "as f32: none was measured";
  EXPECT_DOUBLE_EQ(limits.memory_seconds(1e6, 0), 1e-4);
  EXPECT_DOUBLE_EQ(limits.memory_seconds(1e6, 0.5), 2e-4);
  EXPECT_DOUBLE_EQ(limits.memory_seconds(1e6, 1), 3e-4);
}

TEST(MachineProfile, Bytes_from_memory_have_their_own_price_and_large_operands_come_from_there) {
  const MachineProfile profile{
      .machine = "m",
      .rates =
          {{"add",
            {.per_byte = 1e-9, .far_per_byte = 3e-9, .uncertainty = 0.25, .saved_share = 0.25}},
           {"mul", {.per_byte = 1e-9, .far_per_byte = 0}}},
      .cache_bytes = 1000};
  const Cost cost{.flops = 0, .bytes_read = 500, .bytes_written = 500};
  EXPECT_DOUBLE_EQ(profile.seconds("add.wide", cost), 1e-6);
  EXPECT_DOUBLE_EQ(profile.saved_seconds("add.wide", cost), 2.5e-7);
  EXPECT_EQ(profile.saved_seconds("mul", cost), 0);
  EXPECT_DOUBLE_EQ(profile.far_seconds("add.wide", cost), 3e-6);
  EXPECT_DOUBLE_EQ(profile.far_seconds("mul", cost), 1e-6);  // never faster
  EXPECT_DOUBLE_EQ(profile.uncertainty("add.wide"), 0.25);
  EXPECT_EQ(profile.uncertainty("sub"), 0);
  EXPECT_EQ(profile.share_from_memory(10), 0);
  EXPECT_EQ(profile.share_from_memory(500), 0);
  EXPECT_DOUBLE_EQ(profile.share_from_memory(1000), 0.5);
  EXPECT_DOUBLE_EQ(profile.share_from_memory(2000), 1);
  EXPECT_EQ(profile.share_from_memory(1e6), 1);
}

TEST(MachineProfile, A_kept_byte_costs_less_than_to_make_it_again_element_by_element) {
  const MachineProfile profile{.machine = "m", .rates = {{"", {1e-6, 0, 1e-9}}}};
  const Cost relu{.flops = 0, .bytes_read = 1e6, .bytes_written = 1e6};
  EXPECT_GT(profile.kept_seconds_per_byte(), 1e-9);
  EXPECT_LT(profile.kept_seconds_per_byte() * 1e6, profile.seconds("relu", relu));
  EXPECT_EQ(MachineProfile{}.kept_seconds_per_byte(), 0);
}

TEST(MachineProfile, Products_have_a_kind_for_each_way_their_operands_lie) {
  const auto kind = [](const char* op, bool first_across, bool second_across, int64_t size = 128,
                       DType dtype = DType::f32) {
    GraphBuilder builder(op_registry(), "products");
    const TensorType square{dtype, {size, size}};
    std::vector<ValueId> operands = {builder.state("a", square), builder.state("b", square)};
    if (std::string(op) == "matmul_accumulate") {
      operands.insert(operands.begin(), builder.state("sum", square));
    } else {
      operands.push_back(kNone);
    }
    builder.op(op, operands, {{"transpose_a", first_across}, {"transpose_b", second_across}});
    return rate_kind(spec_of(builder.graph(), NodeId(0)));
  };
  EXPECT_EQ(kind("matmul", false, true), "matmul");
  EXPECT_EQ(kind("matmul", false, false), "matmul.nn");
  EXPECT_EQ(kind("matmul", true, false), "matmul.tn");
  EXPECT_EQ(kind("matmul_accumulate", true, false), "matmul.tn");
  EXPECT_EQ(kind("matmul", true, false, 8), "matmul.tn_few");
  EXPECT_EQ(kind("matmul_accumulate", true, false, 8), "matmul.tn_few");
  EXPECT_EQ(kind("matmul", false, true, 128, DType::bf16), "matmul.nt_bf16");
  EXPECT_EQ(kind("matmul", true, false, 8, DType::f16), "matmul.tn_few_f16");
}

TEST(MachineProfile, Other_ways_through_memory_are_other_kinds) {
  const auto kind = [](const char* op, std::vector<Shape> shapes, const Attrs& attrs) {
    GraphBuilder builder(op_registry(), "kinds");
    std::vector<ValueId> operands;
    for (size_t i = 0; i < shapes.size(); ++i)
      operands.push_back(builder.state("x" + std::to_string(i), {DType::f32, shapes[i]}));
    builder.op(op, operands, attrs);
    return rate_kind(spec_of(builder.graph(), NodeId(0)));
  };
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(kind("add", {{4, 8}, {4, 8}}, {}), "add");
  EXPECT_EQ(kind("add", {{4, 8}, {8}}, {}), "add.broadcast");
  EXPECT_EQ(kind("div", {{4, 8}, {4, 1}}, {}), "div.broadcast");
  EXPECT_EQ(kind("transpose", {{2, 3, 4}}, {{"perm", Ints{1, 0, 2}}}), "transpose");
  EXPECT_EQ(kind("transpose", {{2, 3, 4}}, {{"perm", Ints{0, 2, 1}}}), "transpose.across");
}

TEST(MachineProfile, In_16_bits_is_another_kind_and_costs_as_in_f32_where_it_was_not_measured) {
  const auto spec_in = [](DType dtype, Graph& graph) {
    GraphBuilder builder(op_registry(), "halves");
    const ValueId x = builder.state("x", {dtype, {256, 256}});
    builder.op("gelu", {x}, {});
    graph = builder.graph();
    return spec_of(graph, NodeId(0));
  };
  Graph wide;
  Graph half;
  const NodeSpec in_f32 = spec_in(DType::f32, wide);
  const NodeSpec in_bf16 = spec_in(DType::bf16, half);
  EXPECT_EQ(rate_kind(in_f32), "gelu");
  EXPECT_EQ(rate_kind(in_bf16), "gelu.half");
  MachineProfile profile{.machine = "m", .rates = {{"gelu", {.per_byte = 1e-9}}}};
  const auto seconds = [&](const NodeSpec& spec) {
    return make_cpu_backend({.threads = 1, .profile = profile})->select(spec).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(in_bf16), seconds(in_f32));
  profile.rates["gelu.half"] = {.per_byte = 3e-9};
  EXPECT_DOUBLE_EQ(seconds(in_bf16), 1.5 * seconds(in_f32));
}

TEST(Probes, what_computes_in_16_bits_is_measured_so_and_optimizers_are_not) {
  const auto halves = [](const std::string& op) {
    int64_t count = 0;
    for (const ProbedNode& node : probed_nodes()) {
      const std::vector<TensorType> types = node.probe.inputs.given();
      count += *node.op->name == op && std::any_of(types.begin(), types.end(), [](const auto& t) {
        return t.dtype == DType::bf16;
      });
    }
    return count;
  };
  EXPECT_EQ(halves("gelu"), 2);
  EXPECT_EQ(halves("gelu_grad"), 2);
  EXPECT_GT(halves("attention"), 0);
  EXPECT_GT(halves("layer_norm_grad"), 0);
  EXPECT_EQ(halves("adamw"), 0);
  EXPECT_EQ(halves("embedding"), 0);  // its table stays in f32
}

TEST(FitRate, Exact_points_give_their_rate) {
  std::vector<RatePoint> points;
  for (const double flops : {1e6, 1e8, 1e9}) {
    for (const double bytes : {1e5, 1e7})
      points.push_back({flops, bytes, 5e-6 + flops * 3e-12 + bytes * 5e-11});
  }
  const KernelRate rate = fit_rate(points, RateBasis::both);
  EXPECT_NEAR(rate.per_call, 5e-6, 1e-9);
  EXPECT_NEAR(rate.per_flop, 3e-12, 1e-15);
  EXPECT_NEAR(rate.per_byte, 5e-11, 1e-14);
}

TEST(FitRate, What_caches_save_what_memory_costs_and_what_is_left_of_the_error_are_kept) {
  std::vector<RatePoint> points;
  for (const double bytes : {1e5, 1e6, 1e7}) {
    const double seconds = 1e-6 + bytes * 1e-10;
    points.push_back({.bytes = bytes,
                      .seconds = seconds,
                      .near_seconds = 0.25 * seconds,
                      .far_seconds = seconds + bytes * 5e-11});
  }
  const KernelRate exact = fit_rate(points, RateBasis::bytes);
  EXPECT_NEAR(exact.far_per_byte, 1.5e-10, 1e-15);
  EXPECT_NEAR(exact.saved_share, 0.75, 1e-9);
  EXPECT_NEAR(exact.uncertainty, 0, 1e-6);
  for (RatePoint& point : points) point.spread = 0.3;
  EXPECT_NEAR(fit_rate(points, RateBasis::bytes).uncertainty, 0.3, 1e-6);
  points[1].seconds *= 2;  // no line goes through all three
  EXPECT_GT(fit_rate(points, RateBasis::bytes).uncertainty, 0.35);
}

TEST(FitRate, What_was_reached_is_the_fastest_point_whatever_the_parts_say) {
  // All of the time fits bytes: the flops' part says nothing of how fast they can be.
  std::vector<RatePoint> points;
  for (const double bytes : {1e6, 1e7})
    points.push_back({.flops = 20 * bytes, .bytes = bytes, .seconds = 1e-9 * bytes});
  points.push_back({.flops = 2e7, .bytes = 1e6, .seconds = 1e-3, .near_seconds = 5e-4});
  points.push_back({.bytes = 1e6, .seconds = 1e-3});
  EXPECT_DOUBLE_EQ(fit_rate(points, RateBasis::bytes).reached_per_flop, 2.5e-11);
  EXPECT_EQ(fit_rate(std::vector<RatePoint>{points.back()}, RateBasis::bytes).reached_per_flop, 0);
}

TEST(FitRate, No_part_is_negative_and_the_basis_is_kept) {
  // A large node that is faster than the small one scaled up: an unconstrained fit would have a
  // negative slope.
  const std::vector<RatePoint> points = {{.flops = 1e6, .bytes = 1e6, .seconds = 2e-3},
                                         {.flops = 2e6, .bytes = 2e6, .seconds = 1e-3}};
  for (const RateBasis basis : {RateBasis::flops, RateBasis::bytes, RateBasis::both}) {
    const KernelRate rate = fit_rate(points, basis);
    EXPECT_GE(rate.per_call, 0);
    EXPECT_GE(rate.per_flop, 0);
    EXPECT_GE(rate.per_byte, 0);
    EXPECT_GT(rate.per_call + rate.per_flop + rate.per_byte, 0);
    EXPECT_TRUE(basis != RateBasis::flops || rate.per_byte == 0);
    EXPECT_TRUE(basis != RateBasis::bytes || rate.per_flop == 0);
  }
}

TEST(ProfileText, Reads_what_was_written_to_the_bit) {
  MachineProfile profile = default_profile();
  profile.machine = "this machine";
  profile.rates["odd"] = {0.1, 1.0 / 3.0, 1e-300, 2e-300, 0.25, 0.75};
  profile.cache_bytes = 12345;
  profile.waited_share = 1.0 / 3.0;
  profile.measurements = 3;
  MachineProfile read;
  ASSERT_TRUE(read_profile(write_profile(profile), "this machine", read));
  EXPECT_TRUE(rates_equal(profile, read));
}

TEST(ProfileText, Refuses_text_that_is_no_profile_of_this_machine) {
  MachineProfile profile = default_profile();
  profile.machine = "this machine";
  const std::string good = write_profile(profile);
  MachineProfile read;
  EXPECT_FALSE(read_profile(good, "another machine", read));
  EXPECT_FALSE(read_profile("", "this machine", read));
  EXPECT_FALSE(read_profile(good.substr(0, good.size() / 2), "this machine", read));
  EXPECT_FALSE(read_profile("[1, 2]", "this machine", read));
  const std::string head =
      R"({"format": 19, "machine": "this machine", "cache_bytes": 1000, "waited_share": 0.25, "measurements": 1, "rates": {)";
  EXPECT_FALSE(read_profile(head + "}}", "this machine", read));
  const auto with = [&](const std::string& per_call, const std::string& more) {
    return head + R"("": {"per_call": )" + per_call +
           R"(, "per_flop": 0, "per_byte": 1e-9, "far_per_byte": 2e-9)" + more + "}}}";
  };
  const std::string rest = R"(, "uncertainty": 0.1, "saved_share": 0.5, "reached_per_flop": 1e-11)";
  EXPECT_TRUE(read_profile(with("0", rest), "this machine", read));
  EXPECT_EQ(read.rates.at("").far_per_byte, 2e-9);
  EXPECT_FALSE(read_profile(with("0", ""), "this machine", read));
  for (const char* value : {"-1", "\"1\"", "1e999", "null"})
    EXPECT_FALSE(read_profile(with(value, rest), "this machine", read)) << value;
  std::string other = with("0", rest);
  other.replace(other.find("1000"), 4, "   0");
  EXPECT_FALSE(read_profile(other, "this machine", read));
  other = with("0", rest);
  other.replace(other.find("0.25"), 4, "1.25");
  EXPECT_FALSE(read_profile(other, "this machine", read));
  std::string older = with("0", rest);
  older.replace(older.find("19"), 2, "18");
  EXPECT_FALSE(read_profile(older, "this machine", read));
}

TEST(ProfileText, A_processor_is_known_by_its_model_or_by_its_maker_and_part) {
  EXPECT_EQ(processor_name("processor\t: 0\nmodel name\t: A 1\n\nmodel name\t: B 2\n"), "A 1");
  EXPECT_EQ(processor_name("processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
                           "CPU architecture: 8\nCPU part\t: 0xd0c\n\nCPU part\t: 0xd40\n"),
            "CPU 0x41 0xd0c");
  EXPECT_EQ(processor_name(""), "unknown CPU");
}

// Other tests may run beside this one.
MachineProfile measure_undisturbed(int threads) {
  MachineProfile profile = measure_profile(threads);
  EXPECT_GE(profile.waited_share, 0);
  EXPECT_LE(profile.waited_share, 1);
  profile.waited_share = 0;
  return profile;
}

TEST(ProfileCache, A_good_file_is_used_and_a_damaged_one_is_measured_anew) {
  const TemporaryFolder folder("snug_profile_");
  const std::string path = folder.file("profile.json");
  const ProfilePlace place{
      .folder = folder.file(""), .file = "profile.json", .measure = measure_undisturbed};
  MachineProfile marked = default_profile();
  marked.machine = machine_key(1);
  marked.rates["mark"] = {0.5, 0.25, 0.125, 0.25, 0.1, 0.5, 0.25};
  std::ofstream(path) << write_profile(marked);
  EXPECT_TRUE(
      rates_equal(load_or_measure_profile(place, 1), marked));  // not measured: the mark is there

  std::ofstream(path) << "{ damaged";
  const MachineProfile measured = load_or_measure_profile(place, 1);
  EXPECT_EQ(measured.rates.count("mark"), 0U);
  EXPECT_EQ(measured.machine, machine_key(1));
  for (const char* kind : {"matmul.nn", "matmul.tn"}) EXPECT_EQ(measured.rates.count(kind), 1U);
  const KernelRate& product = measured.rates.at("matmul");
  const double seconds =
      measured.seconds("matmul", {.flops = 1e9, .bytes_read = 8e6, .bytes_written = 4e6});
  EXPECT_GT(seconds, 1e-4) << product.per_flop;  // below 10 TFLOP/s
  EXPECT_LT(seconds, 10.0);
  EXPECT_TRUE(rates_equal(load_or_measure_profile(place, 1), measured));  // from the file
  EXPECT_EQ(folder.files(), 1U);                                          // no temporary file stays
}

TEST(ProfileCache, Nothing_is_measured_where_a_budget_has_no_room_for_it) {
  const TemporaryFolder folder("snug_profile_");
  const std::string path = folder.file("profile.json");
  std::vector<std::string> said;
  const auto load = [&](int64_t room_bytes) {
    return load_or_measure_profile({.folder = folder.file(""),
                                    .file = "profile.json",
                                    .room_bytes = room_bytes,
                                    .on_message = [&](const auto& text) { said.push_back(text); },
                                    .measure = measure_undisturbed},
                                   1);
  };
  EXPECT_TRUE(rates_equal(load(kMeasuringBytes - 1), default_profile()));
  EXPECT_EQ(folder.files(), 0U);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("no room to measure this machine's speeds, which takes 24.0 MiB"),
            std::string::npos)
      << said[0];
  const MachineProfile measured = load(kMeasuringBytes);
  EXPECT_FALSE(rates_equal(measured, default_profile()));
  EXPECT_TRUE(rates_equal(load(0), measured));  // a file takes no room
  EXPECT_EQ(said.size(), 1U);
}

TEST(ProfileCache, What_other_work_disturbed_is_measured_again_and_the_least_disturbed_is_kept) {
  const TemporaryFolder folder("snug_profile_");
  const std::vector<double> shares = {0.5, 0.7, 0.2, 0.3, 0.0};
  size_t measured = 0;
  std::vector<std::string> said;
  const auto load = [&](bool shares_processors = false) {
    return load_or_measure_profile({.folder = folder.file(""),
                                    .file = "profile.json",
                                    .shares_processors = shares_processors,
                                    .on_message = [&](const auto& text) { said.push_back(text); },
                                    .measure =
                                        [&](int threads) {
                                          MachineProfile profile = default_profile();
                                          profile.machine = machine_key(threads);
                                          profile.waited_share = shares.at(measured++);
                                          return profile;
                                        }},
                                   1);
  };
  for (const double least : {0.5, 0.5, 0.2, 0.2, 0.2}) EXPECT_EQ(load().waited_share, least);
  EXPECT_EQ(measured, static_cast<size_t>(kMostMeasurements));
  ASSERT_EQ(said.size(), 3U);  // not of the last
  EXPECT_NE(said[0].find("for 50 % of the time"), std::string::npos) << said[0];

  std::filesystem::remove(folder.file("profile.json"));
  measured = 2;
  said.clear();
  EXPECT_EQ(load().waited_share, 0.2);
  EXPECT_EQ(load().waited_share, 0.2);
  EXPECT_EQ(load().waited_share, 0.0);
  EXPECT_EQ(load().waited_share, 0.0);
  EXPECT_EQ(measured, shares.size());
  EXPECT_EQ(said.size(), 2U);

  // Threads that have fewer processors wait for one another.
  std::filesystem::remove(folder.file("profile.json"));
  measured = 0;
  EXPECT_EQ(load(true).waited_share, 0.5);
  EXPECT_EQ(load(true).waited_share, 0.5);
  EXPECT_EQ(measured, 1U);
  EXPECT_EQ(said.size(), 2U);
}

TEST(ProfileCache, A_forked_child_takes_what_it_cannot_measure_again) {
  const TemporaryFolder folder("snug_profile_");
  MachineProfile disturbed = default_profile();
  disturbed.machine = machine_key(2);
  disturbed.waited_share = 0.5;
  disturbed.measurements = 1;
  ASSERT_TRUE(is_measured_again(disturbed));
  std::ofstream(folder.file("profile.json")) << write_profile(disturbed);
  parallel_for(2, 2, 1, [](int64_t, int64_t) {});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      const MachineProfile taken =
          load_or_measure_profile({.folder = folder.file(""), .file = "profile.json"}, 2);
      ::_exit(rates_equal(taken, disturbed) ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ProfileMeasurement, Threads_that_share_a_processor_have_speeds_of_their_own) {
  const int processors = available_threads();
  EXPECT_EQ(machine_key(processors).find(" on "), std::string::npos);
  EXPECT_NE(machine_key(processors + 1).find(" on " + std::to_string(processors) + " processors"),
            std::string::npos);
}

TEST(ProfileCache, A_place_that_cannot_be_written_is_said_and_another_is_found) {
  const TemporaryFolder folder("snug_profile_");
  const std::string before = std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR");
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  std::vector<std::string> said;
  int measured = 0;
  const auto load = [&](const std::string& place) {
    return load_or_measure_profile({.folder = place,
                                    .file = "profile.json",
                                    .before_measuring = [&] { ++measured; },
                                    .on_message = [&](const auto& text) { said.push_back(text); },
                                    .measure = measure_undisturbed},
                                   1);
  };
  const MachineProfile found = load("/proc/no/such/folder");
  EXPECT_EQ(found.machine, machine_key(1));
  EXPECT_GT(found.rates.size(), default_profile().rates.size());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("(/proc/no: cannot create the folder: No such file or directory), "
                         "and are kept in " +
                         folder.path() + "/snug-"),
            std::string::npos)
      << said[0];
  // Once: the next start reads them, whatever its first place is.
  for (const char* place : {"/proc/no/such/folder", "/proc", ""})
    EXPECT_TRUE(rates_equal(load(place), found)) << place;
  EXPECT_EQ(measured, 1);
  EXPECT_EQ(said.size(), 1U);
  if (before.empty()) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", before.c_str(), 1);
  }
}

}  // namespace
}  // namespace snug
