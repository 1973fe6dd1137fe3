// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters on a caller's own network: PyTorch's numbers, nothing else moves, and plans do
// not change the result.
#include "snug/lora.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/safetensors.h"
#include "session/testing.h"
#include "snug/layers.h"
#include "snug/recompute.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kWords = 7;

std::vector<float> golden(const std::string& name) {
  static const io::SafetensorsFile file(SNUG_SOURCE_DIR "/tests/golden/lora.safetensors");
  std::vector<float> values(static_cast<size_t>(file.find(name)->elements()));
  file.read_f32(name, values);
  return values;
}
std::vector<int32_t> golden_ids(const std::string& name) {
  const std::vector<float> values = golden(name);
  return {values.begin(), values.end()};
}

// That of tools/golden/lora.py.
Network golden_network() {
  return {"golden", [](NetworkBuilder& b) {
            const Tensor table = b.parameter("words.weight", {kWords, 16}, InitRule::normal(0.4));
            const Tensor words =
                b.op1("embedding", {table, b.input("ids", {}, DType::i32)}, {{"to", "f32"}});
            Tensor h = tanh(linear(b, "in", b.input("x", {5}), 16) + words);
            const Tensor twice = b.parameter("twice.weight", {16, 16}, InitRule::normal(0.4));
            const Tensor bias = b.parameter("twice.bias", {16}, InitRule::zeros());
            for (int i = 0; i < 2; ++i) h = tanh(matmul(h, twice, {.transpose_b = true}) + bias);
            const Tensor logits = matmul(h, table, {.transpose_b = true});
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("labels", {}, DType::i32)));
          }};
}

struct GoldenRows {
  std::vector<float> x = golden("inputs/x");
  std::vector<int32_t> ids = golden_ids("inputs/ids");
  std::vector<int32_t> labels = golden_ids("inputs/labels");
  [[nodiscard]] Rows all() const {
    Rows rows(std::ssize(ids));
    rows.add("x", std::span(x)).add("ids", std::span(ids)).add("labels", std::span(labels));
    return rows;
  }
};

void load_golden(Session& session) {
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.is_weight()) session.write(tensor.name, golden("before/" + tensor.name));
  }
}

void expect_near(const std::vector<float>& found, const std::vector<float>& wanted,
                 const std::string& name) {
  ASSERT_EQ(found.size(), wanted.size()) << name;
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(wanted[i]), 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  EXPECT_LE(std::sqrt(error), 2e-6 * std::sqrt(norm)) << name;
}

const LoraOptions kGolden = {
    .match = {"in.weight", "twice.*", "words.weight"}, .r = 4, .alpha = 6, .dropout = 0};

// T28: the tied table's product has an adapter, its rows have none, and its one base is kept once.
TEST(Lora, gradients_of_shared_and_tied_maps_are_pytorchs) {
  SessionOptions options{.batch_rows = 6, .lora = kGolden, .only_gradients = true, .threads = 1};
  Session session(golden_network(), options);
  load_golden(session);
  const GoldenRows data;
  const GradientResult found = session.gradients(data.all());
  EXPECT_NEAR(found.loss, static_cast<double>(golden("loss")[0]), 1e-6);
  EXPECT_EQ(found.of.size(), 6U);
  for (const auto& [name, gradient] : found.of) expect_near(gradient, golden("grad/" + name), name);
  int64_t tables = 0;
  for (const TensorInfo& tensor : session.tensors()) tables += tensor.name == "words.weight";
  EXPECT_EQ(tables, 1);
}

TEST(Lora, ten_updates_are_pytorchs) {
  SessionOptions options{.batch_rows = 6,
                         .optim_args = {{"beta1", 0.9}, {"beta2", 0.98}, {"epsilon", 1e-7}},
                         .learning_rate = 0.01,
                         .weight_decay = 0.1,
                         .lora = kGolden,
                         .threads = 1};
  Session session(golden_network(), options);
  load_golden(session);
  const GoldenRows data;
  for (int i = 0; i < 10; ++i) (void)session.step(data.all());
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.is_trained)
      expect_near(session.read(tensor.name), golden("updated/" + tensor.name), tensor.name);
  }
}

