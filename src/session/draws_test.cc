// SPDX-License-Identifier: Apache-2.0
// What a network of a caller's draws follows neither the budget nor the order in which the compiler
// evaluates operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/philox.h"
#include "io/atomic_folder.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "session/testing.h"
#include "snug/custom_op.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 6;

struct Data {
  Data() {
    for (size_t i = 0; i < kRows * kWidth; ++i)
      x.push_back(0.25F * static_cast<float>(i * 7 % 11) - 1);
  }
  [[nodiscard]] Rows rows() const {
    Rows all(kRows);
    all.add("x", std::span(x));
    return all;
  }
  std::vector<float> x;
};

SessionOptions options_of(int64_t micro_batch) {
  return {.batch_rows = kRows,
          .memory = parse_memory("8MiB"),
          .micro_batch_size = micro_batch,
          .optim = "sgd",
          .learning_rate = 0.1,
          .threads = 1};
}

double loss_after(const Network& network, const SessionOptions& options, int updates = 3) {
  Session session(network, options);
  double loss = 0;
  for (int i = 0; i < updates; ++i) loss = session.step(Data().rows()).loss;
  return loss;
}

Network network_of(const std::function<Tensor(NetworkBuilder&, const Tensor&)>& part) {
  return {"draws", [part](NetworkBuilder& b) {
            const Tensor y = part(b, linear(b, "in", b.input("x", {kWidth}), kWidth));
            b.minimize(b.weighted_mean(y * y));
          }};
}

TEST(Draws, what_has_no_rows_draws_once_for_all_micro_batches) {
  using B = NetworkBuilder;
  const std::vector<std::function<Tensor(B&, const Tensor&)>> parts = {
      [](B& b, const Tensor& x) {
        return x + dropout(b.parameter("place", {1, kWidth}, InitRule::normal(1)), 0.5);
      },
      [](B& b, const Tensor& x) {
        return x * dropout(b.parameter("w", {kWidth}, InitRule::ones()), 0.5);
      },
      [](B& b, const Tensor& x) {
        return x * dropout(fill(b, 1, {1, kWidth}), 0.5);
      },
      // As many as rows may be in a micro-batch, which is no reason to take them for rows.
      [](B& b, const Tensor& x) {
        const Tensor table = dropout(b.parameter("table", {4, kWidth}, InitRule::ones()), 0.5);
        return x * reduce_sum(table, {0}, true);
      },
      // A mask for each row, of a constant.
      [](B& b, const Tensor& x) {
        return x * dropout(fill(b, 1, {b.rows(), kWidth}), 0.5);
      },
      [](B& b, const Tensor& x) {
        const Tensor place = b.parameter("place", {kWidth}, InitRule::normal(1));
        return x + dropout(broadcast_to(place, {b.rows(), kWidth}), 0.5);
      },
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const Network network = network_of(parts[i]);
    const double wanted = loss_after(network, options_of(kRows));
    for (const int64_t micro_batch : {4, 2, 1})
      EXPECT_NEAR(loss_after(network, options_of(micro_batch)), wanted, 1e-5) << i;
  }
}

/// Hands out its keys, and passes x on.
struct KeyReader {
  std::shared_ptr<std::vector<std::vector<int64_t>>> seen =
      std::make_shared<std::vector<std::vector<int64_t>>>();

  [[nodiscard]] std::shared_ptr<const CustomOp> op() const {
    CustomOp op;
    op.name = "noted";
    op.inputs = {"x", "key"};
    op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector{in[0]}; };
    op.run = [seen = seen](const OpCall& call) {
      const auto* key = reinterpret_cast<const int64_t*>(call.inputs[1]);
      seen->push_back({key, key + 3});
      std::ranges::copy(call.input<float>(0), call.output<float>().begin());
    };
    op.gradient = [](const GradientCall& call) { return std::vector{call.gradients[0], Tensor()}; };
    return std::make_shared<const CustomOp>(std::move(op));
  }
};

// The keys of one step behind the rehearsal of the session, without repetitions.
std::set<std::vector<int64_t>> keys_of(const Network& network, const KeyReader& reader,
                                       const SessionOptions& options) {
  Session session(network, options);
  reader.seen->clear();
  (void)session.step(Data().rows());
  return {reader.seen->begin(), reader.seen->end()};
}

