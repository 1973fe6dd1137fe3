// SPDX-License-Identifier: Apache-2.0
// What a program may do wrong with a session: an error that says what, never another session's
// memory, a crash, or a result that is not one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "session/testing.h"
#include "snug/custom_op.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/recompute.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 6;
constexpr int64_t kWidth = 4;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Network network_of(const std::string& layer = "out") {
  return {"misused", [=](NetworkBuilder& b) {
            const Tensor y = linear(b, layer, b.input("x", {kWidth}), 1);
            b.output("y", y);
            b.minimize(mean_squared_error(b, y, b.input("t", {1})));
          }};
}

SessionOptions options_of() {
  return {.batch_rows = kRows, .memory = parse_memory("16MiB"), .threads = 1};
}

struct Data {
  std::vector<float> x = std::vector<float>(kRows * kWidth, 0.5F);
  std::vector<float> t = std::vector<float>(kRows, 1.0F);
  [[nodiscard]] Rows rows() const {
    Rows all(kRows);
    all.add("x", std::span(x)).add("t", std::span(t));
    return all;
  }
};

TEST(SessionMisuse, rows_of_a_weight_that_do_not_exist) {
  Session session(network_of(), options_of());
  const std::string before = bytes_of(session);
  std::vector<float> row(kWidth, 7);
  for (const int64_t first : {kMost, kMost - 1, int64_t{1}, int64_t{-1}}) {
    (void)refusal([&] { session.write_rows("out.weight", first, row); });
    (void)refusal([&] { session.read_rows("out.weight", first, row); });
  }
  EXPECT_EQ(bytes_of(session), before);
}

TEST(SessionMisuse, a_shape_that_was_never_written_is_said_to_be_a_trial_s) {
  const Network network("crossed", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kWidth});
    const Tensor w = b.parameter("w", {kWidth + 1, 2}, InitRule::zeros());
    b.minimize(mean_squared_error(b, matmul(x, w), b.input("t", {2})));
  });
  const std::string said =
      refusal([&] { (void)plan_network(network, options_of()); }, ErrorCode::shape_mismatch);
  EXPECT_NE(said.find("[7,4]"), std::string::npos) << said;
  EXPECT_NE(said.find("(built with 7 rows, to see what it is fed)"), std::string::npos) << said;
}

TEST(SessionMisuse, sizes_beyond_every_machine) {
  for (const int64_t rows : {int64_t{1} << 31, int64_t{1} << 32, kMost}) {
    SessionOptions options = options_of();
    options.batch_rows = rows;
    EXPECT_NE(refusal([&] { (void)plan_network(network_of(), options); }).find("batch_rows"),
              std::string::npos);
  }
  for (const int64_t size : {int64_t{1} << 40, int64_t{0}, int64_t{-1}}) {
    const Network large("large", [=](NetworkBuilder& b) {
      const Tensor wide = linear(b, "wide", b.input("x", {kWidth}), size);
      b.minimize(mean_squared_error(b, reduce_sum(wide, {1}, true), b.input("t", {1})));
    });
    const std::string error =
        refusal([&] { (void)plan_network(large, options_of()); }, ErrorCode::invalid_graph);
    EXPECT_NE(error.find("sizes are 1 or more"), std::string::npos) << error;
  }
  const Network product("product", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kWidth});
    Tensor wide = reshape(x, {b.rows(), kWidth, 1, 1});
    wide = broadcast_to(wide, {b.rows(), kWidth, int64_t{1} << 30, int64_t{1} << 30});
    b.minimize(b.weighted_mean(wide));
  });
  (void)refusal([&] { (void)plan_network(product, options_of()); }, ErrorCode::shape_mismatch);
}

TEST(SessionMisuse, options_that_are_no_numbers) {
  const auto refused = [](const auto& change) {
    SessionOptions options = options_of();
    change(options);
    return refusal([&] { (void)plan_network(network_of(), options); });
  };
  EXPECT_NE(refused([](auto& o) { o.weight_decay = -1; }).find("weight_decay"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.weight_decay = NAN; }).find("weight_decay"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.seed = -1; }).find("seed"), std::string::npos);
  EXPECT_NE(refused([](auto& o) {
              o.memory.kind = MemorySpec::Kind::bytes;
              o.memory.bytes = -4096;
            }).find("-4096 bytes are below 0"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) {
              o.block = {static_cast<std::byte*>(nullptr), size_t{1} << 24};
            }).find("block"),
            std::string::npos);
}

