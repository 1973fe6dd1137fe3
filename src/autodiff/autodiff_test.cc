// SPDX-License-Identifier: Apache-2.0
// Reverse mode on whole graphs; single ops are checked against finite differences in tests/op.
#include "autodiff/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/reference/reference.h"
#include "base/philox.h"
#include "graph/storage.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/registry.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug::autodiff {
namespace {

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

RefValues random_feeds(const Graph& graph, uint64_t seed) {
  PhiloxStream random(seed);
  RefValues feeds;
  for (const ValueId id : graph.values.ids()) {
    if (graph.values[id].producer != kNone) continue;
    std::vector<double>& data = feeds[id];
    data.resize(static_cast<size_t>(element_count(graph.values[id].type)));
    for (double& x : data) x = random.normal();
  }
  return feeds;
}

// d loss / d (element of wrt) by central differences.
std::vector<double> differences(const Graph& graph, RefValues feeds, ValueId loss, ValueId wrt) {
  constexpr double kStep = 1e-6;
  std::vector<double> slopes;
  for (double& x : feeds[wrt]) {
    const double before = x;
    x = before + kStep;
    const double above = evaluate(graph, feeds).at(loss)[0];
    x = before - kStep;
    const double below = evaluate(graph, feeds).at(loss)[0];
    x = before;
    slopes.push_back((above - below) / (2 * kStep));
  }
  return slopes;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  double scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    scale += b[i] * b[i];
  }
  return std::sqrt(sum / scale);
}

int count_ops(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& node) { return *node.op->name == op; }));
}

// x -> linear -> gelu -> linear -> mean of squares
struct Mlp {
  GraphBuilder b{op_registry(), "mlp"};
  ValueId x = b.input("x", f32({4, 3}));
  ValueId w1 = b.parameter("w1", f32({5, 3}));
  ValueId b1 = b.parameter("b1", f32({5}));
  ValueId w2 = b.parameter("w2", f32({2, 5}));
  ValueId b2 = b.parameter("b2", f32({2}));
  ValueId loss = kNone;
  Mlp() {
    ValueId h = kNone;
    {
      const ScopeGuard scope(b, "layer.0");
      h = gelu(b, matmul(b, x, w1, {.transpose_b = true, .bias = b1}));
    }
    const ScopeGuard scope(b, "layer.1");
    const ValueId y = matmul(b, h, w2, {.transpose_b = true, .bias = b2});
    loss = reduce_mean(b, mul(b, y, y), {0, 1});
  }
  [[nodiscard]] std::vector<ValueId> parameters() const { return {w1, b1, w2, b2}; }
};

TEST(Autodiff, gradients_of_a_network_equal_finite_differences) {
  Mlp net;
  const Graph forward = net.b.graph();
  const auto gradients = append_gradients(net.b, net.loss, kNone, net.parameters());
  verify(net.b.graph());
  const RefValues feeds = random_feeds(forward, 7);
  const RefValues values = evaluate(net.b.graph(), feeds);
  ASSERT_EQ(gradients.size(), 4u);
  for (const auto& [wrt, gradient] : gradients) {
    EXPECT_LE(distance(values.at(gradient), differences(forward, feeds, net.loss, wrt)), 1e-7)
        << forward.value(wrt).name;
  }
}

