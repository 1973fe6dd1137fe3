// SPDX-License-Identifier: Apache-2.0
// A network whose rows have two lengths keeps the promises: a source that is read and a target that
// looks at it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "choose/choose.h"
#include "choose/saved_plan.h"
#include "session/engine.h"
#include "session/session_plan.h"
#include "session/testing.h"
#include "snug/custom_op.h"
#include "snug/does_not_fit.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 12, kWidth = 16, kWords = 20;
const std::vector<Lengths> kAll = every_combination({{"source", {4, 16}}, {"target", {6, 24}}});

Network network_of(bool says_lengths = true) {
  return {
      "reads", [=](NetworkBuilder& b) {
        const Length source = b.length("source");
        const Length target = b.length("target");
        const RowShape of_source = says_lengths ? RowShape{source} : RowShape{int64_t{source}};
        Tensor x = embedding(b, "source", b.input("read", of_source, DType::i32), kWords, kWidth);
        Tensor y = embedding(b, "target", b.input("written", {target}, DType::i32), kWords, kWidth);
        const Tensor there =
            reshape(b.input("there", of_source, DType::boolean), {b.rows(), 1, source});
        for (int i = 0; i < 2; ++i) {
          const Scope scope(b, "layer." + std::to_string(i));
          x = x + gelu(linear(b, "read", x, kWidth));
          const Tensor weights = masked_softmax(matmul(y, x, {.transpose_b = true}), there);
          y = y + dropout(gelu(linear(b, "mixed", matmul(weights, x), kWidth)), 0.1);
        }
        const Tensor logits = linear(b, "out", y, kWords);
        b.output("logits", logits);
        b.minimize(cross_entropy(b, logits, b.input("next", {target}, DType::i32)));
      }};
}

// Rows of these lengths, all of it there.
struct Data {
  int64_t source, target;
  std::vector<int32_t> read, written, next;
  std::vector<uint8_t> there;
  Data(int64_t of_source, int64_t of_target) : source(of_source), target(of_target) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t t = 0; t < source; ++t) {
        read.push_back(static_cast<int32_t>((3 * row + t) % kWords));
        there.push_back(t <= row % source ? 1 : 0);
      }
      for (int64_t t = 0; t < target; ++t) {
        written.push_back(static_cast<int32_t>((row + 5 * t) % kWords));
        next.push_back(t > row ? -100 : static_cast<int32_t>((row * t) % kWords));
      }
    }
  }
  [[nodiscard]] Rows rows() const {
    Rows rows(kRows, {{"source", source}, {"target", target}});
    rows.add("read", std::span(read)).add("there", std::span(there));
    return rows.add("written", std::span(written)).add("next", std::span(next));
  }
};

SessionOptions options_of(const std::vector<Lengths>& lengths, const std::string& memory = "1GiB",
                          int64_t micro_batch = 4) {
  return {.batch_rows = kRows,
          .memory = parse_memory(memory),
          .micro_batch_size = micro_batch,
          .lengths = lengths,
          .max_grad_norm = 1,
          .threads = 1};
}

struct Trained {
  std::vector<float> weights;
  std::vector<double> losses;
};

// Batches that run in each of the four programs, twice.
Trained trained(const SessionOptions& options) {
  Session session(network_of(), options);
  Trained result;
  for (int i = 0; i < 2; ++i) {
    for (const Data& data : {Data(3, 24), Data(16, 5), Data(4, 6), Data(13, 9)})
      result.losses.push_back(session.step(data.rows()).loss);
  }
  EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
  for (const TensorInfo& tensor : session.tensors()) {
    const std::vector<float> values = session.read(tensor.name);
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  return result;
}

TEST(Lengths, equal_bits_under_every_budget_and_a_refusal_below) {
  const PlanReport ample = plan_network(network_of(), options_of(kAll));
  EXPECT_EQ(ample.max_length, kAll.back());
  EXPECT_NE(ample.to_text().find("batch 12 x (source 16, target 24)"), std::string::npos);
  EXPECT_NE(ample.to_json().find(R"("max_length": {
    "source": 16,
    "target": 24
  })"),
            std::string::npos);
  const Trained expected = trained(options_of(kAll));
  const int64_t least = ample.smallest_budget_bytes;
  EXPECT_LT(least, ample.keep_all_peak_bytes);
  for (const int64_t budget : {least, (least + ample.keep_all_peak_bytes) / 2})
    EXPECT_EQ(trained(options_of(kAll, std::to_string(budget))).weights, expected.weights);
  const std::string below = refusal(
      [&] { (void)plan_network(network_of(), options_of(kAll, std::to_string(least - 4096))); },
      ErrorCode::out_of_budget);
  EXPECT_NE(below.find(std::to_string(least) + " bytes"), std::string::npos) << below;
  EXPECT_NE(below.find("lengths.back().set(\"target\", 16)"), std::string::npos) << below;
}

