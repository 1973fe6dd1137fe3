// SPDX-License-Identifier: Apache-2.0
// Frozen weights in 16 and 8 bits: the network of the decoded weights, in the bytes that were
// promised, whatever the plan.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "ops/coded/coded.h"
#include "session/testing.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kWords = 50;

// A table, two frozen maps with a trained norm below each, and a part that is trained.
Network network() {
  return {"frozen", [](NetworkBuilder& b) {
            Tensor x = b.op1("embedding",
                             {b.parameter("words.weight", {kWords, 96}, InitRule::normal(1)),
                              b.input("ids", {}, DType::i32)},
                             {{"to", "f32"}});
            for (const char* name : {"first", "second"}) {
              const Scope scope(b, name);
              x = x + dropout(linear(b, "down",
                                     gelu(linear(b, "up", layer_norm(b, "norm", x), 300)), 96),
                              0.1);
            }
            const Tensor logits = linear(b, "classes", x, 3);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<int32_t> ids, label;
  Data() {
    for (int32_t row = 0; row < kRows; ++row) {
      ids.push_back(row * 7 % static_cast<int32_t>(kWords));
      label.push_back(row % 3);
    }
  }
  [[nodiscard]] Rows all() const {
    Rows rows(kRows);
    rows.add("ids", std::span(ids)).add("label", std::span(label));
    return rows;
  }
};

SessionOptions options_of(const std::string& dtype, const std::string& memory = "1GiB") {
  return {.batch_rows = kRows,
          .memory = parse_memory(memory),
          .micro_batch_size = kRows,
          .learning_rate = 0.01,
          .weight_decay = 0.1,
          .max_grad_norm = 1,
          .freeze = {"words.*", "*.up.*", "*.down.weight"},
          .frozen_dtype = dtype,
          .threads = 1};
}

std::map<std::string, std::vector<float>> weights_of(const Session& session) {
  std::map<std::string, std::vector<float>> all;
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.kind == TensorKind::parameter) all[tensor.name] = session.read(tensor.name);
  }
  return all;
}

class Frozen : public testing::TestWithParam<const char*> {};

// A session in f32 that was given the decoded weights is the reference.
TEST_P(Frozen, training_is_that_of_the_decoded_weights) {
  const Data data;
  Session coded(network(), options_of(GetParam()));
  Session plain(network(), options_of("float32"));
  const auto before = weights_of(coded);
  for (const auto& [name, values] : before) plain.write(name, values);
  for (int i = 0; i < 5; ++i) {
    const StepResult ours = coded.step(data.all());
    const StepResult theirs = plain.step(data.all());
    EXPECT_NEAR(ours.loss, theirs.loss, 2e-6 * std::abs(theirs.loss));
    EXPECT_NEAR(ours.grad_norm, theirs.grad_norm, 1e-5 * theirs.grad_norm);
  }
  EXPECT_NEAR(coded.evaluate(data.all()).loss, plain.evaluate(data.all()).loss, 1e-5);
  const auto wanted = weights_of(plain);
  for (const auto& [name, values] : weights_of(coded)) {
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], wanted.at(name)[i], 2e-4) << name;
  }
  EXPECT_EQ(coded.measured_arena_bytes(), coded.plan().arena_bytes);
}

TEST_P(Frozen, weights_are_near_their_values_and_few_bytes) {
  const Session coded(network(), options_of(GetParam()));
  const Session plain(network(), options_of("float32"));
  const bool is_int8 = std::string(GetParam()) == "int8";
  int64_t bytes = 0;
  for (const TensorInfo& tensor : coded.tensors()) {
    if (!tensor.is_weight()) continue;
    const int64_t own = std::ssize(coded.view_bytes(tensor.name));
    const bool is_coded = tensor.kind == TensorKind::scales || tensor.dtype != DType::f32;
    if (is_coded) bytes += own;
    if (tensor.kind != TensorKind::parameter || !is_coded) continue;
    const std::vector<float> values = coded.read(tensor.name);
    const std::vector<float> wanted = plain.read(tensor.name);
    const size_t columns = static_cast<size_t>(tensor.shape[1]);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t block = i - i % columns % kCodedBlock;
      const size_t end = std::min(block + kCodedBlock, i - i % columns + columns);
      float most = 0;
      for (size_t j = block; j < end; ++j) most = std::max(most, std::abs(wanted[j]));
      const float bound = is_int8 ? most / 254 * 1.0001F : std::abs(wanted[i]) / 256;
      ASSERT_LE(std::abs(values[i] - wanted[i]), bound) << tensor.name << " " << i;
    }
  }
  const int64_t elements = kWords * 96 + 4 * 300 * 96;
  const int64_t scales = 4 * (kWords + 2 * 300 + 2 * 96 * 2);
  EXPECT_EQ(bytes, is_int8 ? elements + scales : 2 * elements);
  EXPECT_LT(bytes_of_part(coded.plan(), "weights"),
            bytes_of_part(plain.plan(), "weights") - 2 * elements + 4096);
}

TEST_P(Frozen, bits_are_equal_under_the_smallest_budget_and_after_resuming) {
  const Data data;
  std::string folder = (std::filesystem::temp_directory_path() / "snug_frozen_XXXXXX").string();
  folder = mkdtemp(folder.data());
  SessionOptions options = options_of(GetParam());
  Session first(network(), options);
  for (int i = 0; i < 2; ++i) (void)first.step(data.all());
  first.save(folder + "/saved");
  for (int i = 0; i < 2; ++i) (void)first.step(data.all());
  options.memory.bytes = plan_network(network(), options).smallest_budget_bytes;
  Session second(network(), options);
  for (int i = 0; i < 4; ++i) (void)second.step(data.all());
  EXPECT_EQ(weights_of(second), weights_of(first));
  options.micro_batch_size = 0;
  Session third = Session::resume(network(), folder + "/saved", options);
  for (int i = 0; i < 2; ++i) (void)third.step(data.all());
  EXPECT_EQ(weights_of(third), weights_of(first));
  std::filesystem::remove_all(folder);
}

TEST_P(Frozen, adapters_stand_on_coded_maps) {
  const Data data;
  SessionOptions options = options_of(GetParam());
  options.freeze.clear();
  options.lora = {.match = {"*.up.weight"}, .r = 4, .alpha = 8, .dropout = 0.1};
  Session session(network(), options);
  const double before = session.evaluate(data.all()).loss;
  const auto frozen = session.read("first.up.weight");
  for (int i = 0; i < 20; ++i) (void)session.step(data.all());
  EXPECT_LT(session.evaluate(data.all()).loss, before);
  EXPECT_EQ(session.read("first.up.weight"), frozen);
}

INSTANTIATE_TEST_SUITE_P(Storages, Frozen, testing::Values("bfloat16", "int8"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Frozen_storage, what_would_change_nothing_is_refused) {
  const auto text = [](const SessionOptions& options) {
    return refusal([&] { (void)plan_network(network(), options); });
  };
  SessionOptions options = options_of("int8");
  options.freeze = {};
  EXPECT_NE(text(options).find("[frozen_dtype] no weight is frozen"), std::string::npos);
  options.freeze = {"*.norm.*"};
  EXPECT_NE(text(options).find("no frozen weight of 4096 elements"), std::string::npos);
  EXPECT_NE(text(options_of("int4")).find("there is no 'int4'"), std::string::npos);
}

}  // namespace
}  // namespace snug::session
