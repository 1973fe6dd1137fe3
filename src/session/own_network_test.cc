// SPDX-License-Identifier: Apache-2.0
// What a network of a caller's may do that would let its result follow the budget: refused, or kept
// in one piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "session/testing.h"
#include "snug/custom_op.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kWidth = 32;

struct Data {
  Data() {
    for (size_t i = 0; i < kRows * kWidth; ++i)
      x.push_back(static_cast<float>(i * 7919 % 13) / 6 - 1);
  }
  [[nodiscard]] Rows rows() const {
    Rows all(kRows);
    all.add("x", std::span(x));
    return all;
  }
  std::vector<float> x;
};

SessionOptions options_of() {
  return {.batch_rows = kRows, .memory = parse_memory("8MiB"), .threads = 1};
}

Network centred_in_evaluation() {
  return {"centred", [](NetworkBuilder& b) {
            const Tensor y = linear(b, "l", relu(linear(b, "h", b.input("x", {kWidth}), 256)), 4);
            const Tensor z = b.training() ? y : y - reduce_mean(y, {0}, true);
            b.output("z", z);
            b.minimize(b.weighted_mean(z * z));
          }};
}

TEST(OwnNetwork, a_shape_stays_while_ops_are_added) {
  // Operands may be evaluated in any order, and each op may move all values.
  const Network network("shapes", [](NetworkBuilder& b) {
    Tensor y = linear(b, "l", b.input("x", {kWidth}), 4);
    for (int i = 0; i < 200; ++i) {
      const Shape& shape = y.shape();
      y = tanh(y) - broadcast_to(reduce_mean(y, {1}, true), y.shape());
      EXPECT_EQ(shape, (Shape{b.rows(), 4}));
    }
    b.minimize(b.weighted_mean(y * y));
  });
  EXPECT_GT(plan_network(network, options_of()).arena_bytes, 0);
}

TEST(OwnNetwork, what_couples_rows_in_evaluation_alone_is_not_split) {
  const Network network = centred_in_evaluation();
  const PlanReport report = plan_network(network, options_of());
  EXPECT_EQ(report.micro_batch, kRows);
  EXPECT_NE(report.row_coupling.find("reduce_mean, in evaluation"), std::string::npos)
      << report.row_coupling;
  SessionOptions options = options_of();
  options.memory = parse_memory(std::to_string(report.smallest_budget_bytes));
  EXPECT_EQ(plan_network(network, options).micro_batch, kRows);
  options = options_of();
  options.micro_batch_size = 4;
  const std::string text = refusal([&] { (void)plan_network(network, options); });
  EXPECT_NE(text.find("in evaluation, and a micro-batch of 4 is not the batch of 16"),
            std::string::npos)
      << text;
  options.micro_batch_size = 0;
  options.only_evaluation = true;
  EXPECT_EQ(plan_network(network, options).micro_batch, kRows);
  // Asked for, it is the caller's affair.
  options = options_of();
  options.micro_batch_size = 4;
  options.allow_coupled_split = true;
  EXPECT_NE(Session(network, options).evaluate(Data().rows()).loss,
            Session(network, options_of()).evaluate(Data().rows()).loss);
}

TEST(OwnNetwork, attributes_that_only_few_rows_change_are_found_when_those_are_built) {
  // No number of rows that is looked at first is below 3.
  const Network network("heads", [](NetworkBuilder& b) {
    const Tensor x = reshape(linear(b, "l", b.input("x", {kWidth}), 8), {b.rows(), 2, 4});
    const Tensor y = attention(x, x, x, {}, {.heads = b.rows() > 2 ? 1 : 2});
    b.minimize(b.weighted_mean(y * y));
  });
  SessionOptions options = options_of();
  for (const int64_t micro_batch : {0, 2}) {
    options.micro_batch_size = micro_batch;
    const std::string text =
        refusal([&] { (void)plan_network(network, options); }, ErrorCode::invalid_graph);
    EXPECT_NE(text.find("it computes with the number of its rows: for "), std::string::npos)
        << text;
    EXPECT_NE(text.find("attention is another op, or has other attributes"), std::string::npos)
        << text;
  }
}