TEST(SessionMisuse, options_that_would_change_nothing) {
  const auto refused = [](const auto& change) {
    SessionOptions options = options_of();
    change(options);
    return refusal([&] { (void)plan_network(network_of(), options); });
  };
  EXPECT_NE(refused([](auto& o) { o.optim_codec = "bnb"; }).find("optim_codec"), std::string::npos);
  EXPECT_NE(refused([](auto& o) {
              o.precision_overrides = {{"*", "float32"}};
            }).find("everything is in float32 anyway"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) {
              o.fusion_overrides = {{"*", "full"}};
            }).find("every op is at the level full anyway"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.lora.r = 2; }).find("no weight has an adapter"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.optim_bits = 8; }).find("no state would be in 8 bits"),
            std::string::npos);
}

TEST(SessionMisuse, levels_of_fusion_for_ops_that_do_not_exist) {
  const Network network("pieces", [](NetworkBuilder& b) {
    Tensor x = linear(b, "first", b.input("x", {kWidth}), 64);
    x = dropout(gelu(x), 0.1);
    b.minimize(mean_squared_error(b, linear(b, "out", x, 1), b.input("t", {1})));
  });
  const auto refused = [&](std::vector<FusionRule> rules, const std::string& fusion = "full") {
    SessionOptions options = options_of();
    options.fusion = fusion;
    options.fusion_overrides = std::move(rules);
    return refusal([&] { (void)plan_network(network, options); });
  };
  const auto expect = [](const std::string& said, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) EXPECT_NE(said.find(text), std::string::npos) << said;
  };
  expect(refused({{"dropot", "off"}}),
         {"[fusion_overrides]", "'dropot' matches no op", "did you mean 'dropout'?"});
  expect(refused({{"*frist.*", "off"}}), {"'*frist.*' matches no op", "explain --stages"});
  expect(refused({{"fist.matmul", "off"}}), {"did you mean 'first.matmul'?"});
  expect(refused({{"first.matmul", "off"}}),
         {"'first.matmul' matches no op that runs with others (matmul", "`snug explain`"});
  for (const char* const level : {"off", "fusible"}) {
    SessionOptions options = options_of();
    options.fusion_overrides = {{"out.matmul", level}};
    EXPECT_NO_THROW((void)plan_network(network, options)) << level;
  }
  expect(refused({{"*", "off"}, {"gelu", "fusible"}}),
         {"'gelu' comes after patterns that match all its ops", "put it before them"});
  expect(refused({{"gelu", "on"}}),
         {"[fusion_overrides]", "'on' is no level", "full, fusible or off"});
  expect(refused({}, "full speed"),
         {"[fusion]", "'full speed' is no level", "full, fusible or off"});
  SessionOptions evaluation = options_of();
  evaluation.only_evaluation = true;
  evaluation.fusion_overrides = {{"*_grad", "off"}};
  EXPECT_NO_THROW((void)plan_network(network, evaluation)) << "it has no backward part";
}

TEST(SessionMisuse, levers_that_do_not_exist) {
  for (const auto& call : {+[] { (void)fastest_levers(network_of(), options_of(), {"bf61"}); },
                           +[] { (void)plan_levers(network_of(), options_of(), {"bf61"}); }})
    EXPECT_NE(refusal(call).find("there is no lever 'bf61'"), std::string::npos);
}

TEST(SessionMisuse, a_rate_that_is_no_number_changes_nothing) {
  Session session(network_of(), options_of());
  const std::string before = bytes_of(session);
  for (const double rate : {double{NAN}, double{INFINITY}, -1.0}) {
    const std::string error =
        refusal([&] { (void)session.step(Data().rows(), {.learning_rate = rate}); });
    EXPECT_NE(error.find("learning_rate"), std::string::npos) << error;
  }
  EXPECT_EQ(bytes_of(session), before);
  EXPECT_EQ(session.updates(), 0);
}

TEST(SessionMisuse, counts_beyond_every_run) {
  Session session(network_of(), options_of());
  (void)refusal(
      [&] { session.set_counts({.drawn = kMost, .schedule = kMost, .optimizer = kMost}); });
}

TEST(SessionMisuse, one_session_at_a_time_lives_in_the_caller_s_memory) {
  SessionOptions options = options_of();
  const int64_t bytes = plan_network(network_of(), options).planned_peak_bytes;
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(4096, static_cast<size_t>(bytes)), std::free);
  options.memory.kind = MemorySpec::Kind::bytes;
  options.memory.bytes = bytes;
  options.block = {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)};
  const SessionPlan plan(network_of(), options);
  std::optional<Session> first(plan);
  (void)first->step(Data().rows());
  const std::string before = bytes_of(*first);
  EXPECT_NE(refusal([&] { const Session second(plan); }).find("block"), std::string::npos);
  EXPECT_EQ(bytes_of(*first), before);
  first.reset();
  Session third(plan);
  (void)third.step(Data().rows());
}

