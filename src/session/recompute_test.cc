// SPDX-License-Identifier: Apache-2.0
// Marks of a caller's network, with the cases of the systems that they come from: PyTorch's
// checkpoint, cybertronai's gradient-checkpointing (memory_test.py), Paddle's RecomputeOptimizer.
#include "snug/recompute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 1024;
constexpr double kUnit = 4.0 * kRows * kWidth;  // bytes of one tensor of a chain

SessionOptions options_of(const std::string& recompute = {}) {
  return {.batch_rows = kRows,
          .memory = parse_memory("1GiB"),
          .micro_batch_size = kRows,
          .recompute = recompute,
          .optim = "sgd",
          .optim_args = {{"momentum", 0}},
          .learning_rate = 1e-6,
          .threads = 1};
}

// x plus a weight, then what `build` makes of it, and its mean.
Network network_of(const std::function<Tensor(NetworkBuilder&, Tensor)>& build) {
  return {"chain", [build](NetworkBuilder& b) {
            const Tensor bias = b.parameter("bias", {kWidth}, {});
            const Tensor last = build(b, b.input("x", {kWidth}) + bias);
            b.minimize(b.weighted_mean(reduce_sum(last, {1})));
          }};
}

// a1 .. a(n-1), of one unit each; those of `kept` are marked.
Tensor chain(Tensor x, int64_t n, const std::vector<int64_t>& kept, const std::string& letter = "a",
             bool is_residual = false) {
  for (int64_t i = 1; i < n; ++i) {
    x = is_residual ? x + tanh(x) : tanh(x);
    if (std::find(kept.begin(), kept.end(), i) != kept.end())
      x = keep(named(letter + std::to_string(i), x));
  }
  return x;
}
Network chain_of(int64_t n, const std::vector<int64_t>& kept = {}, bool is_residual = false) {
  return network_of(
      [=](NetworkBuilder&, const Tensor& x) { return chain(x, n, kept, "a", is_residual); });
}

struct Trained {
  std::vector<float> weights;
  double loss = 0;
  PlanReport plan;
};
Trained trained(const Network& network, const SessionOptions& options = options_of()) {
  Session session(network, options);
  std::vector<float> x(static_cast<size_t>(kRows * kWidth));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.5F + std::sin(static_cast<float>(i));
  Rows rows(kRows);
  rows.add("x", std::span<const float>(x));
  Trained result;
  for (int i = 0; i < 3; ++i) result.loss = session.step(rows).loss;
  result.plan = session.plan();
  EXPECT_EQ(session.measured_arena_bytes(), result.plan.arena_bytes) << result.plan.strategy;
  for (const TensorInfo& tensor : session.tensors()) {
    const std::vector<float> values = session.read(tensor.name);
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  return result;
}

double units(const PlanReport& plan) { return static_cast<double>(plan.arena_bytes) / kUnit; }
double kept_units(const PlanReport& plan) {
  double bytes = 0;
  for (const BlockTreatment& block : plan.blocks)
    bytes += static_cast<double>(block.kept_bytes * block.count);
  return std::floor(bytes / kUnit);  // what is left is of rows, not of units
}

// The same bits as keep-all, planned = measured; gives the plan.
PlanReport exact_plan(const Network& network, const std::string& recompute = {}) {
  const Trained all = trained(network, options_of("keep-all"));
  const Trained marked = trained(network, options_of(recompute));
  EXPECT_EQ(all.plan.ops_run_again, 0);
  EXPECT_EQ(marked.weights, all.weights);
  EXPECT_EQ(marked.loss, all.loss);
  return marked.plan;
}

std::string refusal_of(const Network& network, ErrorCode code, const std::string& recompute = {}) {
  return refusal([&] { (void)plan_network(network, options_of(recompute)); }, code);
}
void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
}

// --- PyTorch ---

TEST(Torch, checkpoint_keeps_the_inputs_of_a_part_and_runs_the_rest_of_it_again) {
  const auto build = [](bool is_checkpointed) {
    return network_of([=](NetworkBuilder& b, const Tensor& x) {
      const auto middle = [](const Tensor& in) { return chain(in, 9, {}); };
      const Tensor first = tanh(x);
      return tanh(is_checkpointed ? checkpoint(b, middle, first) : middle(first));
    });
  };
  const PlanReport plain = exact_plan(build(false), "keep-all");
  const PlanReport plan = exact_plan(build(true));
  EXPECT_EQ(plan.strategy, "marked");
  EXPECT_EQ(plan.ops_run_again, 8);
  EXPECT_EQ(kept_units(plain), 10);
  EXPECT_EQ(kept_units(plan), 2);
  EXPECT_LT(plan.arena_bytes, plan.keep_all_arena_bytes);
}