constexpr int64_t kRows = 24;

// Blocks with dropout; the last layer is as much a base as the others.
Network blocks(int64_t count = 4, bool is_marked = false) {
  return {"blocks", [=](NetworkBuilder& b) {
            Tensor x = relu(linear(b, "in", b.input("x", {10}), 32));
            for (int64_t i = 0; i < count; ++i) {
              const Scope scope(b, "block." + std::to_string(i));
              const Tensor inner = gelu(linear(b, "up", layer_norm(b, "norm", x), 64));
              x = x + dropout(linear(b, "down", inner, 32), 0.1);
              if (is_marked) x = keep(x);
            }
            const Tensor logits = linear(b, "classes", x, 3);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<float> x;
  std::vector<int32_t> label;
  Data() {
    for (int64_t i = 0; i < kRows * 10; ++i)
      x.push_back(static_cast<float>(std::sin(1.7 * static_cast<double>(i))));
    for (int32_t row = 0; row < kRows; ++row) label.push_back(row % 3);
  }
  [[nodiscard]] Rows all() const {
    Rows rows(kRows);
    rows.add("x", std::span(x)).add("label", std::span(label));
    return rows;
  }
};

SessionOptions options_of(const LoraOptions& lora, const std::string& memory = "1GiB") {
  return {.batch_rows = kRows,
          .memory = parse_memory(memory),
          .micro_batch_size = kRows,
          .learning_rate = 0.01,
          .weight_decay = 0.1,
          .max_grad_norm = 1,
          .lora = lora,
          .threads = 1};
}

const LoraOptions kDown = {
    .match = {"*.down.weight", "classes.weight"}, .r = 3, .alpha = 4, .dropout = 0.2};

std::map<std::string, std::vector<float>> weights_of(const Session& session, bool trained) {
  std::map<std::string, std::vector<float>> all;
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.is_weight() && tensor.is_trained == trained)
      all[tensor.name] = session.read(tensor.name);
  }
  return all;
}

// Its own dropouts draw from ordinals behind those of the network.
TEST(Lora, fresh_adapters_change_nothing_not_even_a_mask) {
  const Data data;
  Session plain(blocks(), options_of({}));
  Session adapted(blocks(), options_of(kDown));
  const StepOptions skipped{.is_skipped = true};
  EXPECT_EQ(plain.step(data.all(), skipped).loss, adapted.step(data.all(), skipped).loss);
  EXPECT_EQ(plain.evaluate(data.all()).loss, adapted.evaluate(data.all()).loss);
}

// T27.
TEST(Lora, frozen_bytes_stay_under_weight_decay_and_have_no_states) {
  const Data data;
  Session session(blocks(), options_of(kDown));
  const auto before = weights_of(session, false);
  const auto trained = weights_of(session, true);
  for (int i = 0; i < 100; ++i) (void)session.step(data.all());
  EXPECT_EQ(weights_of(session, false), before);
  EXPECT_EQ(trained.size(), 10U);
  for (const auto& [name, values] : weights_of(session, true)) EXPECT_NE(values, trained.at(name));
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.is_weight()) continue;
    EXPECT_NE(tensor.name.find(".lora_"), std::string::npos) << tensor.name;
  }
  EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
}

// T12: what is frozen below must not cut off the gradients of a part that is run again.
TEST(Lora, an_adapter_in_one_middle_layer_has_its_gradient_under_every_recomputation) {
  const Data data;
  LoraOptions middle = kDown;
  middle.match = {"block.2.*"};
  std::optional<GradientResult> wanted;
  for (const char* recompute : {"keep-all", "recompute-all", "sqrt", "marked"}) {
    SessionOptions options{.batch_rows = kRows,
                           .memory = parse_memory("1GiB"),
                           .micro_batch_size = kRows,
                           .recompute = recompute,
                           .lora = middle,
                           .only_gradients = true,
                           .threads = 1};
    Session session(blocks(4, true), options);
    for (const TensorInfo& tensor : session.tensors()) {
      if (!tensor.name.ends_with("lora_B.weight")) continue;
      for (float& value : session.edit(tensor.name)) value = 0.25F;
    }
    const GradientResult found = session.gradients(data.all());
    EXPECT_EQ(found.of.size(), 4U);
    for (const auto& [name, gradient] : found.of) {
      double norm = 0;
      for (const float value : gradient) norm += std::abs(static_cast<double>(value));
      EXPECT_GT(norm, 0) << name << " " << recompute;
    }
    if (!wanted) wanted = found;
    EXPECT_EQ(found.of, wanted->of) << recompute;
  }
}

