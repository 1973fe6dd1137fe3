// SPDX-License-Identifier: Apache-2.0
// A session keeps the five promises for a network that is nobody's but the caller's.
#include "snug/session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 24;
constexpr int64_t kWidth = 10;
constexpr int64_t kClasses = 3;

// Blocks of a norm, two layers and a shortcut; classes and a second, weighted target.
Network network_of(int64_t blocks = 4, double drop = 0.1) {
  return {
      "blocks", [=](NetworkBuilder& b) {
        Tensor x = relu(linear(b, "in", b.input("x", {kWidth}), 32));
        for (int64_t i = 0; i < blocks; ++i) {
          const Scope scope(b, "block." + std::to_string(i));
          const Tensor inner = gelu(linear(b, "up", layer_norm(b, "norm", x), 64));
          x = x + dropout(linear(b, "down", inner, 32), drop);
        }
        const Tensor logits = linear(b, "classes", x, kClasses);
        b.output("logits", logits);
        const Tensor labels = b.input("label", {}, DType::i32);
        const Tensor target = b.input("target", {2});
        const Tensor weight = b.input("weight", {});
        const Tensor error = linear(b, "values", x, 2) - target;
        b.minimize(cross_entropy(b, logits, labels) + 0.5 * b.weighted_mean(error * error, weight));
      }};
}

struct Data {
  std::vector<float> x, target, weight;
  std::vector<int32_t> label;
  int64_t rows;
  explicit Data(int64_t count = kRows) : rows(count) {
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < kWidth; ++i)
        x.push_back(static_cast<float>(std::sin(1.7 * static_cast<double>(row * kWidth + i))));
      label.push_back(row % 5 == 4 ? -100 : static_cast<int32_t>(row % kClasses));
      target.push_back(static_cast<float>(row % 2));
      target.push_back(static_cast<float>(row % 3));
      weight.push_back(static_cast<float>(row % 4));
    }
  }
  [[nodiscard]] Rows all() const {
    Rows rows_of(rows);
    rows_of.add("x", std::span(x)).add("target", std::span(target));
    rows_of.add("weight", std::span(weight)).add("label", std::span(label));
    return rows_of;
  }
};

SessionOptions options_of(const std::string& memory, int64_t micro_batch = 0) {
  return {.batch_rows = kRows,
          .memory = parse_memory(memory),
          .micro_batch_size = micro_batch,
          .max_grad_norm = 1,
          .threads = 1};
}