TEST(Torch, checkpoint_sequential_trigger_counts) {
  for (const int64_t segments : {1, 2, 3, 5, 10}) {
    const Network network = network_of([=](NetworkBuilder& b, const Tensor& x) {
      const std::vector<TensorFunction> modules(10, [](const Tensor& in) { return tanh(in); });
      return checkpoint_sequential(b, modules, segments, x);
    });
    // 10 modules in 2 segments: the first 5 run twice, the last 5 once. Where a segment follows
    // that is checkpointed too, its input is there, and the module that made it is not run again.
    const int64_t size = 10 / segments;
    const int64_t twice = segments == 1 ? 0 : size + (segments - 2) * (size - 1);
    EXPECT_EQ(exact_plan(network, segments == 1 ? "keep-all" : "").ops_run_again, twice);
  }
  for (const int64_t segments : {0, 11}) {
    const Network network = network_of([=](NetworkBuilder& b, const Tensor& x) {
      const std::vector<TensorFunction> modules(10, [](const Tensor& in) { return tanh(in); });
      return checkpoint_sequential(b, modules, segments, x);
    });
    expect_in(refusal_of(network, ErrorCode::invalid_graph), "give 1 to 10");
  }
}

// mm(x.cos(), y).sin().sum(): 2 units kept, none with checkpoint, 1 where the product is saved.
TEST(Torch, selective_checkpoint_saves_what_is_marked_in_the_part) {
  const auto build = [](bool is_checkpointed, bool saves_product) {
    return Network("sac", [=](NetworkBuilder& b) {
      const Tensor y = b.parameter("y", {kWidth, kWidth}, InitRule::normal(0.05));
      const auto fn = [&](const Tensor& x) {
        const Tensor product = matmul(gelu(x), y);
        return reduce_sum(gelu(saves_product ? keep(product) : product), {1});
      };
      const Tensor x = b.input("x", {kWidth});
      b.minimize(b.weighted_mean(is_checkpointed ? checkpoint(b, fn, x) : fn(x)));
    });
  };
  const PlanReport none = exact_plan(build(false, false), "keep-all");
  const PlanReport full = exact_plan(build(true, false));
  const PlanReport saved = exact_plan(build(true, true));
  EXPECT_EQ(kept_units(none), 2);
  EXPECT_EQ(kept_units(full), 0);
  EXPECT_EQ(kept_units(saved), 1);
  EXPECT_EQ(full.ops_run_again, 2);
  EXPECT_EQ(saved.ops_run_again, 1);
}

TEST(Torch, early_stop_runs_nothing_again_behind_the_last_tensor_that_is_needed) {
  const Network network = network_of([](NetworkBuilder& b, const Tensor& x) {
    return checkpoint(
        b, [](const Tensor& in) { return gelu(gelu(in)); }, x);
  });
  EXPECT_EQ(exact_plan(network).ops_run_again, 1);
}

TEST(Torch, nested_parts_are_run_again_from_the_inputs_of_the_inner_one) {
  const Network network = network_of([](NetworkBuilder& b, const Tensor& x) {
    return tanh(checkpoint(
        b,
        [&](const Tensor& in) {
          const Tensor inner = checkpoint(
              b, [](const Tensor& y) { return chain(y, 3, {}); }, tanh(in));
          return tanh(inner);
        },
        tanh(x)));
  });
  // The four of the outer part for its last, then the two of the inner once more.
  EXPECT_EQ(exact_plan(network).ops_run_again, 6);
}

TEST(Torch, memory_savings_of_eight_blocks_of_three_layers) {
  const auto build = [](bool is_checkpointed) {
    return network_of([=](NetworkBuilder& b, Tensor x) {
      x = reshape(x, {b.rows(), 64, 16});
      for (int64_t i = 0; i < 8; ++i) {
        const auto block = [&](Tensor in) {
          const Scope scope(b, "block." + std::to_string(i));
          for (const char* name : {"a", "b", "c"}) in = relu(linear(b, name, in, 16));
          return in;
        };
        x = is_checkpointed ? checkpoint(b, block, x) : block(x);
      }
      return reshape(x, {b.rows(), kWidth});
    });
  };
  const PlanReport plan = exact_plan(build(true));
  EXPECT_LT(2 * plan.arena_bytes, exact_plan(build(false), "keep-all").arena_bytes);
  EXPECT_GT(plan.ops_run_again, 0);
}