// A random graph of smooth ops with many uses of each value.
TEST(Autodiff, gradients_of_random_graphs_equal_finite_differences) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    PhiloxStream random(seed, 3);
    GraphBuilder b(op_registry(), "random");
    std::vector<ValueId> wrt = {b.parameter("a", f32({2, 3})), b.parameter("b", f32({3})),
                                b.parameter("c", f32({2, 1}))};
    std::vector<ValueId> values = wrt;
    for (int i = 0; i < 12; ++i) {
      const ValueId left = values[static_cast<size_t>(random.below(values.size()))];
      const ValueId right = values[static_cast<size_t>(random.below(values.size()))];
      switch (random.below(6)) {
        case 0:
          values.push_back(add(b, left, right));
          break;
        case 1:
          values.push_back(mul(b, tanh(b, left), sigmoid(b, right)));
          break;
        case 2:
          values.push_back(sub(b, left, scale(b, right, 0.5)));
          break;
        case 3:
          values.push_back(gelu(b, left));
          break;
        case 4:
          values.push_back(reduce_mean(b, left, {-1}, true));
          break;
        default:
          values.push_back(tanh(b, mul(b, left, left)));
          break;
      }
    }
    ValueId loss = kNone;
    for (ValueId value : values) {
      std::vector<int64_t> axes;
      for (size_t i = 0; i < b.shape(value).size(); ++i) axes.push_back(static_cast<int64_t>(i));
      const ValueId part = reduce_sum(b, value, axes);
      loss = loss == kNone ? part : add(b, loss, part);
    }
    const Graph forward = b.graph();
    const auto gradients = append_gradients(b, loss, kNone, wrt);
    verify(b.graph());
    const RefValues feeds = random_feeds(forward, seed);
    const RefValues all = evaluate(b.graph(), feeds);
    for (ValueId id : wrt) {
      EXPECT_LE(distance(all.at(gradients.at(id)), differences(forward, feeds, loss, id)), 1e-6)
          << "seed " << seed;
    }
  }
}

TEST(Autodiff, frozen_parameters_build_nothing) {
  Mlp all;
  (void)append_gradients(all.b, all.loss, kNone, all.parameters());
  Mlp last;
  const std::vector<ValueId> head = {last.w2, last.b2};
  const auto gradients = append_gradients(last.b, last.loss, kNone, head);
  EXPECT_EQ(gradients.size(), 2u);
  EXPECT_EQ(count_ops(all.b.graph(), "gelu_grad"), 1);
  EXPECT_EQ(count_ops(last.b.graph(), "gelu_grad"), 0);
  EXPECT_EQ(count_ops(last.b.graph(), "matmul"), 3) << "two forward, one gradient of w2";
}

TEST(Autodiff, input_gets_no_gradient_and_first_layer_no_input_gradient) {
  Mlp net;
  (void)append_gradients(net.b, net.loss, kNone, net.parameters());
  EXPECT_EQ(count_ops(net.b.graph(), "matmul"), 2 + 3);
}

TEST(Autodiff, values_that_do_not_matter_are_absent) {
  GraphBuilder b(op_registry(), "partly");
  const ValueId used = b.parameter("used", f32({}));
  const ValueId unused = b.parameter("unused", f32({}));
  const ValueId other = exp(b, unused);
  const ValueId loss = exp(b, used);
  const std::vector<ValueId> wrt = {used, unused};
  EXPECT_EQ(append_gradients(b, loss, kNone, wrt).count(unused), 0u);
  EXPECT_TRUE(append_gradients(b, other, kNone, std::vector<ValueId>{used}).empty());
}

TEST(Autodiff, backward_nodes_carry_phase_and_scope_in_reverse_order) {
  Mlp net;
  const NodeId forward = net.b.graph().nodes.end_id();
  (void)append_gradients(net.b, net.loss, kNone, net.parameters());
  std::vector<std::string> scopes;
  for (const NodeId id : IdRange(forward, net.b.graph().nodes.end_id())) {
    const Node& node = net.b.graph().nodes[id];
    EXPECT_EQ(node.phase, Phase::backward);
    if (scopes.empty() || scopes.back() != node.scope) scopes.push_back(node.scope);
  }
  EXPECT_EQ(scopes, (std::vector<std::string>{"", "layer.1", "layer.0"}));
  EXPECT_EQ(net.b.phase(), Phase::forward);
  EXPECT_EQ(net.b.scope(), "");
}