std::vector<float> weights_of(const Session& session) {
  std::vector<float> all;
  for (const TensorInfo& tensor : session.tensors()) {
    const std::vector<float> values = session.read(tensor.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<float> trained(const Network& network, const SessionOptions& options, int updates) {
  Session session(network, options);
  const Data data;
  for (int i = 0; i < updates; ++i) (void)session.step(data.all());
  EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes) << session.plan().strategy;
  return weights_of(session);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(sum);
}

struct Folder {
  std::string path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "snug_session_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(Session, five_budgets_from_keep_all_to_the_smallest_give_equal_bits) {
  const Network network = network_of(8);
  const int64_t all = plan_network(network, options_of("1GiB", 8)).planned_peak_bytes;
  const int64_t least = plan_network(network, options_of("1GiB", 8)).smallest_budget_bytes;
  ASSERT_LT(least, all);
  const std::vector<float> wanted = trained(network, options_of("1GiB", 8), 4);
  std::set<std::string> strategies;
  for (int i = 0; i < 5; ++i) {
    const std::string budget = std::to_string(least + (all - least) * i / 4);
    strategies.insert(plan_network(network, options_of(budget, 8)).strategy);
    EXPECT_EQ(trained(network, options_of(budget, 8), 4), wanted) << budget;
  }
  EXPECT_GT(strategies.size(), 1U);
  const std::string below =
      refusal([&] { (void)plan_network(network, options_of(std::to_string(least - 4096), 8)); },
              ErrorCode::out_of_budget);
  EXPECT_NE(below.find(std::to_string(least)), std::string::npos) << below;
  EXPECT_NE(below.find("micro_batch_size = 0"), std::string::npos) << below;
}

TEST(Session, splits_agree_within_rounding_though_labels_and_weights_are_uneven) {
  const Network network = network_of(2);
  SessionOptions whole = options_of("1GiB", kRows);
  whole.optim = "sgd";
  whole.optim_args = {{"momentum", 0}};
  const std::vector<float> wanted = trained(network, whole, 1);
  for (const int64_t micro_batch : {1, 5, 7, 12}) {
    SessionOptions split = whole;
    split.micro_batch_size = micro_batch;
    EXPECT_LT(distance(trained(network, split, 1), wanted), 1e-6) << micro_batch;
  }
}

TEST(Session, goes_on_to_the_same_bits_under_another_budget) {
  const Network network = network_of();
  const Folder folder;
  const Data data;
  SessionOptions options = options_of("1GiB", 8);
  Session first(network, options);
  for (int i = 0; i < 3; ++i) (void)first.step(data.all());
  first.save(folder.path + "/saved");
  for (int i = 0; i < 3; ++i) (void)first.step(data.all());
  SessionOptions smaller = options;
  smaller.memory.bytes = plan_network(network, options).smallest_budget_bytes;
  smaller.micro_batch_size = 0;
  Session second = Session::resume(network, folder.path + "/saved", smaller);
  EXPECT_EQ(second.updates(), 3);
  for (int i = 0; i < 3; ++i) (void)second.step(data.all());
  EXPECT_EQ(weights_of(second), weights_of(first));

  smaller.learning_rate = 0.5;
  EXPECT_NE(refusal([&] { (void)Session::resume(network, folder.path + "/saved", smaller); },
                    ErrorCode::bad_config)
                .find("learning_rate"),
            std::string::npos);
  EXPECT_NE(
      refusal([&] { (void)Session::resume(network, folder.path, smaller); }, ErrorCode::bad_data)
          .find("no complete saved session"),
      std::string::npos);
}

TEST(Session, evaluates_any_number_of_rows_and_predicts_without_labels) {
  Session session(network_of(2, 0), options_of("1GiB", 5));
  const Data data(37);
  std::vector<float> logits;
  const Evaluation whole = session.evaluate(data.all(), [&](const OutputRows& out) {
    EXPECT_EQ(out.first_row * kClasses, static_cast<int64_t>(logits.size()));
    const auto values = out.values.at("logits");
    logits.insert(logits.end(), values.begin(), values.end());
  });
  EXPECT_EQ(whole.rows, 37);
  ASSERT_EQ(logits.size(), static_cast<size_t>(37 * kClasses));
  std::vector<float> again;
  Rows bare(37);
  bare.add("x", std::span(data.x));
  session.predict(bare, [&](const OutputRows& out) {
    const auto values = out.values.at("logits");
    again.insert(again.end(), values.begin(), values.end());
  });
  EXPECT_EQ(again, logits);
  EXPECT_NE(refusal([&] { (void)session.evaluate(bare); }, ErrorCode::bad_data).find("label"),
            std::string::npos);

  double cross_entropy_sum = 0;
  int64_t labels = 0;
  for (size_t row = 0; row < 37; ++row) {
    if (data.label[row] < 0) continue;
    double sum = 0;
    for (size_t c = 0; c < kClasses; ++c) sum += std::exp(static_cast<double>(logits[row * 3 + c]));
    cross_entropy_sum +=
        std::log(sum) - static_cast<double>(logits[row * 3 + static_cast<size_t>(data.label[row])]);
    ++labels;
  }
  EXPECT_GT(whole.loss, cross_entropy_sum / static_cast<double>(labels));  // the weighted part

  SessionOptions one = options_of("1GiB", kRows);
  one.learning_rate = 0;
  Session zero(network_of(2, 0), one);
  const Data batch;
  EXPECT_NEAR(zero.step(batch.all()).loss, zero.evaluate(batch.all()).loss, 1e-6);
}

// Vanishing gradients and old moments consist of them; on some processors they take a hundred times
// as long as other numbers.
TEST(Session, subnormal_numbers_are_zero_inside_and_stay_what_they_are_outside) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "subnormal numbers stay what they are";
#endif
  constexpr int64_t kMany = 4096;
  const Network doubles("doubles", [](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kMany});
    const Tensor y = x + x;
    b.output("y", y);
    b.minimize(mean_squared_error(b, linear(b, "out", y, 1), b.input("wanted", {1})));
  });
  const std::vector<float> x(static_cast<size_t>(16 * kMany), 1e-39F);
  Rows rows(16);
  rows.add("x", std::span(x));
  for (const int threads : {1, 3}) {
    SessionOptions options{.batch_rows = 16, .memory = parse_memory("64MiB")};
    options.threads = threads;
    Session session(doubles, options);
    std::vector<float> y;
    session.predict(rows, [&](const OutputRows& out) {
      const auto values = out.values.at("y");
      y.insert(y.end(), values.begin(), values.end());
    });
    EXPECT_EQ(std::count(y.begin(), y.end(), 0.0F), 16 * kMany) << threads;
  }
  volatile float subnormal = 1e-39F;
  volatile float one = 1;
  EXPECT_GT(subnormal * one, 0);
}