// test_autograd's test_checkpointing: one module, checkpointed for each of 2000 inputs.
TEST(Torch, one_module_checkpointed_for_2000_inputs) {
  constexpr int64_t kInputs = 2000;
  const Network network("inputs", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kInputs, 10});
    std::vector<Tensor> found;
    for (int64_t i = 0; i < kInputs; ++i) {
      const auto module = [&](Tensor in) {
        const Scope scope(b, "module", Weights::shared);
        for (const char* name : {"a", "b", "c"}) in = relu(linear(b, name, in, 50));
        return reduce_sum(in, {1}, true);
      };
      found.push_back(checkpoint(b, module, reshape(slice(x, 1, i, i + 1), {b.rows(), 10})));
    }
    b.minimize(b.weighted_mean(concat(found, 1)));
  });
  const std::vector<float> x(kInputs * 10, 0.5F);
  const auto run = [&](const std::string& recompute) {
    SessionOptions options = options_of(recompute);
    options.batch_rows = options.micro_batch_size = 1;
    Session session(network, options);
    Rows rows(1);
    rows.add("x", std::span(x));
    (void)session.step(rows);
    return std::pair(session.read("module.a.weight"), session.plan());
  };
  const auto [wanted, plain] = run("keep-all");
  const auto [found, plan] = run("");
  EXPECT_EQ(found, wanted);
  EXPECT_LT(3 * plan.arena_bytes, plain.arena_bytes);
}

// out = dropout(x w): the mask of the gradient is the mask of the loss, in every plan.
TEST(Torch, dropout_probe_of_the_budget_planner) {
  for (const char* recompute : {"", "keep-all", "recompute-all", "speed", "auto"}) {
    const Network network("probe", [](NetworkBuilder& b) {
      const Tensor w = b.parameter("w", {5, 5}, {});
      const Tensor out = checkpoint(
          b, [&](const Tensor& x) { return dropout(matmul(x, w), 0.5); }, b.input("x", {5}));
      b.minimize(b.weighted_mean(reduce_sum(out * out, {1})));
    });
    SessionOptions options = options_of(recompute);
    options.batch_rows = options.micro_batch_size = 1;
    options.learning_rate = 1;
    Session session(network, options);
    std::vector<float> w(25);
    std::iota(w.begin(), w.end(), 1.0F);
    session.write("w", w);
    const std::vector<float> ones(5, 1.0F);
    Rows rows(1);
    rows.add("x", std::span<const float>(ones));
    const double loss = session.step(rows).loss;
    const std::vector<float> after = session.read("w");
    double wanted = 0;
    for (size_t j = 0; j < 5; ++j) {
      double column = 0;
      for (size_t i = 0; i < 5; ++i) column += static_cast<double>(w[i * 5 + j]);
      const bool is_there = w[j] != after[j];
      for (size_t i = 0; i < 5; ++i)  // d (2 m column)^2
        EXPECT_EQ(static_cast<double>(w[i * 5 + j] - after[i * 5 + j]),
                  is_there ? 8 * column : 0.0);
      wanted += is_there ? 4 * column * column : 0;
    }
    EXPECT_EQ(loss, wanted) << recompute;
  }
}

TEST(Torch, a_part_that_computes_nothing_is_an_error) {
  const Network network = network_of([](NetworkBuilder& b, const Tensor& x) {
    return tanh(checkpoint(
        b, [](const Tensor& in) { return in; }, x));
  });
  expect_in(refusal_of(network, ErrorCode::invalid_graph), "nothing to run again");
}

// --- cybertronai: peaks in units, one-sided as there ---