TEST(Lengths, a_refusal_is_data_in_the_names_of_fields) {
  const int64_t least =
      plan_network(network_of(), options_of(kAll, "1GiB", 12)).smallest_budget_bytes;
  try {
    (void)plan_network(network_of(), options_of(kAll, std::to_string(least - 4096), 12));
    FAIL() << "it fits";
  } catch (const DoesNotFit& refused) {
    const RefusalFacts& facts = refused.facts();
    EXPECT_EQ(facts.smallest_bytes, least);
    ASSERT_GE(facts.ways.size(), 3);
    EXPECT_EQ(facts.ways[0].keys, (LeverKeys{{"memory", std::to_string(least)}}));
    bool has_length = false;
    for (const WayToFit& way : facts.ways) {
      EXPECT_NE(refused.message().find(way.text), std::string::npos) << way.text;
      has_length |= way.keys.empty();  // no one field says the length of a name
      for (const auto& [field, value] : way.keys)
        EXPECT_NE(way.text.find(field + " = "), std::string::npos) << field << ": " << way.text;
    }
    EXPECT_TRUE(has_length);
  }
}

TEST(Lengths, what_fills_rows_up_does_not_count) {
  const Trained padded = trained(options_of({kAll.back()}));
  const Trained expected = trained(options_of(kAll));
  for (size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(padded.losses[i], expected.losses[i], 1e-5) << i;
  for (size_t i = 0; i < expected.weights.size(); ++i)
    ASSERT_NEAR(padded.weights[i], expected.weights[i], 1e-4) << i;
}

TEST(Lengths, splits_agree_within_rounding) {
  const Trained whole = trained(options_of(kAll, "1GiB", 12));
  const Trained split = trained(options_of(kAll, "1GiB", 3));
  for (size_t i = 0; i < whole.losses.size(); ++i)
    EXPECT_NEAR(whole.losses[i], split.losses[i], 1e-5) << i;
}

// An op that needs more scratch for short rows than for long ones, as products on tiles do.
std::shared_ptr<const CustomOp> doubled() {
  CustomOp op;
  op.name = "doubled";
  op.inputs = {"x"};
  op.infer = [](std::span<const TensorType> inputs, const Attrs&) {
    return std::vector<TensorType>{inputs[0]};
  };
  op.run = [](const OpCall& call) {
    const auto x = call.input<float>(0);
    std::transform(x.begin(), x.end(), call.output<float>().begin(),
                   [](float value) { return 2 * value; });
  };
  op.gradient = [](const GradientCall& call) {
    return std::vector<Tensor>{call.gradients[0] + call.gradients[0]};
  };
  op.scratch_bytes = [](std::span<const TensorType> inputs, const Attrs&) {
    return inputs[0].shape[1] == 8 ? int64_t{4} << 20 : int64_t{0};
  };
  return std::make_shared<const CustomOp>(std::move(op));
}

TEST(Lengths, what_shorter_rows_need_more_scratch_for_is_in_the_budget) {
  Network network("doubles", [](NetworkBuilder& b) {
    const Length length = b.length("length");
    const Tensor x = embedding(b, "words", b.input("ids", {length}, DType::i32), kWords, kWidth);
    const Tensor logits = linear(b, "out", gelu(b.op1("doubled", {x})), kWords);
    b.output("logits", logits);
    b.minimize(cross_entropy(b, logits, b.input("next", {length}, DType::i32)));
  });
  network.add(doubled());
  const auto options = [](const std::string& memory) {
    return options_of({{{"length", 8}}, {{"length", 32}}}, memory);
  };
  const PlanReport ample = plan_network(network, options("1GiB"));
  const int64_t least = ample.smallest_budget_bytes;
  EXPECT_GT(ample.arena_bytes, int64_t{4} << 20);
  Session session(network, options(std::to_string(least)));
  for (const int64_t length : {8, 32}) {
    const std::vector<int32_t> ids(static_cast<size_t>(kRows * length), 3);
    Rows rows(kRows, {{"length", length}});
    rows.add("ids", std::span(ids)).add("next", std::span(ids));
    EXPECT_GT(session.step(rows).loss, 0);
  }
  EXPECT_LE(session.plan().planned_peak_bytes, least);
  EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
}

TEST(Lengths, the_first_program_that_holds_a_batch_runs) {
  SessionOptions options =
      options_of({{{"source", 4}, {"target", 4}}, {{"source", 4}, {"target", 12}}, kAll.back()});
  options.micro_batch_size = 4;
  options.threads = 1;
  const SessionPlan made(network_of(), options);
  const choose::RunPlan& plan = made.impl()->plan;
  ASSERT_EQ(plan.train.size(), 3u);
  EXPECT_EQ(plan.train[1].graph.name, "train: source 4, target 12");
  EXPECT_EQ(plan.eval[0].graph.name, "evaluate: source 4, target 4");
  const Engine engine(plan, *made.impl()->machine.impl().backend);
  EXPECT_EQ(engine.bucket_of({{"source", 4}, {"target", 2}}), 0u);
  EXPECT_EQ(engine.bucket_of({{"source", 1}, {"target", 5}}), 1u);
  EXPECT_EQ(engine.bucket_of({{"source", 5}, {"target", 1}}), 2u);

  const std::string file = ::testing::TempDir() + "lengths_plan.json";
  choose::write_saved_plan(file, plan);
  const choose::SavedPlan saved = choose::read_saved_plan(file);
  for (const choose::PlannedProgram& program : plan.train)
    EXPECT_EQ(saved.at("train", program.length, program.lowered.problem).steps, program.plan.steps);
  EXPECT_NE(refusal([&] { (void)saved.at("train", 4, plan.train[0].lowered.problem); },
                    ErrorCode::bad_data)
                .find("length 4"),
            std::string::npos);
}

TEST(Lengths, are_part_of_what_a_saved_session_was) {
  const std::string folder = ::testing::TempDir() + "lengths_saved";
  std::vector<float> expected;
  {
    Session session(network_of(), options_of(kAll));
    (void)session.step(Data(3, 5).rows());
    session.save(folder);
    (void)session.step(Data(3, 24).rows());
    expected = session.read("out.weight");
  }
  Session session = Session::resume(network_of(), folder, options_of(kAll));
  (void)session.step(Data(3, 24).rows());
  EXPECT_EQ(session.read("out.weight"), expected);
  EXPECT_NE(refusal([&] { (void)Session::resume(network_of(), folder, options_of({kAll.back()})); },
                    ErrorCode::bad_config)
                .find("lengths"),
            std::string::npos);
}

TEST(Lengths, that_cannot_be_are_refused_by_name) {
  const auto refused = [](const std::vector<Lengths>& lengths,
                          ErrorCode code = ErrorCode::bad_config) {
    return refusal([&] { (void)plan_network(network_of(), options_of(lengths)); }, code);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused({{{"source", 8}, {"target", 4}}, {{"source", 4}, {"target", 8}}}),
      "the last program, of length source 4, target 8, does not hold rows of length source 8");
  has(refused({{{"source", 8}}, kAll.back()}), "have the same names");
  has(refused({kAll.back(), kAll.back()}), "no batch would run in");
  has(refused({{{"source", 8}, {"target", 0}}}), "target 0");
  has(refused({16}, ErrorCode::invalid_graph), "no length is called 'source'");
  has(refused({{{"source", 8}, {"tagret", 8}}}, ErrorCode::invalid_graph),
      "no length is called 'target'");
  has(refused({{{"source", 8}, {"target", 8}, {"other", 8}}}, ErrorCode::invalid_graph),
      "asks for no length 'other'");
  std::vector<int64_t> many(300);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i) + 1;
  has(refused(every_combination({{"source", many}, {"target", {8}}})), "300 programs");
  has(refusal([&] { (void)plan_network(network_of(false), options_of(kAll)); },
              ErrorCode::invalid_graph),
      "the input 'read' is [16] a row");

  const Network counts_padding("counts", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {b.length(), 4});
    b.minimize(mean_squared_error(b, linear(b, "out", x, 4), x));
  });
  has(refusal(
          [&] {
            (void)plan_network(counts_padding, options_of({4, 8}));
          },
          ErrorCode::invalid_graph),
      "a mean is over 32 values a row where rows have the length 8");

  Session session(network_of(), options_of(kAll));
  has(refusal([&] { (void)session.step(Data(17, 2).rows()); }, ErrorCode::bad_data),
      "rows of length source 17, target 2, the longest program takes source 16, target 24");
  has(refusal([&] { (void)session.step(Rows(kRows, 4)); }, ErrorCode::bad_data),
      "rows have a length without a name, the programs have source 16, target 24");
  has(refusal(
          [&] {
            (void)session.step(Rows(kRows, {{"src", 4}}));
          },
          ErrorCode::bad_data),
      "rows have the length 'src', the programs have source 16, target 24\nhint: give the rows "
      "their "
      "lengths by the names of");
}

}  // namespace
}  // namespace snug::session