TEST(Session, tensors_are_read_and_written_by_name) {
  Session session(network_of(1), options_of("1GiB"));
  const std::string name = "block.0.up.bias";
  EXPECT_EQ(session.read(name), std::vector<float>(64, 0.0F));
  session.write(name, std::vector<float>(64, 0.25F));
  EXPECT_EQ(session.read(name), std::vector<float>(64, 0.25F));
  (void)refusal([&] { (void)session.read("x"); }, ErrorCode::bad_config);
  (void)refusal([&] { session.write(name, std::vector<float>(63)); }, ErrorCode::bad_config);
  (void)refusal([&] { session.write(name, std::vector<float>(64, NAN)); }, ErrorCode::numeric);
  bool has_state = false;
  for (const TensorInfo& tensor : session.tensors())
    has_state |= tensor.name == "v." + name && tensor.kind == TensorKind::optimizer_state;
  EXPECT_TRUE(has_state);
}

TEST(Session, lives_in_the_callers_memory_and_says_how_much_is_missing) {
  const Network network = network_of();
  SessionOptions options = options_of("1GiB", 8);
  const PlanReport plan = plan_network(network, options);
  const auto bytes = static_cast<size_t>(plan.planned_peak_bytes + 4096);
  const std::unique_ptr<std::byte, decltype(&std::free)> block(
      static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), &std::free);
  options.block = {block.get(), bytes};
  EXPECT_EQ(trained(network, options, 2), trained(network, options_of("1GiB", 8), 2));
  options.block = {block.get(), 4096};
  (void)refusal([&] { const Session session(network, options); }, ErrorCode::out_of_budget);
}

TEST(Session, coupled_rows_are_not_split_unless_asked) {
  const Network network("coupled", [](NetworkBuilder& b) {
    const Tensor x = batch_norm(b, "norm", linear(b, "in", b.input("x", {kWidth}), 16));
    const Tensor logits = linear(b, "out", relu(x), kClasses);
    b.output("logits", logits);
    b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
  });
  const PlanReport plan = plan_network(network, options_of("1GiB"));
  EXPECT_EQ(plan.micro_batch, kRows);
  EXPECT_NE(plan.to_text().find("coupled: the network normalises"), std::string::npos);
  SessionOptions small = options_of("1GiB");
  small.two_pass_clip = false;  // needs less than any split of so small a network
  small.memory.bytes = plan_network(network, small).smallest_budget_bytes - 4096;
  const std::string below =
      refusal([&] { (void)plan_network(network, small); }, ErrorCode::out_of_budget);
  EXPECT_NE(below.find("allow_coupled_split = true"), std::string::npos) << below;
  small.allow_coupled_split = true;
  EXPECT_LT(plan_network(network, small).micro_batch, kRows);
  Session session(network, options_of("1GiB"));
  const Data some(kRows - 1);
  Rows rows(some.rows);
  rows.add("x", std::span(some.x)).add("label", std::span(some.label));
  EXPECT_NE(refusal([&] { (void)session.step(rows); }, ErrorCode::bad_data).find("23 rows do not"),
            std::string::npos);
  EXPECT_EQ(session.evaluate(rows).rows, kRows - 1);
  SessionOptions given = options_of("1GiB", 8);
  EXPECT_NE(refusal([&] { (void)plan_network(network, given); }, ErrorCode::bad_config)
                .find("normalises by the statistics of its batch"),
            std::string::npos);
}