TEST(Cybertronai, chains_stay_within_the_peaks_of_memory_test) {
  struct Case {
    const char* name;
    int64_t n;
    std::vector<int64_t> kept;
    bool is_residual;
    double peak;
    double slack;
  };
  const Case cases[] = {{"test_chain", 5, {}, false, 5, 1.01},
                        {"test_chain_rewrite", 5, {1, 3}, false, 4, 1.01},
                        {"test_chain_rewrite_save_one_before_last", 5, {2}, false, 4, 1.1},
                        {"test_minimal_resnet", 3, {}, true, 4, 1.1},
                        {"test_resnet_rewrite", 6, {2}, true, 5, 1.1},
                        {"test_long_resnet", 100, {}, true, 101, 1.1}};
  for (const Case& each : cases) {
    const Network network = chain_of(each.n, each.kept, each.is_residual);
    const PlanReport plan = exact_plan(network, each.kept.empty() ? "keep-all" : "");
    EXPECT_LT(units(plan) - each.peak, each.slack) << each.name;
    EXPECT_EQ(plan.strategy, each.kept.empty() ? "keep-all" : "marked") << each.name;
    EXPECT_EQ(plan.ops_run_again > 0, !each.kept.empty()) << each.name;
  }
}

TEST(Cybertronai, test_long_chain_memory_by_its_marks_and_by_the_strategy) {
  std::vector<int64_t> picked;
  for (int64_t i = 10; i <= 91; i += 9) picked.push_back(i);
  for (const bool is_residual : {false, true}) {
    EXPECT_LT(units(exact_plan(chain_of(100, picked, is_residual))) - 20, 1.1) << is_residual;
    EXPECT_LT(units(exact_plan(chain_of(100, {}, is_residual), "memory")) - 20, 1.1) << is_residual;
  }
}

TEST(Cybertronai, test_chain_memory_and_test_resnet_rewrite_memory) {
  EXPECT_LT(units(exact_plan(chain_of(6), "memory")) - 6, 0.1);
  EXPECT_LT(units(exact_plan(chain_of(6, {}, true), "memory")) - 7, 1.1);
}

// The mode that was removed there, as a budget here: so many bytes are enough.
TEST(Cybertronai, tests_of_the_tarjan_mode_by_the_budget) {
  struct Case {
    int64_t n;
    bool is_residual;
    double peak;
  };
  for (const Case& each :
       {Case{6, false, 5}, Case{100, false, 18}, Case{100, true, 18}, Case{6, true, 4}}) {
    const Network network = chain_of(each.n, {}, each.is_residual);
    SessionOptions options = options_of();
    const int64_t resident = plan_network(network, options).resident_bytes;
    options.memory.bytes = resident + static_cast<int64_t>((each.peak + 0.1) * kUnit) + 4096;
    const Trained found = trained(network, options);
    EXPECT_EQ(found.weights, trained(network, options_of("keep-all")).weights);
    EXPECT_LT(units(found.plan) - each.peak, each.n == 6 ? 1.1 : 0.3);
  }
}

TEST(Cybertronai, test_dual_chain_rewrite) {
  const auto build = [](const std::vector<int64_t>& kept) {
    return network_of([=](NetworkBuilder&, const Tensor& x) {
      return chain(x, 5, kept, "a") + chain(gelu(x), 5, kept, "b");
    });
  };
  EXPECT_LT(units(exact_plan(build({}), "keep-all")) - 11, 1.1);
  EXPECT_LT(units(exact_plan(build({2}))) - 9, 4.1);
}

TEST(Cybertronai, test_chain_rewrite_save_last_must_raise) {
  const Network network("last", [](NetworkBuilder& b) {
    const Tensor bias = b.parameter("bias", {kWidth}, {});
    const Tensor last = chain(b.input("x", {kWidth}) + bias, 5, {});
    b.minimize(keep(b.weighted_mean(reduce_sum(last, {1}))));
  });
  expect_in(refusal_of(network, ErrorCode::invalid_graph), "keeps nothing");
}

TEST(Cybertronai, an_empty_set_and_marks_that_save_nothing_must_raise) {
  expect_in(refusal_of(chain_of(5), ErrorCode::bad_config, "marked"), "marks nothing");
  expect_in(refusal_of(chain_of(5, {2}), ErrorCode::bad_config, "marks:a2;no_such"), "'no_such'");
  expect_in(refusal_of(chain_of(5, {2}), ErrorCode::bad_config, "marks:loss"), "keeps nothing");
  expect_in(refusal_of(chain_of(5, {2}), ErrorCode::bad_config, "marks:x;bias"), "always there");
  const Network unread = network_of([](NetworkBuilder&, const Tensor& x) {
    (void)keep(tanh(x));
    return gelu(x);
  });
  expect_in(refusal_of(unread, ErrorCode::invalid_graph), "the loss does not depend on it");
  const Network outside = network_of([](NetworkBuilder& b, const Tensor& x) {
    return tanh(checkpoint(
        b, [](const Tensor& in) { return chain(in, 3, {}); }, keep(tanh(x))));
  });
  expect_in(refusal_of(outside, ErrorCode::bad_config), "outside of every checkpointed part");
}