Network normalised(const Shape& row) {
  return {"normalised", [row](NetworkBuilder& b) {
            Tensor x = linear(b, "l", b.input("x", {kWidth}), 8);
            if (!row.empty()) x = reshape(x, {b.rows(), row[0], 8 / row[0]});
            const Tensor y = batch_norm(b, "bn", x);
            b.minimize(b.weighted_mean(y * y));
          }};
}

TEST(OwnNetwork, batch_statistics_of_one_value_are_refused_and_no_split) {
  SessionOptions options = options_of();
  options.allow_coupled_split = true;
  options.micro_batch_size = 1;
  std::string text = refusal([&] { (void)plan_network(normalised({}), options); });
  EXPECT_NE(text.find("[micro_batch_size] where rows come singly, bn/batch_norm normalises"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("bn/batch_norm normalises one value a channel"), std::string::npos) << text;
  EXPECT_NE(text.find("hint: give micro-batches of 2 rows or more"), std::string::npos) << text;
  EXPECT_EQ(plan_network(normalised({2}), options).micro_batch, 1);  // two places a row
  options.micro_batch_size = 0;
  options.memory =
      parse_memory(std::to_string(plan_network(normalised({}), options).smallest_budget_bytes));
  EXPECT_GT(plan_network(normalised({}), options).micro_batch, 1);
  options = options_of();
  options.batch_rows = 1;
  text = refusal([&] { (void)plan_network(normalised({}), options); });
  EXPECT_NE(text.find("[batch_rows] where rows come singly, bn/batch_norm normalises"),
            std::string::npos)
      << text;
  options.only_evaluation = true;  // which takes the running statistics
  EXPECT_EQ(plan_network(normalised({}), options).micro_batch, 1);
}

/// Multiplies by a number that a counter moves, or leaves the last element unwritten.
Network with_own_op(bool is_pure, bool writes_all) {
  CustomOp op;
  op.name = "odd";
  op.inputs = {"x"};
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector{in[0]}; };
  const auto calls = std::make_shared<int>(0);
  op.run = [=](const OpCall& call) {
    const float factor = is_pure ? 1.0F : static_cast<float>(++*calls);
    const std::span<const float> x = call.input<float>(0);
    const std::span<float> y = call.output<float>();
    for (size_t i = 0; i + (writes_all ? 0 : 1) < x.size(); ++i) y[i] = x[i] * factor;
  };
  op.gradient = [](const GradientCall& call) { return std::vector{call.gradients[0]}; };
  Network network("own", [](NetworkBuilder& b) {
    const Scope scope(b, "part");
    const Tensor y = b.op1("odd", {linear(b, "l", b.input("x", {kWidth}), 8)});
    b.output("y", y);
    b.minimize(b.weighted_mean(y * y));
  });
  network.add(std::make_shared<const CustomOp>(std::move(op)));
  return network;
}

TEST(OwnNetwork, ops_of_ones_own_run_twice_where_they_are_looked_at) {
  SessionOptions options = options_of();
  const double wanted = Session(with_own_op(true, true), options).step(Data().rows()).loss;
  (void)Session(with_own_op(false, true), options).step(Data().rows());  // nobody looks
  options.repeats_own_ops = true;
  EXPECT_EQ(Session(with_own_op(true, true), options).step(Data().rows()).loss, wanted);
  for (const auto& [is_pure, writes_all] : {std::pair(false, true), std::pair(true, false)}) {
    const std::string text = refusal([&, pure = is_pure, all = writes_all] {
      Session session(with_own_op(pure, all), options);
      (void)session.step(Data().rows());
    });
    EXPECT_NE(text.find("part/odd] the op gives other bytes when it runs again"), std::string::npos)
        << text;
  }
  // With poisoning they are looked at, too.
  Session poisoned(with_own_op(false, true), options_of());
  (void)poisoned.evaluate(Data().rows());
  poisoned.set_poisoning(true);
  EXPECT_NE(refusal([&] { (void)poisoned.evaluate(Data().rows()); }).find("part/odd]"),
            std::string::npos);
}