TEST(Draws, every_key_of_an_op_of_ones_own_is_another_and_documented) {
  const KeyReader reader;
  Network network("keys", [](NetworkBuilder& b) {
    Tensor y = dropout(linear(b, "in", b.input("x", {kWidth}), kWidth), 0.1);
    for (int i = 0; i < 3 && b.training(); ++i) y = b.op1("noted", {y, b.random_key()});
    b.minimize(b.weighted_mean(y * y));
  });
  network.add(reader.op());
  std::set<std::vector<int64_t>> wanted;
  for (const int64_t first_row : {0, 4}) {
    for (uint32_t k = 0; k < 3; ++k) {
      const PhiloxCounter words = philox4x32({k, 0, 0, 1}, 42);
      const auto derived = static_cast<int64_t>((uint64_t{words[1]} << 32 | words[0]) >> 1);
      wanted.insert({k == 0 ? 42 : derived, 0, first_row});
    }
  }
  EXPECT_EQ(keys_of(network, reader, options_of(4)), wanted);
}

TEST(Draws, a_key_without_rows_is_drawn_from_in_one_piece) {
  const KeyReader reader;
  Network network = network_of([](NetworkBuilder& b, const Tensor& x) {
    const Tensor w = b.parameter("w", {kWidth}, InitRule::ones());
    return b.training() ? x * b.op1("noted", {w, b.random_key()}) : x * w;
  });
  network.add(reader.op());
  const PlanReport plan = plan_network(network, options_of(0));
  EXPECT_EQ(plan.micro_batch, kRows);
  EXPECT_NE(plan.row_coupling.find("noted, which draws anew"), std::string::npos)
      << plan.row_coupling;
}

// The same network as two compilers build it: the right operand of a sum before the left one.
Network two_ways(bool right_first) {
  return {"ways", [right_first](NetworkBuilder& b) {
            const Tensor x = linear(b, "in", b.input("x", {kWidth}), kWidth);
            const auto part = [&](const std::string& name, double rate) {
              return dropout(tanh(linear(b, name, x, kWidth)), rate);
            };
            Tensor left;
            Tensor right;
            if (right_first) right = part("right", 0.4);
            left = part("left", 0.4);
            if (!right_first) right = part("right", 0.4);
            const Tensor y = left + 2.0 * right;
            b.minimize(b.weighted_mean(y * y));
          }};
}

TEST(Draws, numbers_do_not_follow_the_order_of_evaluation) {
  SessionOptions options = options_of(4);
  EXPECT_EQ(loss_after(two_ways(true), options), loss_after(two_ways(false), options));
  options.lora = {.match = {"left.weight", "right.weight"}, .r = 2, .dropout = 0.3};
  EXPECT_EQ(loss_after(two_ways(true), options), loss_after(two_ways(false), options));
  options.draw_numbering = DrawNumbering::building;
  EXPECT_NE(loss_after(two_ways(true), options), loss_after(two_ways(false), options));
}

TEST(Draws, statements_one_after_the_other_keep_the_numbers_that_they_had) {
  const Network network = network_of([](NetworkBuilder& b, Tensor x) {
    for (const char* name : {"a", "b", "c"}) {
      const Tensor h = dropout(tanh(linear(b, name, x, kWidth)), 0.3);
      x = x + dropout(linear(b, std::string(name) + "2", h, kWidth), 0.3);
    }
    return x;
  });
  SessionOptions options = options_of(4);
  const double by_operands = loss_after(network, options);
  options.draw_numbering = DrawNumbering::building;
  EXPECT_EQ(loss_after(network, options), by_operands);
}

TEST(Draws, a_checkpoint_says_how_they_are_numbered_and_an_older_one_goes_on_as_it_began) {
  const io::TestFolder folder;
  const std::string file = folder / "saved/session.json";
  for (const DrawNumbering draws : {DrawNumbering::operands, DrawNumbering::building}) {
    SessionOptions options = options_of(4);
    options.draw_numbering = draws;
    Session session(two_ways(true), options);
    (void)session.step(Data().rows());
    session.save(folder / "saved");
    std::string text = io::read_all(file, 1 << 20);
    const std::string said = draws == DrawNumbering::operands ? "operands" : "building";
    const std::string line = " \"draw_numbering\": \"" + said + "\",\n";
    ASSERT_NE(text.find(line), std::string::npos) << text;
    if (draws == DrawNumbering::building) {  // as an older version wrote it
      text.erase(text.find(line), line.size());
      io::AtomicFolder older(folder / "older");
      for (const char* name : {"model.safetensors", "optimizer.safetensors"})
        (void)io::copy_file(folder / "saved/" + name, older.file(name));
      older.write("session.json", text);
      older.commit();
    }
    const double wanted = session.step(Data().rows()).loss;
    Session resumed = Session::resume(
        two_ways(true), folder / (draws == DrawNumbering::operands ? "saved" : "older"),
        options_of(4));
    EXPECT_EQ(resumed.step(Data().rows()).loss, wanted) << said;
    EXPECT_EQ(bytes_of(resumed), bytes_of(session)) << said;
  }
}

