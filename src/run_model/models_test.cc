// SPDX-License-Identifier: Apache-2.0
// A model family's network in a caller's own loop.
#include "snug/models.h"

#include <gtest/gtest.h>

#include <cmath>

#include "snug/error.h"

namespace snug::run_model {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kLength = 16;

RunConfig config_of(const std::string& model, const std::string& task = "classification") {
  RunConfig config;
  config.model = model;
  config.vocab_size = 50;
  config.task = task;
  config.num_labels = 3;
  config.set("max_seq_length", std::to_string(kLength));
  return config;
}

SessionOptions options_of(int64_t micro_batch) {
  return {.batch_rows = kRows,
          .memory = parse_memory("256MiB"),
          .micro_batch_size = micro_batch,
          .lengths = {8, kLength},
          .threads = 1};
}

struct Texts {
  std::vector<int32_t> ids, types, labels, token_labels;
  std::vector<uint8_t> mask;
  int64_t length;
  explicit Texts(int64_t tokens = kLength)
      : types(static_cast<size_t>(kRows * tokens), 0), length(tokens) {
    for (int64_t row = 0; row < kRows; ++row) {
      labels.push_back(static_cast<int32_t>(row % 3));
      for (int64_t t = 0; t < tokens; ++t) {
        ids.push_back(static_cast<int32_t>(1 + (7 * row + 3 * t) % 49));
        mask.push_back(t <= row % tokens ? 1 : 0);
        token_labels.push_back(t <= row % tokens && t % 2 == 0 ? static_cast<int32_t>(t % 3)
                                                               : -100);
      }
    }
  }
  [[nodiscard]] Rows rows(bool has_types, bool has_token_labels = false) const {
    Rows all(kRows, length);
    all.add("input_ids", std::span(ids)).add("attention_mask", std::span(mask));
    if (has_types) all.add("token_type_ids", std::span(types));
    return all.add("labels", std::span(has_token_labels ? token_labels : labels));
  }
};

std::vector<float> weights_of(const Session& session) {
  std::vector<float> all;
  for (const TensorInfo& tensor : session.tensors()) {
    const auto values = session.view(tensor.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Models, train_in_a_callers_loop_with_equal_bits_in_every_plan) {
  for (const char* model : {"bert-tiny", "distilbert-tiny", "lstm"}) {
    SCOPED_TRACE(model);
    const Network network = model_network(config_of(model));
    const Texts texts;
    std::vector<float> wanted;
    for (const char* recompute : {"keep-all", "recompute-all", "auto"}) {
      SessionOptions options = options_of(4);
      options.recompute = recompute;
      Session session(network, options);
      const Rows rows = texts.rows(session.has_input("token_type_ids"));
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::isfinite(session.step(rows).loss));
      EXPECT_EQ(session.measured_arena_bytes(), session.plan().arena_bytes) << recompute;
      if (wanted.empty()) wanted = weights_of(session);
      EXPECT_EQ(weights_of(session), wanted) << recompute;
    }
  }
}

TEST(Models, splits_and_lengths_agree_within_rounding) {
  const Network network = model_network(config_of("bert-tiny"));
  const auto loss_of = [&](const Texts& texts, int64_t micro_batch,
                           const std::vector<Lengths>& lengths) {
    SessionOptions options = options_of(micro_batch);
    options.lengths = lengths;
    Session session(network, options);
    return session.step(texts.rows(true), {.is_skipped = true}).grad_norm;
  };
  const double whole = loss_of(Texts(), kRows, {kLength});
  EXPECT_NEAR(loss_of(Texts(), 3, {kLength}), whole, 1e-4 * whole);
  const double shorter = loss_of(Texts(6), kRows, {8, kLength});
  EXPECT_NEAR(loss_of(Texts(6), 4, {8, kLength}), shorter, 1e-4 * shorter);
}

TEST(Models, labels_of_tokens_that_are_not_there_do_not_count) {
  const Network network = model_network(config_of("bert-tiny", "token_classification"));
  const Texts texts;
  Session whole(network, options_of(kRows));
  Session split(network, options_of(2));
  const Rows rows = texts.rows(true, true);
  const double loss = whole.step(rows, {.is_skipped = true}).loss;
  EXPECT_NEAR(loss, std::log(3.0), 0.3);  // a mean over the labels that are there
  EXPECT_NEAR(split.step(rows, {.is_skipped = true}).loss, loss, 1e-5);
  // Weights that say the same.
  Rows weighed = texts.rows(true, true);
  std::vector<float> weights;
  for (const int32_t label : texts.token_labels) weights.push_back(label < 0 ? 0.0F : 1.0F);
  weighed.add("row_weights", std::span<const float>(weights));
  EXPECT_EQ(whole.step(weighed, {.is_skipped = true}).loss, loss);
}

TEST(Models, read_images_and_targets_of_their_tasks) {
  RunConfig config;
  config.model = "resnet-8";
  config.set("image_size", "8");
  Session session(
      model_network(config),
      {.batch_rows = kRows, .memory = parse_memory("256MiB"), .optim = "sgd", .threads = 1});
  EXPECT_NE(session.plan().row_coupling, "");
  const std::vector<float> pixels(kRows * 8 * 8 * 3, 0.5F);
  const std::vector<int32_t> labels(kRows, 1);
  Rows rows(kRows);
  rows.add("pixel_values", std::span<const float>(pixels));
  rows.add("labels", std::span<const int32_t>(labels));
  const double loss = session.step(rows).loss;
  for (int i = 0; i < 3; ++i) (void)session.step(rows);
  EXPECT_LT(session.step(rows).loss, loss);

  Session regression(model_network(config_of("lstm", "regression")), options_of(4));
  const Texts texts;
  const std::vector<float> targets(kRows * 3, 2.0F);
  Rows of_text = texts.rows(false);
  of_text.add("labels", std::span<const float>(targets));
  EXPECT_GT(regression.step(of_text).loss, 0.1);
}

TEST(Models, weights_of_a_preset_are_its_initial_values) {
  const RunConfig config = config_of("bert-tiny");
  const Session wanted(model_network(config), options_of(4));
  SessionOptions options = options_of(4);
  options.has_initial_values = false;
  Session session(model_network(config), options);
  load_weights(config, session);
  EXPECT_EQ(weights_of(session), weights_of(wanted));
  EXPECT_THROW((void)model_network(config_of("nobody")), Error);
  EXPECT_THROW((void)model_network(RunConfig()), Error);
}

}  // namespace
}  // namespace snug::run_model