/// Two layers with an op between that copies, and whose gradient fails where it is told to.
Network with_fragile_gradient(const std::shared_ptr<bool>& fails) {
  const auto copying = [](const char* name, const std::function<void()>& before) {
    CustomOp op;
    op.name = name;
    op.inputs = {"x"};
    op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector{in[0]}; };
    op.run = [before](const OpCall& call) {
      before();
      std::ranges::copy(call.input<float>(0), call.output<float>().begin());
    };
    return op;
  };
  Network network("fragile", [](NetworkBuilder& b) {
    const Tensor x = b.op1("copy", {linear(b, "first", b.input("x", {kWidth}), 8)});
    const Tensor y = linear(b, "second", x, 4);
    b.output("y", y);
    b.minimize(b.weighted_mean(y * y));
  });
  CustomOp op = copying("copy", [] {});
  op.gradient = [](const GradientCall& call) {
    return std::vector{call.builder.op1("copy_gradient", {call.gradients[0]})};
  };
  network.add(std::make_shared<const CustomOp>(std::move(op)));
  network.add(std::make_shared<const CustomOp>(copying("copy_gradient", [fails] {
    if (*fails) throw Error(ErrorCode::bad_data, "the caller", "told to fail");
  })));
  return network;
}

std::map<std::string, std::vector<float>> values_of(const Session& session) {
  std::map<std::string, std::vector<float>> values;
  for (const TensorInfo& tensor : session.tensors())
    values[tensor.name] = session.read(tensor.name);
  return values;
}

void expect_failure(const std::function<void()>& call) {
  const std::string text = refusal(call, ErrorCode::bad_data);
  EXPECT_NE(text.find("copy_gradient] the kernel failed: bad_data"), std::string::npos) << text;
}

