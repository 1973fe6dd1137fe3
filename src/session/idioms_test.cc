// SPDX-License-Identifier: Apache-2.0
// The objects of other systems over a session; docs/coming-from.md is compiled here. Its lines are
// those between "// [name]" and "// []".
#include "snug/idioms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/recompute.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kWidth = 64;

SessionOptions small() {
  return {.batch_rows = kRows,
          .memory = parse_memory("256MiB"),
          .micro_batch_size = kRows,
          .threads = 1};
}

Tensor encoder_layer(NetworkBuilder& b, int i, const Tensor& x) {
  const Scope scope(b, "layer." + std::to_string(i));
  return x + linear(b, "down", gelu(linear(b, "up", x, 256)), kWidth);
}
void head(NetworkBuilder& b, const Tensor& x) {
  b.minimize(mean_squared_error(b, linear(b, "head", x, 1), b.input("y", {1})));
}
Network plain() {
  return {"plain", [](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (int i = 0; i < 6; ++i)
              x = named("out." + std::to_string(i), encoder_layer(b, i, x));
            head(b, x);
          }};
}

struct Batch {
  std::vector<float> x, y;
  Rows rows{kRows};
  Batch() {
    for (int64_t i = 0; i < kRows * kWidth; ++i) x.push_back(std::sin(static_cast<float>(i)));
    y.assign(kRows, 0.5F);
    rows.add("x", std::span<const float>(x)).add("y", std::span<const float>(y));
  }
};

std::vector<float> head_after(Session session) {
  const Batch batch;
  for (int i = 0; i < 2; ++i) (void)session.step(batch.rows);
  EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
  return session.read("layer.0.up.weight");
}
std::vector<float> wanted() {
  SessionOptions options = small();
  options.recompute = "keep-all";
  return head_after(Session(plain(), options));
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
}

TEST(Gradients, are_those_that_sgd_subtracts_under_every_choice_of_checkpoints) {
  const Batch batch;
  SessionOptions options = small();
  Session all = gradients(plain(), {}, {"out.*"}, options);
  const GradientResult wanted_result = all.gradients(batch.rows);
  EXPECT_EQ(wanted_result.of.size(), 26U);
  EXPECT_EQ(all.gradients(batch.rows).of, wanted_result.of);  // nothing is left over
  EXPECT_EQ(all.measured_arena_bytes(), all.plan().arena_bytes);
  for (const Checkpoints& each :
       {Checkpoints("memory"), Checkpoints("speed"), Checkpoints({"out.3", "out.1"})}) {
    Session session = gradients(plain(), {}, each, options);
    EXPECT_GT(session.plan().ops_run_again, 0) << each.strategy();
    const GradientResult found = session.gradients(batch.rows);
    EXPECT_EQ(found.of, wanted_result.of) << each.strategy();
    EXPECT_EQ(found.loss, wanted_result.loss);
    EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
  }
  options.micro_batch_size = 3;
  const GradientResult split = gradients(plain(), {}, "memory", options).gradients(batch.rows);
  SessionOptions sgd = small();
  sgd.optim = "sgd";
  sgd.optim_args = {{"momentum", 0}};
  sgd.learning_rate = 1;
  Session stepped(plain(), sgd);
  const std::vector<float> before = stepped.read("head.weight");
  (void)stepped.step(batch.rows);
  const std::vector<float> after = stepped.read("head.weight");
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(before[i] - after[i], wanted_result.of.at("head.weight")[i], 1e-6);
    EXPECT_NEAR(split.of.at("head.weight")[i], wanted_result.of.at("head.weight")[i], 1e-6);
  }
}

// check_training_gradient_checkpointing: the same weights have gradients with and without.
TEST(Gradients, no_weight_loses_its_gradient_by_recomputation) {
  const Batch batch;
  const auto weights_with_gradient = [&](const Checkpoints& checkpoints) {
    std::vector<std::string> names;
    for (const auto& [name, values] :
         gradients(plain(), {}, checkpoints, small()).gradients(batch.rows).of) {
      if (std::any_of(values.begin(), values.end(), [](float g) { return g != 0; }))
        names.push_back(name);
    }
    return names;
  };
  EXPECT_EQ(weights_with_gradient("memory").size(), 26U);
  EXPECT_EQ(weights_with_gradient({"out.4"}), weights_with_gradient("memory"));
}

TEST(Gradients, by_some_weights_alone) {
  const Batch batch;
  Session session = gradients(plain(), {"head.*", "layer.5.up.weight"}, "memory", small());
  std::vector<std::string> names;
  for (const auto& [name, values] : session.gradients(batch.rows).of) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"head.bias", "head.weight", "layer.5.up.weight"}));
}