TEST(Session, shared_scopes_are_one_weight_with_the_sum_of_both_gradients) {
  const auto towers = [](bool shared) {
    return Network("towers", [shared](NetworkBuilder& b) {
      const auto tower = [&](const std::string& scope, const Tensor& x) {
        const Scope in(b, scope, shared ? Weights::shared : Weights::own);
        return linear(b, "fc", x, 4);
      };
      const Tensor a = tower("tower", b.input("a", {kWidth}));
      const Tensor c = tower(shared ? "tower" : "other", b.input("c", {kWidth}));
      b.output("a_out", a);
      b.minimize(mean_squared_error(b, a, c));
    });
  };
  EXPECT_EQ(Session(towers(true), options_of("1GiB")).plan().parameters, kWidth * 4 + 4);
  EXPECT_EQ(Session(towers(false), options_of("1GiB")).plan().parameters, 2 * (kWidth * 4 + 4));
  SessionOptions options = options_of("1GiB", 8);
  options.optim = "sgd";
  options.optim_args = {{"momentum", 0}};
  options.max_grad_norm = 0;
  options.learning_rate = 0.5;
  Session session(towers(true), options);
  const std::vector<float> before = session.read("tower.fc.weight");
  const Data data;
  std::vector<float> other(data.x.rbegin(), data.x.rend());
  Rows rows(kRows);
  rows.add("a", std::span(data.x)).add("c", std::span<const float>(other));
  (void)session.step(rows);
  const std::vector<float> after = session.read("tower.fc.weight");
  for (size_t o = 0; o < 4; ++o) {
    for (size_t i = 0; i < kWidth; ++i) {
      double gradient = 0;  // of mean((W (a - c))^2)
      for (size_t row = 0; row < kRows; ++row) {
        double y = 0;
        for (size_t k = 0; k < kWidth; ++k)
          y += static_cast<double>(before[o * kWidth + k]) *
               (static_cast<double>(data.x[row * kWidth + k]) -
                static_cast<double>(other[row * kWidth + k]));
        gradient += 2 * y *
                    (static_cast<double>(data.x[row * kWidth + i]) -
                     static_cast<double>(other[row * kWidth + i])) /
                    static_cast<double>(kRows * 4);
      }
      EXPECT_NEAR(static_cast<double>(after[o * kWidth + i]),
                  static_cast<double>(before[o * kWidth + i]) - 0.5 * gradient, 1e-5);
    }
  }
}

// An auxiliary loss: its layer is not there in evaluation, and is trained like any other.
TEST(Session, weights_of_training_alone_move_alike_in_every_split) {
  const Network network("deep", [](NetworkBuilder& b) {
    const Tensor x = gelu(linear(b, "in", b.input("x", {kWidth}), 8));
    b.output("y", x);
    Tensor loss = b.weighted_mean(x * x);
    if (b.training()) loss = loss + 0.1 * b.weighted_mean(tanh(linear(b, "aux", x, 3)));
    b.minimize(loss);
  });
  const Data data;
  Rows rows(kRows);
  rows.add("x", std::span(data.x));
  const auto run = [&](int64_t micro_batch) {
    SessionOptions options = options_of("1GiB", micro_batch);
    options.param_groups = {{.match = "aux.*", .learning_rate = 0.1, .weight_decay = {}}};
    Session session(network, options);
    EXPECT_TRUE(std::ranges::all_of(session.tensors(), [](const TensorInfo& tensor) {
      return tensor.kind != TensorKind::parameter || tensor.is_trained;
    }));
    for (int i = 0; i < 3; ++i) (void)session.step(rows);
    return session.read("aux.weight");
  };
  const std::vector<float> whole = run(kRows);
  for (const int64_t micro_batch : {8, 5}) {
    const std::vector<float> split = run(micro_batch);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(split[i], whole[i], 1e-5) << i;
  }
  SessionOptions options{.batch_rows = kRows, .threads = 1};
  options.only_gradients = true;
  EXPECT_EQ(Session(network, options).gradients(rows).of.count("aux.weight"), 1U);
}