TEST(Lora, budgets_give_equal_bits_and_splits_agree_within_rounding) {
  const Data data;
  const auto train = [&](const SessionOptions& options) {
    Session session(blocks(8), options);
    for (int i = 0; i < 4; ++i) (void)session.step(data.all());
    EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes);
    return weights_of(session, true);
  };
  SessionOptions options = options_of(kDown);
  const auto wanted = train(options);
  options.memory.bytes = plan_network(blocks(8), options).smallest_budget_bytes;
  EXPECT_EQ(train(options), wanted);
  SessionOptions split = options_of(kDown);
  split.micro_batch_size = 7;
  split.optim = "sgd";
  SessionOptions whole = split;
  whole.micro_batch_size = kRows;
  const auto pieces = train(split);
  for (const auto& [name, values] : train(whole)) {
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(pieces.at(name)[i], values[i], 1e-5) << name;
  }
}

TEST(Lora, a_saved_session_goes_on_to_the_same_bits_with_the_same_adapters_alone) {
  std::string folder = (std::filesystem::temp_directory_path() / "snug_lora_XXXXXX").string();
  folder = mkdtemp(folder.data());
  const Data data;
  Session first(blocks(), options_of(kDown));
  for (int i = 0; i < 2; ++i) (void)first.step(data.all());
  first.save(folder + "/saved");
  for (int i = 0; i < 2; ++i) (void)first.step(data.all());
  Session second = Session::resume(blocks(), folder + "/saved", options_of(kDown));
  for (int i = 0; i < 2; ++i) (void)second.step(data.all());
  EXPECT_EQ(weights_of(second, true), weights_of(first, true));
  LoraOptions other = kDown;
  other.alpha = 5;
  const std::string text =
      refusal([&] { (void)Session::resume(blocks(), folder + "/saved", options_of(other)); });
  EXPECT_NE(text.find("[lora]"), std::string::npos) << text;
  std::filesystem::remove_all(folder);
}

TEST(Lora, freezing_goes_together_with_adapters) {
  SessionOptions options = options_of(kDown);
  options.freeze = {"block.0.*", "classes.*"};
  Session session(blocks(), options);
  EXPECT_EQ(weights_of(session, true).size(), 6U);
}

TEST(Lora, what_is_no_linear_map_is_refused_by_name) {
  const auto text = [](const LoraOptions& lora) {
    return refusal([&] {
      (void)plan_network(golden_network(), {.batch_rows = 4, .lora = lora, .threads = 1});
    });
  };
  EXPECT_NE(text({.match = {"zz.*"}}).find("the pattern 'zz.*' matches no weight"),
            std::string::npos);
  EXPECT_NE(text({.match = {"*.bias"}}).find("matches vectors only"), std::string::npos);
  EXPECT_NE(text({.match = {"in.*"}, .r = 0}).find("rank r of 0"), std::string::npos);
  EXPECT_NE(text({.match = {"in.*"}, .dropout = 1}).find("dropout"), std::string::npos);
  EXPECT_NE(text({.match = {"in.*"}, .alpha = 0}).find("alpha"), std::string::npos);
  const Network table("table", [](NetworkBuilder& b) {
    const Tensor rows = b.op1(
        "embedding",
        {b.parameter("table", {kWords, 16}, InitRule::normal(1)), b.input("ids", {}, DType::i32)},
        {{"to", "f32"}});
    b.minimize(b.weighted_mean(reduce_sum(rows, {1})));
  });
  const std::string of_table =
      refusal([&] { (void)plan_network(table, {.batch_rows = 4, .lora = {.match = {"*"}}}); });
  EXPECT_NE(of_table.find("'table' [7,16] is no linear map: it is read by"), std::string::npos)
      << of_table;
}

}  // namespace
}  // namespace snug::session