TEST(Gradients, refuse_what_would_be_ignored_and_what_saves_nothing) {
  expect_in(refusal([] { (void)gradients(plain(), {}, "fast", small()); }), "'fast'");
  expect_in(refusal([] { (void)gradients(plain(), {}, std::vector<std::string>{}, small()); }),
            "no checkpoints");
  expect_in(refusal([] { (void)gradients(plain(), {}, "collection", small()); }), "marks nothing");
  expect_in(refusal([] { (void)gradients(plain(), {"tail"}, "memory", small()); }), "'tail'");
  expect_in(refusal([] { (void)gradients(plain(), {}, {"out.9"}, small()); }), "'out.9'");
  SessionOptions clipped = small();
  clipped.max_grad_norm = 1;
  expect_in(refusal([&] { (void)gradients(plain(), {}, "memory", clipped); }), "max_grad_norm");
  SessionOptions warm = small();
  warm.warmup_steps = 2;
  expect_in(refusal([&] { (void)gradients(plain(), {}, "memory", warm); }), "warmup_steps");
  const Network shallow("shallow", [](NetworkBuilder& b) { head(b, b.input("x", {kWidth})); });
  expect_in(refusal([&] { (void)gradients(shallow, {}, "speed", small()); }), "finds nothing");
  const Batch batch;
  Session trains(plain(), small());
  expect_in(refusal([&] { (void)trains.gradients(batch.rows); }), "only_gradients");
  Session alone = gradients(plain(), {}, "memory", small());
  expect_in(refusal([&] { (void)alone.step(batch.rows); }), "no optimizer");
}

TEST(RecomputeOptimizer, checkpoints_come_first_and_their_order_is_nothing) {
  expect_in(refusal([] { (void)RecomputeOptimizer(small()).minimize(plain()); }),
            "before set_checkpoints");
  SessionOptions given = small();
  given.recompute = "sqrt";
  expect_in(refusal([&] { (void)RecomputeOptimizer(given); }), "'sqrt'");
  RecomputeOptimizer one(small());
  RecomputeOptimizer other(small());
  one.set_checkpoints({"out.1", "out.3"});
  other.set_checkpoints({"out.3", "out.1"});
  EXPECT_EQ(one.options().recompute, other.options().recompute);
  EXPECT_EQ(head_after(one.minimize(plain())), wanted());
}

// --- docs/coming-from.md, right-hand sides ---

TEST(ComingFrom, pytorch) {
  const auto layer = encoder_layer;
  const Network whole("whole", [&](NetworkBuilder& b) {
    Tensor x = b.input("x", {kWidth});
    for (int i = 0; i < 6; ++i) {
      // [pytorch-checkpoint]
      x = snug::checkpoint(b, layer, b, i, x);
      // []
    }
    head(b, x);
  });
  const Network sequential("sequential", [&](NetworkBuilder& b) {
    Tensor x = b.input("x", {kWidth});
    std::vector<TensorFunction> layers;
    for (int i = 0; i < 6; ++i)
      layers.push_back([&b, i](const Tensor& in) { return encoder_layer(b, i, in); });
    // [pytorch-sequential]
    x = snug::checkpoint_sequential(b, layers, 3, x);
    // []
    head(b, x);
  });
  const Network selective("selective", [&](NetworkBuilder& b) {
    const Tensor x = b.input("x", {kWidth});
    // [pytorch-selective]
    const auto block = [&](const snug::Tensor& in) {
      const snug::Tensor wide = snug::keep(snug::linear(b, "up", in, 256));  // MUST_SAVE
      return snug::linear(b, "down", snug::gelu(wide), 64);
    };
    const snug::Tensor y = snug::checkpoint(b, block, x);
    // []
    head(b, gelu(y));
  });
  EXPECT_EQ(head_after(Session(whole, small())), wanted());
  EXPECT_EQ(head_after(Session(sequential, small())), wanted());
  EXPECT_GT(Session(selective, small()).plan().ops_run_again, 0);
}

TEST(ComingFrom, pytorch_budget) {
  const Network& network = plain();
  // [pytorch-budget]
  snug::SessionOptions options{.batch_rows = 8, .memory = snug::parse_memory("64MiB")};
  snug::Session session(network, options);  // any network, bytes of the whole step
  // []
  EXPECT_LE(session.plan().planned_peak_bytes, 64 << 20);
}