// One judge for what is real and what is not; either part may be built first.
Network shared_judge(bool owner_first, const InitRule& of_sharer = InitRule::normal(1)) {
  return {"judge", [=](NetworkBuilder& b) {
            const Tensor x = b.input("x", {kWidth});
            const auto judge = [&](const Tensor& of, Weights weights) {
              const Scope scope(b, "judge", weights);
              const InitRule rule = weights == Weights::own ? InitRule::normal(1) : of_sharer;
              return of * b.parameter("w", {kWidth}, rule);
            };
            Tensor own;
            Tensor shared;
            if (owner_first) own = judge(x, Weights::own);
            shared = judge(2.0 * x, Weights::shared);
            if (!owner_first) own = judge(x, Weights::own);
            const Tensor y = tanh(own) - tanh(shared);
            b.minimize(b.weighted_mean(y * y));
          }};
}

TEST(Draws, a_weight_may_be_shared_before_it_is_had) {
  EXPECT_EQ(loss_after(shared_judge(true), options_of(4)),
            loss_after(shared_judge(false), options_of(4)));
  // What it begins with is its owner's affair.
  EXPECT_EQ(loss_after(shared_judge(true, InitRule::ones()), options_of(4)),
            loss_after(shared_judge(false, InitRule::ones()), options_of(4)));
  EXPECT_EQ(loss_after(shared_judge(true, InitRule::ones()), options_of(4)),
            loss_after(shared_judge(true), options_of(4)));
  const Network twice("twice", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kWidth});
    Tensor y = x;
    for (int i = 0; i < 2; ++i) y = y * b.parameter("w", {kWidth}, InitRule::ones());
    b.minimize(b.weighted_mean(y));
  });
  EXPECT_NE(refusal([&] { (void)plan_network(twice, options_of(4)); }, ErrorCode::invalid_graph)
                .find("cannot be called 'w'"),
            std::string::npos);
  const Network unowned("unowned", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kWidth});
    Tensor y = x;
    for (const InitRule& rule : {InitRule::ones(), InitRule::zeros()}) {
      const Scope scope(b, "s", Weights::shared);
      y = y * b.parameter("w", {kWidth}, rule);
    }
    b.minimize(b.weighted_mean(y));
  });
  EXPECT_NE(refusal([&] { (void)plan_network(unowned, options_of(4)); }, ErrorCode::invalid_graph)
                .find("share the weight 's.w' give it different initial values"),
            std::string::npos);
}

TEST(Draws, a_weight_that_is_shared_with_no_part_is_said) {
  const auto said_of = [](const std::string& second) {
    const Network network("scopes", [second](NetworkBuilder& b) {
      const Tensor x = b.input("x", {kWidth});
      const auto part = [&](const std::string& name, const Tensor& of) {
        const Scope scope(b, name, Weights::shared);
        return linear(b, "map", of, kWidth);
      };
      const Tensor y = part(second, tanh(part("judge", x)));
      b.minimize(b.weighted_mean(y * y));
    });
    std::vector<std::string> said;
    SessionOptions options = options_of(4);
    options.on_message = [&](const std::string& text) { said.push_back(text); };
    (void)plan_network(network, options);
    return said;
  };
  EXPECT_TRUE(said_of("judge").empty());
  const std::vector<std::string> said = said_of("jugde");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].find("warning: 4 weights are of a part with Weights::shared, and no other part "
                         "has them"),
            0U)
      << said[0];
  EXPECT_NE(said[0].find("'judge.map.bias', 'judge.map.weight', 'jugde.map.bias'"),
            std::string::npos)
      << said[0];
}

}  // namespace
}  // namespace snug::session