// A tied weight: used twice, one gradient, reported once.
TEST(Autodiff, uses_of_one_value_are_summed) {
  GraphBuilder b(op_registry(), "tied");
  const ValueId w = b.parameter("w", f32({2, 2}));
  const ValueId x = b.input("x", f32({3, 2}));
  const ValueId y = matmul(b, tanh(b, matmul(b, x, w)), w, {.transpose_b = true});
  const ValueId loss = sum_squares(b, y);
  const Graph forward = b.graph();
  int reports = 0;
  const auto gradients =
      append_gradients(b, loss, kNone, std::vector<ValueId>{w}, [&](ValueId wrt, ValueId) {
        EXPECT_EQ(wrt, w);
        ++reports;
      });
  EXPECT_EQ(reports, 1);
  const RefValues feeds = random_feeds(forward, 3);
  EXPECT_LE(distance(evaluate(b.graph(), feeds).at(gradients.at(w)),
                     differences(forward, feeds, loss, w)),
            1e-7);
}

// The same in place: each share is added to the state that the caller gives, and the sink sees the
// last version.
TEST(Autodiff, uses_of_one_value_are_accumulated_where_asked) {
  GraphBuilder b(op_registry(), "tied");
  const ValueId w = b.parameter("w", f32({2, 2}));
  const ValueId once = b.parameter("once", f32({3, 2}));
  const ValueId y = matmul(b, tanh(b, matmul(b, once, w)), w, {.transpose_b = true});
  const ValueId loss = sum_squares(b, y);
  const Graph forward = b.graph();
  std::map<ValueId, int> uses;
  std::set<ValueId> reported;
  ValueId sum = kNone;
  const auto gradients = append_gradients(
      b, loss, kNone, std::vector<ValueId>{w, once},
      [&](ValueId, ValueId gradient) { reported.insert(gradient); }, SinkEffect::reads,
      [&](ValueId wrt, int count) {
        uses[wrt] = count;
        return wrt == w ? sum = b.state("sum", f32({2, 2})) : kNone;
      });
  verify(b.graph());
  EXPECT_EQ(uses, (std::map<ValueId, int>{{w, 2}, {once, 1}}));
  EXPECT_EQ(reported, (std::set<ValueId>{gradients.at(w), gradients.at(once)}));
  EXPECT_EQ(storage_of(b.graph(), gradients.at(w)), sum);
  EXPECT_EQ(count_ops(b.graph(), "accumulate"), 2);
  EXPECT_EQ(count_ops(b.graph(), "add"), 0);
  RefValues feeds = random_feeds(forward, 3);
  feeds[sum] = {0, 0, 0, 0};
  const RefValues values = evaluate(b.graph(), feeds);
  for (const ValueId wrt : {w, once}) {
    EXPECT_LE(distance(values.at(gradients.at(wrt)), differences(forward, feeds, loss, wrt)), 1e-7);
  }
}

TEST(Autodiff, an_operand_used_twice_by_one_node_gets_both_shares) {
  GraphBuilder b(op_registry(), "square");
  const ValueId x = b.parameter("x", f32({}));
  const ValueId y = mul(b, x, x);
  const auto gradients = append_gradients(b, y, kNone, std::vector<ValueId>{x});
  EXPECT_EQ(evaluate(b.graph(), {{x, {3}}}).at(gradients.at(x)), std::vector<double>{6});
}

// What the sink appends stands right behind the gradient, before the gradient of the node's other
// operand.
TEST(Autodiff, sink_runs_as_soon_as_a_gradient_is_final) {
  Mlp net;
  std::vector<ValueId> order;
  (void)append_gradients(net.b, net.loss, kNone, net.parameters(),
                         [&](ValueId wrt, ValueId gradient) {
                           order.push_back(wrt);
                           const PhaseGuard phase(net.b, Phase::update);
                           net.b.set_scope("update");
                           (void)scale(net.b, gradient, -0.1);
                         });
  EXPECT_EQ(order, (std::vector<ValueId>{net.w2, net.b2, net.w1, net.b1}));
  const Graph& graph = net.b.graph();
  verify(graph);
  std::vector<std::string> tail;
  for (auto node = graph.nodes.end() - 10; node != graph.nodes.end(); ++node)
    tail.push_back(*node->op->name);
  // Layer 1: gradients of b2 and w2 with their updates, only then the gradient of its input; then
  // layer 0.
  EXPECT_EQ(tail,
            (std::vector<std::string>{"reduce_sum", "matmul", "scale", "scale", "matmul",
                                      "gelu_grad", "reduce_sum", "matmul", "scale", "scale"}));
  for (const Node& node : graph.nodes) {
    EXPECT_EQ(node.phase == Phase::update, node.scope == "update") << *node.op->name;
  }
}

