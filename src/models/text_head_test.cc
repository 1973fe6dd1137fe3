// SPDX-License-Identifier: Apache-2.0
// What the goldens of tests/nn (head_parity_test) cannot say of heads: dropout, refusals, files.
#include "models/text_head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "models/registry.h"
#include "ops/dropout/dropout.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr int64_t kRows = 2;
constexpr int64_t kTokens = 3;
constexpr int64_t kHidden = 5;
constexpr int64_t kLabels = 4;
constexpr double kRate = 0.4;

std::vector<double> numbers(int64_t count) {
  std::vector<double> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(std::sin(static_cast<double>(3 * i + 1)));
  return all;
}

// Logits of a head over one layer, whose hidden states are an input.
std::vector<double> logits_of(int64_t samples, bool has_rng) {
  GraphBuilder b(op_registry(), "head");
  const ValueId x = b.input("x", {DType::f32, {kRows, kTokens, kHidden}});
  const ValueId mask = b.input("mask", {DType::boolean, {kRows, kTokens}});
  const ValueId rng = has_rng ? b.input("rng", {DType::i64, {3}}) : kNone;
  const std::vector<ValueId> layers = {x};
  const TextHead head{.pooling = Pooling::first, .multi_sample_dropout = samples};
  const ValueId logits = text_head(b, {.head = head,
                                       .num_labels = kLabels,
                                       .layers = layers,
                                       .attention_mask = mask,
                                       .rng = rng,
                                       .dropout = kRate});
  b.mark_output(logits, "logits");
  RefValues feeds = {{x, numbers(kRows * kTokens * kHidden)},
                     {mask, std::vector<double>(kRows * kTokens, 1)}};
  if (has_rng) feeds[rng] = {7, 2, 0};
  const Graph& graph = b.graph();
  for (const ValueId id : graph.values.ids()) {
    if (graph.values[id].kind == ValueKind::parameter)
      feeds[id] = numbers(element_count(graph.values[id].type));
  }
  return evaluate(graph, feeds).at(logits);
}

// The mask of an ordinal, with the factor 1 / (1 - rate).
std::vector<double> mask_of(int64_t ordinal) {
  GraphBuilder b(op_registry(), "mask");
  const ValueId ones = b.input("ones", {DType::f32, {kRows, kHidden}});
  const ValueId rng = b.input("rng", {DType::i64, {3}});
  while (ordinal-- > 0) (void)b.next_random_ordinal();
  const ValueId y = dropout(b, ones, rng, kRate);
  b.mark_output(y, "y");
  return evaluate(b.graph(), {{ones, std::vector<double>(kRows * kHidden, 1)}, {rng, {7, 2, 0}}})
      .at(y);
}

TEST(Text_head, multi_sample_dropout_is_the_mean_of_the_masks_logits) {
  constexpr int64_t kSamples = 3;
  const std::vector<double> x = numbers(kRows * kTokens * kHidden);
  const std::vector<double> weight = numbers(kLabels * kHidden);
  const std::vector<double> bias = numbers(kLabels);
  std::vector<double> mean(kRows * kLabels, 0.0);
  const auto at = [](auto& values, int64_t i) -> auto& {
    return values.at(static_cast<size_t>(i));
  };
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const std::vector<double> mask = mask_of(sample);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t label = 0; label < kLabels; ++label) {
        double logit = at(bias, label);
        for (int64_t h = 0; h < kHidden; ++h)
          logit += at(weight, label * kHidden + h) * at(x, row * kTokens * kHidden + h) *
                   at(mask, row * kHidden + h);
        at(mean, row * kLabels + label) += logit / kSamples;
      }
    }
  }
  const std::vector<double> found = logits_of(kSamples, true);
  for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(found.at(i), mean.at(i), 1e-12);
  EXPECT_NE(found, logits_of(1, true));
  EXPECT_EQ(logits_of(kSamples, false), logits_of(1, false));
}

std::string refusal(const TextHead& head, HeadKind kind, double dropout = 0.1) {
  try {
    check_text_head(head, kind, 2, dropout);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Text_head, what_cannot_be_is_refused_at_its_key) {
  const auto expect = [](const std::string& text, const char* key, const char* part) {
    EXPECT_NE(text.find(std::string("[") + key + "]"), std::string::npos) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal({.pooling = Pooling::mean}, HeadKind::token), "pooling", "nothing to pool");
  expect(refusal({.pooling = Pooling::mean, .pooling_layers = 3}, HeadKind::row), "pooling_layers",
         "more than the model has (2)");
  expect(refusal({.pooling_layers = 2}, HeadKind::row), "pooling_layers", "set pooling");
  expect(refusal({.multi_sample_dropout = 2}, HeadKind::row, 0), "multi_sample_dropout",
         "is 0: all masks would be the same");
  EXPECT_EQ(refusal({.pooling_layers = 2, .multi_sample_dropout = 2}, HeadKind::token), "");
}

TEST(Text_head, every_family_with_its_keys_writes_and_reads_every_head) {
  RunConfig run;
  for (const ModelFamily* family : families_with_key("pooling")) {
    run.model = family->info().preset_names->front();
    const std::string& name = *family->info().name;
    const ArchitecturePtr preset = family->preset(run);
    const std::string plain = preset->config_json();
    EXPECT_EQ(plain.find(kSnugHead), std::string::npos);
    RunConfig keys = run;
    keys.pooling = "attention";
    keys.pooling_layers = 2;
    keys.multi_sample_dropout = 5;
    keys.hidden_dropout_prob = 0.1;  // some families have none of their own
    const std::string text = preset->with_keys(keys)->config_json();
    std::vector<std::string> ignored;
    const ArchitecturePtr back = family->read(text, "config.json", &ignored);
    EXPECT_TRUE(ignored.empty()) << name;
    const TextHead wanted{
        .pooling = Pooling::attention, .pooling_layers = 2, .multi_sample_dropout = 5};
    EXPECT_EQ(back->traits().text_head, wanted) << name;
    EXPECT_EQ(text.find("ForSequenceClassification"), std::string::npos) << name;
    // Tokens have no class in `architectures` that says so.
    RunConfig of_tokens = run;
    of_tokens.pooling_layers = 2;
    const ArchitecturePtr tokens =
        preset->with_facts({.head = Head{.kind = HeadKind::token}})->with_keys(of_tokens);
    const ArchitecturePtr tokens_back =
        family->read(tokens->config_json(), "config.json", &ignored);
    EXPECT_EQ(tokens_back->traits().head.kind, HeadKind::token) << name;
    EXPECT_EQ(tokens_back->traits().text_head.pooling_layers, 2) << name;
  }
}

TEST(Text_head, a_field_that_is_not_known_is_refused) {
  for (const auto& [head, part] :
       {std::pair<const char*, const char*>{R"({"pooling": "median"})", "first, mean, max"},
        {R"({"pooling": null})", "pooling"},
        {R"({"gate": 1})", "does not know"},
        {R"({"pooling_layers": 0})", "pooling_layers"}}) {
    const std::string json =
        std::string(R"({"model_type": "bert", "num_hidden_layers": 2, "snug_head": )") + head + "}";
    try {
      (void)family_of_type("bert")->read(json, "config.json", nullptr);
      ADD_FAILURE() << head;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace snug::models