// --- Paddle: how many ops run again ---

// mul, two ops that need their input in the backward part (upstream's additions need nothing), mean
PlanReport paddle(const std::string& marks, bool is_linear = false) {
  const Network network("paddle", [=](NetworkBuilder& b) {
    const Tensor weight = b.parameter("w", {kWidth, 64}, InitRule::normal(0.05));
    const Tensor bias = b.parameter("b", {64}, {});
    const auto next = [&](const Tensor& in) { return is_linear ? in + bias : in * in; };
    const Tensor product = named("mul_out", matmul(b.input("x", {kWidth}), weight));
    const Tensor first = named("b1_out", next(product));
    const Tensor second = named("b2_out", next(first));
    b.minimize(b.weighted_mean(reduce_sum(second, {1})));
  });
  return exact_plan(network, marks);
}

TEST(Paddle, as_many_ops_run_again_as_its_programs_have_more) {
  EXPECT_EQ(paddle("keep-all").ops_run_again, 0);              // 12 ops
  EXPECT_EQ(paddle("marks:b1_out").ops_run_again, 1);          // 13: mul
  EXPECT_EQ(paddle("marks:mul_out;b2_out").ops_run_again, 1);  // 13: one addition
  EXPECT_EQ(paddle("marks:b2_out;mul_out").ops_run_again, 1);  // out of order
  EXPECT_EQ(paddle("marks:mul_out;b1_out").ops_run_again, 0);  // 12: adjacent
  EXPECT_EQ(paddle("marks:x;b2_out").ops_run_again, 2);        // 14: an input is a mark
  EXPECT_EQ(paddle("marks:b1_out").blocks.front().recomputed, std::vector<std::string>{"matmul"});
  // What no gradient reads is not run again: there upstream multiplies in vain.
  EXPECT_EQ(paddle("marks:b1_out", true).ops_run_again, 0);
}

TEST(Paddle, dropout_has_the_same_mask_when_it_runs_again) {
  const Network network = network_of([](NetworkBuilder&, Tensor x) {
    for (int i = 0; i < 3; ++i) x = keep(gelu(dropout(tanh(gelu(x)), 0.3)));
    return gelu(x);
  });
  EXPECT_GT(exact_plan(network).ops_run_again, 0);
}

TEST(Paddle, test_dygraph_recompute_any_set_of_blocks_gives_the_same_weights) {
  const auto build = [](const std::vector<int>& again) {
    return network_of([=](NetworkBuilder& b, Tensor x) {
      x = linear(b, "in", x, 32);
      for (int i = 0; i < 4; ++i) {
        const auto block = [&](const Tensor& in) {
          const Scope scope(b, "block." + std::to_string(i));
          return in + dropout(linear(b, "b", gelu(linear(b, "a", in, 64)), 32), 0.1);
        };
        const bool is_again = std::find(again.begin(), again.end(), i) != again.end();
        x = is_again ? checkpoint(b, block, x) : block(x);
      }
      return x;
    });
  };
  const Trained wanted = trained(build({}), options_of("keep-all"));
  int64_t runs = 0;
  for (const std::vector<int>& again : std::vector<std::vector<int>>{{1}, {1, 3}, {1, 2, 3}}) {
    const Trained found = trained(build(again));
    EXPECT_EQ(found.weights, wanted.weights) << again.size();
    EXPECT_EQ(found.loss, wanted.loss) << again.size();
    EXPECT_GT(found.plan.ops_run_again, runs) << again.size();
    runs = found.plan.ops_run_again;
  }
  EXPECT_EQ(trained(build({3})).weights, wanted.weights);
}

// #55722: the first part has nothing to train.
TEST(Paddle, a_frozen_first_part_changes_no_gradient) {
  const Network network = network_of([](NetworkBuilder& b, const Tensor& x) {
    const auto layer = [&](const std::string& name) {
      return [&b, name](const Tensor& in) { return gelu(linear(b, name, in, 64)); };
    };
    return checkpoint(b, layer("second"), checkpoint(b, layer("first"), x));
  });
  SessionOptions marked = options_of();
  SessionOptions all = options_of("keep-all");
  marked.freeze = all.freeze = {"bias", "first.*"};
  const Trained wanted = trained(network, all);
  const Trained found = trained(network, marked);
  EXPECT_EQ(found.weights, wanted.weights);
  EXPECT_GT(found.plan.ops_run_again, 0);
}