TEST(Autodiff, seed_is_the_gradient_of_the_output) {
  GraphBuilder b(op_registry(), "seed");
  const ValueId x = b.parameter("x", f32({2}));
  const ValueId dy = b.input("dy", f32({2}));
  const ValueId y = scale(b, x, 3);
  const auto gradients = append_gradients(b, y, dy, std::vector<ValueId>{x, y});
  EXPECT_EQ(gradients.at(y), dy);
  EXPECT_EQ(evaluate(b.graph(), {{x, {0, 0}}, {dy, {1, -2}}}).at(gradients.at(x)),
            (std::vector<double>{3, -6}));
}

TEST(Autodiff, integers_cut_the_path) {
  GraphBuilder b(op_registry(), "cut");
  const ValueId x = b.parameter("x", f32({2}));
  const ValueId y = sum_squares(b, mul(b, x, cast(b, greater(b, x, fill(b, 0, {})), DType::f32)));
  const auto gradients = append_gradients(b, y, kNone, std::vector<ValueId>{x});
  EXPECT_EQ(evaluate(b.graph(), {{x, {3, -1}}}).at(gradients.at(x)), (std::vector<double>{6, 0}));
}

void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code));
    EXPECT_STREQ(error.what(), text.c_str());
  }
}

TEST(Autodiff, wrong_requests_are_refused) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.parameter("x", f32({2}));
  const ValueId ids = b.input("ids", {DType::i32, {2}});
  const ValueId dy = b.input("dy", f32({3}));
  const ValueId y = exp(b, x);
  const std::vector<ValueId> wrt = {x};
  expect_error(ErrorCode::invalid_graph, "[g] gradients: an output of type f32[2] needs a seed",
               [&] { append_gradients(b, y, kNone, wrt); });
  expect_error(ErrorCode::invalid_graph, "[g] gradients: the seed must be a value of type f32[2]",
               [&] { append_gradients(b, y, dy, wrt); });
  expect_error(ErrorCode::invalid_graph, "[g] gradients: the output is not a value of this graph",
               [&] { append_gradients(b, ValueId(99), kNone, wrt); });
  expect_error(ErrorCode::invalid_graph, "[g] gradients: the output is i32[2], not floating-point",
               [&] { append_gradients(b, ids, kNone, wrt); });
  expect_error(ErrorCode::invalid_graph, "[g] gradients: 'ids' is i32[2] and has no gradient",
               [&] { append_gradients(b, y, x, std::vector<ValueId>{ids}); });
  expect_error(ErrorCode::invalid_graph,
               "[g] gradients: a value to differentiate by is not of this graph",
               [&] { append_gradients(b, y, x, std::vector<ValueId>{kNone}); });
}

TEST(Autodiff, an_op_without_gradient_on_the_path_is_named) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.parameter("x", f32({2}));
  ValueId y = kNone;
  {
    const ScopeGuard scope(b, "head");
    y = gelu_grad(b, x, x);
  }
  expect_error(ErrorCode::unsupported,
               "[%1 head/gelu_grad] op gelu_grad has no gradient: second derivatives are not built",
               [&] { append_gradients(b, y, x, std::vector<ValueId>{x}); });
}

}  // namespace
}  // namespace snug::autodiff