TEST(Session, rows_of_several_lengths_run_in_the_shortest_program_that_holds_them) {
  const Network network("lengths", [](NetworkBuilder& b) {
    const Tensor ids = b.input("ids", {b.length()}, DType::i32);
    const Tensor mask = b.input("mask", {b.length()}, DType::boolean);
    const Tensor x = embedding(b, "words", ids, 20, 8);
    const Tensor there = reshape(cast(mask, DType::f32), {b.rows(), b.length(), 1});
    const Tensor logits = linear(b, "out", reduce_sum(x * there, {1}), kClasses);
    b.output("logits", logits);
    b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
  });
  SessionOptions options = options_of("1GiB", 8);
  const auto run = [&](const std::vector<Lengths>& lengths) {
    options.lengths = lengths;
    Session session(network, options);
    std::vector<int32_t> ids, label;
    std::vector<uint8_t> mask;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t t = 0; t < 5; ++t) {
        ids.push_back(static_cast<int32_t>((row + t) % 20));
        mask.push_back(t <= row % 5 ? 1 : 0);
      }
      label.push_back(static_cast<int32_t>(row % kClasses));
    }
    Rows rows(kRows, 5);
    rows.add("ids", std::span<const int32_t>(ids)).add("label", std::span<const int32_t>(label));
    rows.add("mask", std::span<const uint8_t>(mask));
    double loss = 0;
    for (int i = 0; i < 3; ++i) loss = session.step(rows).loss;
    Rows longer(kRows, 17);
    EXPECT_NE(refusal([&] { (void)session.step(longer); }, ErrorCode::bad_data).find("length 17"),
              std::string::npos);
    return loss;
  };
  EXPECT_NEAR(run({5}), run({8, 16}), 1e-6);
  EXPECT_EQ(run({8}), run({8, 16}));
}

TEST(Session, a_network_that_contradicts_itself_is_refused_by_name) {
  const auto refused = [](const Network::Build& build) {
    return refusal(
        [&] {
          (void)plan_network({"odd", build}, options_of("1GiB"));
        },
        ErrorCode::invalid_graph);
  };
  const auto x = [](NetworkBuilder& b) { return b.input("x", {kWidth}); };
  EXPECT_NE(
      refused([&](NetworkBuilder& b) { (void)linear(b, "in", x(b), 2); }).find("minimizes nothing"),
      std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              const Tensor mean = b.weighted_mean(linear(b, "in", x(b), 2));
              b.minimize(mean * mean);
            }).find("not a sum of means"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              const Tensor mean = b.weighted_mean(linear(b, "in", x(b), 2));
              b.minimize(fill(b, 2, {}) / mean);
            }).find("not a sum of means"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              b.minimize(b.weighted_mean(linear(b, b.training() ? "in" : "out", x(b), 2)));
            }).find("evaluation only"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              const Tensor h = linear(b, "in", x(b), 2);
              b.minimize(b.weighted_mean(linear(b, "in", h, 2)));
            }).find("a weight cannot be called 'in.weight': a weight is"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              Tensor h = x(b);
              for (int i = 0; i < 2; ++i) {
                const Scope scope(b, "twin", Weights::shared);
                h = batch_norm(b, "norm", linear(b, "in", h, kWidth));
              }
              b.minimize(b.weighted_mean(h));
            }).find("'twin.norm.running_mean' is shared, and would be moved twice"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              const Tensor h = linear(b, "in", x(b), kWidth);
              const Scope scope(b, "m");  // of AdamW's states
              b.minimize(b.weighted_mean(linear(b, "in", h, 2)));
            }).find("states are called ROLE.PARAMETER"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              (void)b.input("row_weights", {});
            }).find("taken by training itself"),
            std::string::npos);
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              const Tensor each = b.parameter("each", {b.rows(), kWidth}, InitRule::ones());
              b.minimize(b.weighted_mean(x(b) * each));
            }).find("does not depend on rows()"),
            std::string::npos);
  EXPECT_NE(
      refused([&](NetworkBuilder& b) { b.minimize(b.weighted_mean(x(b))); }).find("has no weights"),
      std::string::npos);
  for (const int64_t size : {int64_t{0}, int64_t{-3}, int64_t{1} << 40}) {
    EXPECT_NE(
        refused([&](NetworkBuilder& b) { (void)b.input("x", {size}); }).find("sizes are 1 or more"),
        std::string::npos);
  }
  EXPECT_NE(refused([&](NetworkBuilder& b) {
              const Tensor h = linear(b, "in", x(b), 2);
              b.minimize(b.weighted_mean(h, h));
            }).find("must be an input"),
            std::string::npos);
}