TEST(ComingFrom, tensorflow_1) {
  const Batch batch;
  // [cybertronai-collection]
  const snug::Network network("net", [](snug::NetworkBuilder& b) {
    snug::Tensor x = b.input("x", {64});
    for (int i = 0; i < 6; ++i) x = snug::keep(encoder_layer(b, i, x));
    head(b, x);
  });
  // []
  const SessionOptions options = small();
  // [cybertronai-gradients]
  snug::Session session = snug::gradients(network, {"head.*"}, "collection", options);
  const std::vector<float> gradient = session.gradients(batch.rows).of.at("head.weight");
  // []
  EXPECT_EQ(session.plan().strategy, "marked");
  EXPECT_EQ(gradient.size(), 64U);
  EXPECT_EQ(head_after(Session(network, options)), wanted());
  // [cybertronai-memory]
  snug::SessionOptions memory = options;
  memory.recompute = "memory";  // or "speed", "sqrt", "every:K", "chen", "revolve:C"
  // []
  EXPECT_EQ(head_after(Session(network, memory)), wanted());
}

TEST(ComingFrom, paddle) {
  const Network network = plain();
  snug::SessionOptions sgd = small();
  // [paddle]
  snug::RecomputeOptimizer optimizer(sgd);
  optimizer.set_checkpoints({"out.1", "out.3"});
  snug::Session session = optimizer.minimize(network);
  // []
  EXPECT_GT(session.plan().ops_run_again, 0);
}

// [keras-inherited]
struct FeedForward : snug::RecomputedLayer {
  explicit FeedForward(std::string scope) : name(std::move(scope)) {}
  std::string name;

 private:
  [[nodiscard]] snug::Tensor call(snug::NetworkBuilder& b, const snug::Tensor& x) const override {
    const snug::Scope scope(b, name);
    return x + snug::linear(b, "down", snug::gelu(snug::linear(b, "up", x, 256)), 64);
  }
};
// []

TEST(ComingFrom, keras) {
  const auto feed_forward = [](NetworkBuilder& b, int i, const Tensor& x) {
    return encoder_layer(b, i, x);
  };
  const Network wrapped("wrapped", [&](NetworkBuilder& b) {
    Tensor x = b.input("x", {kWidth});
    // [keras]
    const auto layer = snug::recompute_grad(feed_forward);
    for (int i = 0; i < 6; ++i) x = layer(b, i, x);
    // []
    head(b, x);
  });
  const Network inherited("inherited", [](NetworkBuilder& b) {
    Tensor x = b.input("x", {kWidth});
    for (int i = 0; i < 6; ++i) x = FeedForward("layer." + std::to_string(i))(b, x);
    head(b, x);
  });
  EXPECT_EQ(head_after(Session(wrapped, small())), wanted());
  EXPECT_EQ(head_after(Session(inherited, small())), wanted());
  EXPECT_GT(Session(inherited, small()).plan().ops_run_again, 0);
}

TEST(ComingFrom, hugging_face) {
  const Network network = plain();
  snug::SessionOptions options = small();
  // [hugging-face]
  snug::gradient_checkpointing_enable(options);
  snug::Session session(network, options);
  // []
  EXPECT_EQ(session.plan().strategy, "recompute-all");
  EXPECT_GT(session.plan().ops_run_again, 0);
  EXPECT_EQ(head_after(std::move(session)), wanted());
  gradient_checkpointing_disable(options);
  EXPECT_EQ(Session(network, options).plan().ops_run_again, 0);
}

std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(SNUG_SOURCE_DIR) + "/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Lines without what all of them are indented by.
std::string outdented(const std::vector<std::string>& lines) {
  size_t least = std::string::npos;
  for (const std::string& line : lines) {
    if (!line.empty()) least = std::min(least, line.find_first_not_of(' '));
  }
  std::string text;
  for (const std::string& line : lines) text += (line.empty() ? "" : line.substr(least)) + "\n";
  return text;
}

TEST(ComingFrom, the_page_has_the_lines_that_are_compiled_here_and_no_others) {
  std::vector<std::string> compiled;
  std::istringstream source(text_of("src/session/idioms_test.cc"));
  std::vector<std::string> lines;
  bool is_inside = false;
  for (std::string line; std::getline(source, line);) {
    const size_t at = line.find("// [");
    if (at != std::string::npos && line.find_first_not_of(' ') == at) {
      if (is_inside) compiled.push_back(outdented(lines));
      is_inside = line.substr(at) != "// []";
      lines.clear();
    } else if (is_inside) {
      lines.push_back(line);
    }
  }
  const std::string page = text_of("docs/coming-from.md");
  std::vector<std::string> quoted;
  const std::string open = "```cpp\n";
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    quoted.push_back(page.substr(at, page.find("```", at) - at));
  }
  EXPECT_GE(compiled.size(), 9U);
  EXPECT_EQ(quoted.size(), compiled.size());
  for (const std::string& each : compiled)
    EXPECT_NE(std::find(quoted.begin(), quoted.end(), each), quoted.end()) << each;
}

}  // namespace
}  // namespace snug::session