// --- Keras ---

struct Feed : RecomputedLayer {
  explicit Feed(std::string name_of) : name(std::move(name_of)) {}
  std::string name;

 private:
  [[nodiscard]] Tensor call(NetworkBuilder& b, const Tensor& x) const override {
    const Scope scope(b, name);
    return x + dropout(linear(b, "down", gelu(linear(b, "up", x, 256)), x.dim(-1)), 0.2);
  }
};

// With dropout in the layer, whose mask upstream draws anew (bert4keras #521).
TEST(Keras, recompute_grad_per_layer_and_inherited_by_own_layers) {
  const auto build = [](int way) {
    return network_of([=](NetworkBuilder& b, Tensor x) {
      const auto feed = [](NetworkBuilder& in, const std::string& name, const Tensor& y) {
        const Scope scope(in, name);
        return y + dropout(linear(in, "down", gelu(linear(in, "up", y, 256)), y.dim(-1)), 0.2);
      };
      for (const char* name : {"0", "1", "2"}) {
        if (way == 0) x = feed(b, name, x);
        if (way == 1) x = recompute_grad(feed)(b, name, x);
        if (way == 2) x = Feed(name)(b, x);
      }
      return x;
    });
  };
  const PlanReport plain = exact_plan(build(0), "keep-all");
  const PlanReport wrapped = exact_plan(build(1));
  const PlanReport inherited = exact_plan(build(2));
  EXPECT_EQ(inherited.arena_bytes, wrapped.arena_bytes);
  EXPECT_EQ(inherited.ops_run_again, wrapped.ops_run_again);
  EXPECT_GE(wrapped.ops_run_again, 3);
  EXPECT_LT(wrapped.arena_bytes, plain.arena_bytes);
}

// --- explicit requests ---

TEST(Marks, only_an_explicit_request_overrides_them) {
  const Network network = chain_of(20, {5, 10, 15});
  EXPECT_EQ(plan_network(network, options_of()).strategy, "marked");
  EXPECT_EQ(exact_plan(network, "auto").strategy, "keep-all");
  EXPECT_EQ(exact_plan(network, "sqrt").strategy, "sqrt");
  EXPECT_EQ(exact_plan(chain_of(20), "").strategy, "keep-all");
  SessionOptions tight = options_of("auto");
  const int64_t least = plan_network(network, tight).smallest_budget_bytes;
  tight.recompute.clear();
  tight.memory.bytes = least;
  expect_in(refusal([&] { (void)plan_network(network, tight); }, ErrorCode::out_of_budget),
            "recompute = \"auto\"");
}

TEST(Marks, hold_in_every_split_and_length) {
  const Network network("split", [](NetworkBuilder& b) {
    Tensor x = b.input("x", {b.length(), 16});
    b.counts_padding("runs of the same programs are compared");
    for (int i = 0; i < 4; ++i)
      x = checkpoint(
          b,
          [&](const Tensor& in) {
            const Scope scope(b, std::to_string(i));
            return gelu(linear(b, "b", gelu(linear(b, "a", in, 16)), 16));
          },
          x);
    b.minimize(b.weighted_mean(reduce_sum(x, {1, 2})));
  });
  const auto run = [&](const std::string& recompute, int64_t micro_batch) {
    SessionOptions options = options_of(recompute);
    options.lengths = {4, 8};
    options.micro_batch_size = micro_batch;
    Session session(network, options);
    std::vector<float> x(static_cast<size_t>(kRows * 8 * 16), 0.5F);
    Rows rows(kRows, 8);
    Rows shorter(kRows, 3);
    rows.add("x", std::span<const float>(x));
    shorter.add("x", std::span<const float>(x).subspan(0, kRows * 3 * 16));
    (void)session.step(rows);
    (void)session.step(shorter);
    EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
    return std::pair(session.read("0.a.weight"), session.plan().ops_run_again);
  };
  for (const int64_t micro_batch : {8, 4, 3}) {
    const auto all = run("keep-all", micro_batch);
    const auto marked = run("", micro_batch);
    EXPECT_EQ(marked.first, all.first) << micro_batch;
    EXPECT_GT(marked.second, 0) << micro_batch;
  }
}

}  // namespace
}  // namespace snug::session