TEST(SessionMisuse, calls_from_a_session_s_own_callbacks) {
  Session session(network_of(), options_of());
  const Data data;
  const double loss = session.evaluate(data.rows()).loss;
  const std::string error = refusal([&] {
    (void)session.evaluate(data.rows(),
                           [&](const OutputRows&) { (void)session.step(data.rows()); });
  });
  EXPECT_NE(error.find("while it computes"), std::string::npos) << error;
  EXPECT_EQ(session.evaluate(data.rows()).loss, loss);  // and may be used again
}

TEST(SessionMisuse, bytes_that_are_no_booleans) {
  const Network network("flags", [](NetworkBuilder& b) {
    const Tensor y = linear(b, "out", b.input("x", {kWidth}), 1);
    b.minimize(b.weighted_mean(y * y, b.input("kept", {}, DType::boolean)));
  });
  Session session(network, options_of());
  const Data data;
  std::vector<uint8_t> kept(kRows, 1);
  const auto step = [&] {
    Rows rows(kRows);
    rows.add("x", std::span(data.x)).add("kept", std::span(kept));
    return session.step(rows).loss;
  };
  EXPECT_TRUE(std::isfinite(step()));
  kept[4] = 255;
  const std::string error = refusal([&] { (void)step(); }, ErrorCode::bad_data);
  EXPECT_NE(error.find("row 4 has the byte 255"), std::string::npos) << error;
}

TEST(SessionMisuse, labels_beyond_the_classes_name_their_input) {
  const Network network("labelled", [](NetworkBuilder& b) {
    b.minimize(cross_entropy(b, linear(b, "out", b.input("x", {kWidth}), 3),
                             b.input("kind", {}, DType::i32)));
  });
  Session session(network, options_of());
  const Data data;
  std::vector<int32_t> kinds(kRows, 2);
  kinds.back() = 3;
  Rows rows(kRows);
  rows.add("x", std::span(data.x)).add("kind", std::span(kinds));
  const std::string said = refusal([&] { (void)session.step(rows); }, ErrorCode::bad_data);
  EXPECT_NE(said.find("of 'kind'"), std::string::npos) << said;
}

TEST(SessionMisuse, names_that_no_checkpoint_could_hold) {
  for (const char* name : {"\xff\xfe", ""}) {
    const std::string error = refusal([&] { (void)plan_network(network_of(name), options_of()); },
                                      ErrorCode::invalid_graph);
    EXPECT_NE(error.find(*name == '\0' ? "a layer needs a name" : "not UTF-8"), std::string::npos)
        << error;
  }
  (void)refusal([] { (void)plan_network(Network("none", nullptr), options_of()); });
}

// They are handed out as floats, so whole numbers would be other bits, and flags other bytes, too.
TEST(SessionMisuse, outputs_that_are_no_floats_or_have_two_names) {
  const auto refused = [](const std::function<void(NetworkBuilder&, const Tensor&)>& outputs) {
    const Network network("outputs", [&](NetworkBuilder& b) {
      const Tensor y = linear(b, "out", b.input("x", {kWidth}), 1);
      outputs(b, y);
      b.minimize(mean_squared_error(b, y, b.input("t", {1})));
    });
    return refusal([&] { (void)plan_network(network, options_of()); }, ErrorCode::invalid_graph);
  };
  for (const DType type : {DType::i32, DType::boolean}) {
    const std::string error = refused([=](NetworkBuilder& b, const Tensor& y) {
      const Tensor is_positive = greater(y, fill(b, 0, {}));
      b.output("sign", type == DType::boolean ? is_positive : cast(is_positive, type));
    });
    EXPECT_NE(error.find("'sign'"), std::string::npos) << error;
    EXPECT_NE(error.find("not f32"), std::string::npos) << error;
  }
  const std::string error = refused([](NetworkBuilder& b, const Tensor& y) {
    b.output("a", y);
    b.output("b", y);
  });
  EXPECT_NE(error.find("the output 'b' is the output 'a' already"), std::string::npos) << error;
}

TEST(SessionMisuse, initial_values_that_are_none) {
  for (const InitRule& rule :
       {InitRule{.constant = NAN}, InitRule::fan_in(0), InitRule::normal(-1)}) {
    const Network network("initial", [&](NetworkBuilder& b) {
      const Tensor w = b.parameter("w", {kWidth, 1}, rule);
      b.minimize(mean_squared_error(b, matmul(b.input("x", {kWidth}), w), b.input("t", {1})));
    });
    (void)refusal([&] { (void)plan_network(network, options_of()); }, ErrorCode::invalid_graph);
  }
}

