// SPDX-License-Identifier: Apache-2.0
// Optimizer states in 8 bits through a session: equal bits under every budget and after a resume,
// tensors by name, options that cannot be.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kWidth = 64;

Network network_of() {
  return {"wide", [](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (const char* layer : {"a", "b", "c"}) x = gelu(linear(b, layer, x, kWidth));
            b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<float> x;
  std::vector<int32_t> label;
  Data() {
    for (int64_t i = 0; i < kRows * kWidth; ++i)
      x.push_back(static_cast<float>(std::sin(1.3 * static_cast<double>(i))));
    for (int64_t row = 0; row < kRows; ++row) label.push_back(static_cast<int32_t>(row % 3));
  }
  [[nodiscard]] Rows all() const {
    Rows rows(kRows);
    rows.add("x", std::span(x)).add("label", std::span(label));
    return rows;
  }
};

SessionOptions options_of(const std::string& memory) {
  return {.batch_rows = kRows,
          .memory = parse_memory(memory),
          .micro_batch_size = 8,
          .max_grad_norm = 1,
          .optim_bits = 8,
          .threads = 2};
}

std::vector<float> values_of(const Session& session) {
  std::vector<float> all;
  for (const TensorInfo& tensor : session.tensors()) {
    const std::vector<float> values = session.read(tensor.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(State_bits, are_equal_under_every_budget_and_after_a_resume) {
  const Data data;
  for (const char* codec : {"default", "bnb"}) {
    SessionOptions options = options_of("1GiB");
    options.optim_codec = codec;
    Session whole(network_of(), options);
    for (int i = 0; i < 4; ++i) (void)whole.step(data.all());
    EXPECT_EQ(whole.measured_arena_bytes(), whole.plan().arena_bytes);

    std::string folder = (std::filesystem::temp_directory_path() / "snug_bits_XXXXXX").string();
    folder = mkdtemp(folder.data());
    SessionOptions tight = options;
    tight.memory.bytes = whole.plan().smallest_budget_bytes;
    {
      Session first(network_of(), tight);
      for (int i = 0; i < 2; ++i) (void)first.step(data.all());
      first.save(folder + "/saved");
    }
    Session second = Session::resume(network_of(), folder + "/saved", options);
    for (int i = 0; i < 2; ++i) (void)second.step(data.all());
    EXPECT_EQ(values_of(second), values_of(whole)) << codec;
    SessionOptions other = options;
    other.optim_bits = 32;
    EXPECT_NE(refusal([&] {
                (void)Session::resume(network_of(), folder + "/saved", other);
              }).find("optim_bits"),
              std::string::npos);
    std::filesystem::remove_all(folder);
  }
}

TEST(State_bits, codes_and_scales_are_tensors_by_name) {
  Session session(network_of(), options_of("1GiB"));
  const Data data;
  (void)session.step(data.all());
  const std::vector<float> codes = session.read("m.a.weight.codes");
  EXPECT_EQ(codes.size(), 4096U);
  EXPECT_EQ(session.read("v.a.weight.scales").size(), 16U);
  EXPECT_EQ(session.read("m.a.bias").size(), 64U);
  EXPECT_NE(codes, std::vector<float>(4096, 0));
  std::vector<float> other(4096, 255);
  session.write("m.a.weight.codes", other);
  EXPECT_EQ(session.read("m.a.weight.codes"), other);
  for (const float bad : {256.0F, -1.0F, 0.5F}) {
    other[7] = bad;
    EXPECT_NE(refusal([&] {
                session.write("m.a.weight.codes", other);
              }).find("element 7 is no code of 8 bits"),
              std::string::npos);
  }
}

TEST(State_bits, a_plan_says_what_they_take) {
  SessionOptions options = options_of("1GiB");
  const PlanReport coded = plan_network(network_of(), options);
  options.optim_bits = 32;
  const PlanReport plain = plan_network(network_of(), options);
  EXPECT_LT(bytes_of_part(coded, "optimizer states"), bytes_of_part(plain, "optimizer states"));
  int64_t bytes = 0;
  for (const StateReport& state : coded.states) {
    if (state.name != "a.weight") continue;
    EXPECT_EQ(state.codec, "default");
    bytes += state.bytes;
  }
  EXPECT_LE(bytes, 2 * (4096 + 16 * 4 + 64));  // in aligned places
}

// An optimizer without states and states in 8 bits do not go together: no hint says both.
TEST(State_bits, hints_can_be_followed) {
  SessionOptions options = options_of("4KiB");
  for (const int64_t bits : {32, 8}) {
    options.optim_bits = bits;
    try {
      (void)plan_network(network_of(), options);
      ADD_FAILURE() << "it fits";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_budget) << error.what();
      const std::string text = error.what();
      EXPECT_EQ(text.find("sgd") != std::string::npos && bits == 8, false) << text;
    }
  }
}

TEST(State_bits, options_that_cannot_be_are_refused) {
  const auto text = [](const std::function<void(SessionOptions&)>& change) {
    SessionOptions options = options_of("1GiB");
    change(options);
    return refusal([&] { (void)plan_network(network_of(), options); });
  };
  EXPECT_NE(text([](auto& o) { o.optim_bits = 16; }).find("give 32 or 8"), std::string::npos);
  EXPECT_NE(text([](auto& o) { o.optim_codec = "nf4"; }).find("give default or bnb"),
            std::string::npos);
  EXPECT_NE(text([](auto& o) { o.optim = "sgd"; }).find("nothing to store in 8 bits"),
            std::string::npos);
  EXPECT_NE(text([](auto& o) {
              o.optim_bits_overrides = {{"zz", 8}};
            }).find("matches no weight"),
            std::string::npos);
}

}  // namespace
}  // namespace snug::session