TEST(OwnNetwork, an_update_that_fails_half_way_is_not_gone_on_with) {
  const auto fails = std::make_shared<bool>(false);
  const Network network = with_fragile_gradient(fails);
  const Data data;
  SessionOptions options = options_of();
  // The first of two micro-batches would fail before weights move.
  options.micro_batch_size = static_cast<int>(options.batch_rows);
  Session session(network, options);
  (void)session.step(data.rows());
  const auto before = values_of(session);
  *fails = true;
  expect_failure([&] { (void)session.step(data.rows(), {.is_skipped = true}); });
  EXPECT_EQ(values_of(session), before);  // a skipped update moves nothing
  expect_failure([&] { (void)session.step(data.rows()); });
  *fails = false;
  EXPECT_NE(values_of(session), before);
  const std::string folder = testing::TempDir() + "half";
  for (const std::function<void()>& use : std::initializer_list<std::function<void()>>{
           [&] { (void)session.step(data.rows()); }, [&] { (void)session.evaluate(data.rows()); },
           [&] { session.predict(data.rows(), [](const OutputRows&) {}); },
           [&] { session.save(folder); }}) {
    const std::string text = refusal(use);
    EXPECT_NE(text.find("[session] its last update failed when some weights had moved"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("then set_counts"), std::string::npos) << text;
  }
  for (const auto& [name, values] : before) session.write(name, values);
  session.set_counts({.drawn = 1, .schedule = 1, .optimizer = 1});
  Session other(network, options);
  (void)other.step(data.rows());
  EXPECT_EQ(session.step(data.rows()).loss, other.step(data.rows()).loss);
  EXPECT_EQ(values_of(session), values_of(other));
}

TEST(OwnNetwork, an_update_that_fails_before_weights_move_leaves_them) {
  const Data data;
  SessionOptions clipped = options_of();
  clipped.max_grad_norm = 1;
  SessionOptions split = options_of();
  split.micro_batch_size = 4;
  SessionOptions twice = clipped;
  const Network whole = with_fragile_gradient(std::make_shared<bool>(false));
  twice.memory = parse_memory(std::to_string(plan_network(whole, clipped).smallest_budget_bytes));
  for (const SessionOptions& options : {clipped, split, twice}) {
    const auto fails = std::make_shared<bool>(false);
    const Network network = with_fragile_gradient(fails);
    Session session(network, options);
    Session other(network, options);
    (void)session.step(data.rows());
    (void)other.step(data.rows());
    const auto before = values_of(session);
    *fails = true;
    expect_failure([&] { (void)session.step(data.rows()); });
    *fails = false;
    EXPECT_EQ(values_of(session), before);
    EXPECT_EQ(session.updates(), 1);
    EXPECT_EQ(session.step(data.rows()).loss, other.step(data.rows()).loss);
    EXPECT_EQ(values_of(session), values_of(other));
  }
}

// The mean of what a row has, of (rows, length).
Network pooled(const std::function<Tensor(NetworkBuilder&, const Tensor&, const Tensor&)>& pool) {
  return {"pooled", [pool](NetworkBuilder& b) {
            const Tensor ids = b.input("ids", {b.length()}, DType::i32);
            const Tensor mask = b.input("mask", {b.length()});
            const Tensor mean = pool(b, embedding(b, "words", ids, 10, 4),
                                     reshape(mask, {b.rows(), b.length(), 1}));
            const Tensor y = linear(b, "out", mean, 2);
            b.output("y", y);
            b.minimize(cross_entropy(b, y, b.input("label", {}, DType::i32)));
          }};
}

TEST(OwnNetwork, a_mean_over_padded_places_is_refused_unless_it_may_count_them) {
  SessionOptions options = options_of();
  options.lengths = {8, 16};
  const Network plain =
      pooled([](NetworkBuilder&, const Tensor& x, const Tensor&) { return reduce_mean(x, {1}); });
  std::string text = refusal([&] { (void)plan_network(plain, options); }, ErrorCode::invalid_graph);
  EXPECT_NE(text.find("reduce_mean is the mean of 16 values, and of 8, where rows have the length "
                      "16, and where 8: it counts what fills rows up"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("hint: divide a sum by that of a mask"), std::string::npos) << text;
  const Network scaled = pooled([](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
    return (1.0 / static_cast<double>(b.length())) * reduce_sum(x * mask, {1});
  });
  text = refusal([&] { (void)plan_network(scaled, options); }, ErrorCode::invalid_graph);
  EXPECT_NE(text.find("factor of %"), std::string::npos) << text;
  const Network in_evaluation = pooled([](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
    const Tensor masked = reduce_sum(x * mask, {1}) / reduce_sum(mask, {1});
    return b.training() ? masked : reduce_mean(x, {1});
  });
  (void)refusal([&] { (void)plan_network(in_evaluation, options); }, ErrorCode::invalid_graph);
  // What is right, what is said, and what has one length only.
  const Network masked = pooled([](NetworkBuilder&, const Tensor& x, const Tensor& mask) {
    return reduce_sum(x * mask, {1}) / reduce_sum(mask, {1});
  });
  EXPECT_GT(plan_network(masked, options).arena_bytes, 0);
  const Network said = pooled([](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
    b.counts_padding("two means over the same places are divided");
    return reduce_mean(x * mask, {1}) / reduce_mean(mask, {1});
  });
  EXPECT_GT(plan_network(said, options).arena_bytes, 0);
  options.lengths = {16};
  EXPECT_GT(plan_network(plain, options).arena_bytes, 0);
}

TEST(OwnNetwork, sums_maxima_and_products_over_padded_places_are_refused_without_a_mask) {
  SessionOptions options = options_of();
  options.lengths = {8, 16};
  using Pool = std::function<Tensor(NetworkBuilder&, const Tensor&, const Tensor&)>;
  const auto scores = [](NetworkBuilder& b, const Tensor& x) {
    return reshape(linear(b, "score", x, 1), {b.rows(), 1, b.length()});
  };
  const auto flat = [](NetworkBuilder& b, const Tensor& x) { return reshape(x, {b.rows(), 4}); };
  const std::vector<std::pair<std::string, Pool>> refused = {
      {"reduce_sum is over 16 places, and 8",
       [](NetworkBuilder&, const Tensor& x, const Tensor&) { return reduce_sum(x, {1}); }},
      {"reduce_max is over 16 places, and 8",
       [](NetworkBuilder&, const Tensor& x, const Tensor&) { return reduce_max(x, {1}); }},
      {"softmax is over 16 places, and 8",
       [=](NetworkBuilder& b, const Tensor& x, const Tensor&) {
         return flat(b, matmul(softmax(scores(b, x)), x));
       }},
      {"matmul sums up products over 16 places, and 8",
       [=](NetworkBuilder& b, const Tensor& x, const Tensor&) {
         return flat(b, matmul(scores(b, x), x));
       }},
      {"slice takes place 15 of rows that are filled up, and 7",
       [=](NetworkBuilder& b, const Tensor& x, const Tensor&) {
         return flat(b, slice(x, 1, b.length() - 1, b.length()));
       }},
      // A place looks at its neighbour, of which there is none behind the last.
      {"reduce_sum is over 16 places, and 8",
       [](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
         return reduce_sum(pad(slice(x, 1, 1, b.length()), 1, 0, 1) * mask, {1});
       }}};
  for (const auto& each : refused) {
    const std::string said = refusal([&] { (void)plan_network(pooled(each.second), options); },
                                     ErrorCode::invalid_graph);
    const auto& text = each.first;
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
  const std::vector<Pool> taken = {
      [=](NetworkBuilder& b, const Tensor& x, const Tensor&) { return flat(b, slice(x, 1, 0, 1)); },
      [](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
        return reduce_max(x + 1e9 * (mask - fill(b, 1, {1})), {1});
      },
      [=](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
        const Tensor far = 1e9 * (reshape(mask, {b.rows(), 1, b.length()}) - fill(b, 1, {1}));
        return flat(b, matmul(softmax(scores(b, x) + far), x));
      },
      [=](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
        return flat(b, matmul(reshape(mask, {b.rows(), 1, b.length()}), tanh(x)));
      },
      [](NetworkBuilder& b, const Tensor& x, const Tensor& mask) {
        const Tensor zero = fill(b, 0, {1});
        return reduce_sum(where(greater(mask, zero), exp(x), zero), {1});
      }};
  for (const Pool& pool : taken) EXPECT_GT(plan_network(pooled(pool), options).arena_bytes, 0);
}

// The mean of the words that a mask leaves, of which none is stored by itself.
Network of_summed_words(bool is_masked) {
  return {"summed", [is_masked](NetworkBuilder& b) {
            const Tensor ids = b.input("ids", {b.length()}, DType::i32);
            const Tensor mask = b.input("mask", {b.length()});
            const Tensor weights = is_masked ? mask : mask + fill(b, 1, {1});
            const Tensor sum = embedding_sum(b, "words", ids, weights, 10, 4);
            const Tensor y = linear(b, "out", sum / reduce_sum(mask, {1}, true), 2);
            b.output("y", y);
            b.minimize(cross_entropy(b, y, b.input("label", {}, DType::i32)));
          }};
}

TEST(OwnNetwork, sums_of_words_over_padded_places_are_refused_without_a_mask) {
  SessionOptions options = options_of();
  options.lengths = {8, 16};
  const std::string said = refusal([&] { (void)plan_network(of_summed_words(false), options); },
                                   ErrorCode::invalid_graph);
  EXPECT_NE(said.find("embedding_sum is over 16 places, and 8"), std::string::npos) << said;
  EXPECT_GT(plan_network(of_summed_words(true), options).arena_bytes, 0);
}

}  // namespace
}  // namespace snug::session
