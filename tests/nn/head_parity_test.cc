// SPDX-License-Identifier: Apache-2.0
// Snug's own heads against plain PyTorch's in float64, on bodies of transformers:
// tools/golden/heads.py. Dropout is left to the test of text_head.
#include "golden_model.h"
#include "models/bert/bert.h"
#include "models/distilbert/distilbert.h"
#include "models/text_head.h"
#include "tasks/testing.h"

namespace snug {
namespace {

class Head_parity : public GoldenModel {
 protected:
  Head_parity() : GoldenModel("heads.safetensors") {}

  // The parameter is FAMILY_POOLING_LAYERS.
  void build() {
    const size_t first = GetParam().find('_');
    const size_t last = GetParam().rfind('_');
    const std::string pooling = GetParam().substr(first + 1, last - first - 1);
    const bool is_of_tokens = pooling == "tokens";
    models::TextHead head{.pooling_layers = std::stoll(GetParam().substr(last + 1))};
    for (const models::Pooling each : {models::Pooling::first, models::Pooling::mean,
                                       models::Pooling::max, models::Pooling::attention}) {
      if (models::pooling_name(each) == pooling) head.pooling = each;
    }
    const tasks::Task& task =
        *tasks::find_task(is_of_tokens ? "token_classification" : "classification");
    model_ = tasks::with_task(builder_, network(head, task), true, task);
    feeds_ = {{model_.input_ids, golden("input_ids")},
              {model_.attention_mask, golden("attention_mask")},
              {model_.labels, golden("labels")}};
    if (model_.token_type_ids != kNone) feeds_[model_.token_type_ids] = std::vector<double>(21, 0);
    double total = 0;
    for (const double label : golden("labels")) {
      feeds_[model_.row_weights].push_back(label >= 0 ? 1 : 0);
      total += label >= 0 ? 1 : 0;
    }
    feeds_[model_.inv_total] = {1 / total};
    feed_golden(false, 1);
  }

 private:
  [[nodiscard]] models::SequenceModel network(const models::TextHead& head,
                                              const tasks::Task& task) {
    const models::BatchShape shape{.micro_batch = 3, .length = 7};
    if (GetParam().starts_with("bert")) {
      models::BertConfig config;
      config.vocab_size = 23;
      config.hidden_size = 8;
      config.num_hidden_layers = 2;
      config.num_attention_heads = 2;
      config.intermediate_size = 10;
      config.max_position_embeddings = 9;
      config.hidden_dropout_prob = 0;
      config.attention_probs_dropout_prob = 0;
      config.num_labels = 3;
      config.head = *task.head;
      config.text_head = head;
      return models::build_bert_classifier(builder_, config, shape, {});
    }
    models::DistilbertConfig config;
    config.vocab_size = 23;
    config.dim = 8;
    config.n_layers = 2;
    config.n_heads = 2;
    config.hidden_dim = 10;
    config.dropout = 0;
    config.attention_dropout = 0;
    config.seq_classif_dropout = 0;
    config.max_position_embeddings = 9;
    config.num_labels = 3;
    config.head = *task.head;
    config.text_head = head;
    return models::build_distilbert_classifier(builder_, config, shape, {});
  }
};

TEST_P(Head_parity, names_logits_loss_and_every_gradient_are_pytorch_s) {
  build();
  expect_golden_names_and_shapes();
  expect_golden_pass();
}

INSTANTIATE_TEST_SUITE_P(Heads, Head_parity,
                         testing::Values("bert_first_1", "bert_mean_1", "bert_max_2",
                                         "bert_attention_2", "bert_tokens_2", "distilbert_first_2",
                                         "distilbert_attention_1"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace snug