TEST(SessionMisuse, ops_of_the_program_that_say_what_cannot_be) {
  const auto plan_with = [](int64_t scratch) {
    const auto op = std::make_shared<CustomOp>();
    op->name = "copied";
    op->inputs = {"x"};
    op->infer = [](std::span<const TensorType> inputs, const Attrs&) {
      return std::vector<TensorType>{inputs[0]};
    };
    op->run = [](const OpCall&) {};
    op->gradient = [](const GradientCall& call) { return std::vector<Tensor>{call.gradients[0]}; };
    op->scratch_bytes = [=](std::span<const TensorType>, const Attrs&) { return scratch; };
    Network network("scratched", [](NetworkBuilder& b) {
      const Tensor y = linear(b, "out", b.input("x", {kWidth}), 1);
      b.minimize(mean_squared_error(b, b.op1("copied", {y}), b.input("t", {1})));
    });
    network.add(op);
    return plan_network(network, options_of()).arena_bytes;
  };
  EXPECT_GT(plan_with(64), 0);
  for (const int64_t bytes : {kMost, int64_t{-64}})
    EXPECT_NE(refusal([&] { (void)plan_with(bytes); }).find("scratch_bytes"), std::string::npos);
  Network none = network_of();
  none.add(nullptr);
  (void)refusal([&] { (void)plan_network(none, options_of()); });
}

// A gradient has operands only: what it asks of the network around it is not there.
TEST(SessionMisuse, gradients_of_the_programs_ops_that_ask_for_a_network) {
  const auto step_with = [](const std::function<void(NetworkBuilder&, const Tensor&)>& also) {
    const auto op = std::make_shared<CustomOp>();
    op->name = "copied";
    op->inputs = {"x"};
    op->infer = [](std::span<const TensorType> inputs, const Attrs&) {
      return std::vector<TensorType>{inputs[0]};
    };
    op->run = [](const OpCall& call) {
      for (size_t i = 0; i < call.output<float>().size(); ++i)
        call.output<float>()[i] = call.input<float>(0)[i];
    };
    op->gradient = [=](const GradientCall& call) {
      also(call.builder, call.gradients[0]);
      return std::vector<Tensor>{dropout(call.gradients[0], 0.5)};
    };
    Network network("copies", [](NetworkBuilder& b) {
      const Tensor y = dropout(linear(b, "out", b.input("x", {kWidth}), 1), 0.5);
      b.minimize(b.weighted_mean(b.op1("copied", {y})));
    });
    network.add(op);
    Session session(network, options_of());
    const Data data;
    Rows rows(kRows);
    rows.add("x", std::span(data.x));
    return session.step(rows).loss;
  };
  EXPECT_TRUE(std::isfinite(step_with([](NetworkBuilder&, const Tensor&) {})));
  const std::pair<const char*, std::function<void(NetworkBuilder&, const Tensor&)>> calls[] = {
      {"rows()", [](NetworkBuilder& b, const Tensor&) { (void)b.rows(); }},
      {"input()", [](NetworkBuilder& b, const Tensor&) { (void)b.input("z", {1}); }},
      {"parameter()", [](NetworkBuilder& b, const Tensor&) { (void)b.parameter("w", {1}, {}); }},
      {"a layer with weights",
       [](NetworkBuilder& b, const Tensor& dy) { (void)linear(b, "more", dy, 2); }},
      {"weighted_mean()", [](NetworkBuilder& b, const Tensor& dy) { (void)b.weighted_mean(dy); }},
      {"minimize()", [](NetworkBuilder& b, const Tensor& dy) { b.minimize(dy); }},
      {"keep()", [](NetworkBuilder&, const Tensor& dy) { (void)keep(dy); }}};
  for (const auto& [name, call] : calls) {
    const std::string error =
        refusal([&, &call = call] { (void)step_with(call); }, ErrorCode::invalid_graph);
    EXPECT_NE(error.find(std::string(name) + " is called in the gradient"), std::string::npos)
        << error;
  }
}

TEST(SessionMisuse, names_of_tensors_that_training_has) {
  for (const char* name : {"rng", "clip_factor", "grad.out.weight"}) {
    const Network network("named", [=](NetworkBuilder& b) {
      const Tensor y = named(name, linear(b, "out", b.input("x", {kWidth}), 1));
      b.minimize(b.weighted_mean(y * y));
    });
    const std::string error =
        refusal([&] { (void)plan_network(network, options_of()); }, ErrorCode::invalid_graph);
    EXPECT_NE(error.find(name), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace snug::session