TEST(Session, options_and_rows_that_cannot_be_are_refused) {
  const Network network = network_of(1);
  const auto refused = [&](const std::function<void(SessionOptions&)>& change) {
    SessionOptions options = options_of("1GiB");
    change(options);
    return refusal([&] { const Session session(network, options); }, ErrorCode::bad_config);
  };
  EXPECT_NE(refused([](auto& o) { o.batch_rows = 0; }).find("batch_rows"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.micro_batch_size = 25; }).find("micro_batch_size"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.optim = "adm"; }).find("optim"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.optim_args = {{"beta", 1}}; }).find("beta"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.lr_scheduler_type = ScheduleKind::linear; }).find("max_steps"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.freeze = {"nothing.*"}; }).find("nothing.*"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.threads = 100000; }).find("threads"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.warmup_steps = -1; }).find("warmup_steps"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.learning_rate = NAN; }).find("learning_rate"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.lengths = {8, 8}; }).find("lengths"), std::string::npos);

  Session session(network, options_of("1GiB"));
  const Data data;
  Rows short_row(kRows);
  short_row.add("x", std::span(data.weight));
  EXPECT_NE(refusal([&] { (void)session.step(short_row); }, ErrorCode::bad_data).find("label"),
            std::string::npos);
  Rows narrow = data.all();
  narrow.add("x", std::span(data.weight));
  EXPECT_NE(refusal([&] { (void)session.step(narrow); }, ErrorCode::bad_data).find("takes [10]"),
            std::string::npos);
  (void)refusal([&] { (void)session.step(Data(kRows + 1).all()); }, ErrorCode::bad_data);
  Rows more = data.all();
  more.add("nobody", std::span(data.weight));
  EXPECT_NE(refusal([&] { (void)session.step(more); }, ErrorCode::bad_data).find("nobody"),
            std::string::npos);
  (void)refusal([&] { (void)session.step(Rows(0)); }, ErrorCode::bad_data);
  Rows nothing = data.all();
  const std::vector<int32_t> ignored(kRows, -100);
  nothing.add("label", std::span(ignored));
  EXPECT_NE(refusal([&] { (void)session.step(nothing); }, ErrorCode::bad_data).find("weigh"),
            std::string::npos);
}

TEST(Session, rows_that_fail_leave_nothing_behind) {
  const Network network = network_of(1, 0);
  const Data good;
  Data bad;
  bad.label.back() = 7;  // of the last micro-batch
  for (const int64_t micro_batch : {int64_t{4}, kRows}) {
    Session untouched(network, options_of("1GiB", micro_batch));
    Session session(network, options_of("1GiB", micro_batch));
    (void)refusal([&] { (void)session.step(bad.all()); }, ErrorCode::bad_data);
    EXPECT_EQ(session.updates(), 0);
    EXPECT_EQ(session.step(good.all()).grad_norm, untouched.step(good.all()).grad_norm);
    EXPECT_EQ(weights_of(session), weights_of(untouched));
  }
}

TEST(Session, stops_before_a_step_and_while_planning) {
  std::atomic<bool> stop{false};
  SessionOptions options = options_of("1GiB");
  options.cancel = &stop;
  Session session(network_of(1), options);
  const Data data;
  (void)session.step(data.all());
  const std::vector<float> before = weights_of(session);
  stop = true;
  (void)refusal([&] { (void)session.step(data.all()); }, ErrorCode::cancelled);
  EXPECT_EQ(weights_of(session), before);
  (void)refusal([&] { (void)plan_network(network_of(1), options); }, ErrorCode::cancelled);
}

// Plans, trains, is cancelled, saves, resumes and reads its weights.
std::vector<float> trained_with_a_stop(const std::string& folder) {
  const Network network = network_of();
  std::atomic<bool> stop{false};
  SessionOptions options = options_of("1GiB", 8);
  options.cancel = &stop;
  options.memory.bytes = plan_network(network, options).smallest_budget_bytes;
  const Data data;
  {
    Session session(network, options);
    for (int i = 0; i < 3; ++i) (void)session.step(data.all());
    stop = true;
    (void)refusal([&] { (void)session.step(data.all()); }, ErrorCode::cancelled);
    session.save(folder);
  }
  stop = false;
  Session session = Session::resume(network, folder, options);
  for (int i = 0; i < 2; ++i) (void)session.step(data.all());
  return weights_of(session);
}

TEST(Session, two_sessions_in_two_threads_do_not_disturb_each_other) {
  const std::vector<float> wanted = trained(network_of(), options_of("1GiB", 8), 5);
  const Folder folder;
  std::vector<float> found[2];
  std::thread first([&] { found[0] = trained_with_a_stop(folder.path + "/first"); });
  std::thread second([&] { found[1] = trained_with_a_stop(folder.path + "/second"); });
  first.join();
  second.join();
  EXPECT_EQ(found[0], wanted);
  EXPECT_EQ(found[1], wanted);
}

}  // namespace
}  // namespace snug::session
