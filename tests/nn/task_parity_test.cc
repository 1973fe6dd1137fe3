// SPDX-License-Identifier: Apache-2.0
// Every task's loss and gradients against PyTorch's, on tiny BERT and DistilBERT networks of
// transformers in double, whole and in pieces: tools/golden/tasks.py.
#include "golden_model.h"
#include "models/bert/bert.h"
#include "models/distilbert/distilbert.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr int64_t kRows = 3;
constexpr int64_t kLength = 7;

struct Case {
  std::string name;  // of the golden, behind the family's
  std::string task;
  int64_t num_labels = 1;
  std::string regression_loss = "mse";
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"regression_one", "regression", 1},
      {"regression_three", "regression", 3},
      {"regression_smooth_l1", "regression", 3, "smooth_l1"},
      {"multi_label", "multi_label", 4},
      {"token_classification", "token_classification", 4},
  };
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Case& each : cases()) {
    all.push_back("bert_" + each.name);
    all.push_back("distilbert_" + each.name);
  }
  return all;
}

class Task_parity : public GoldenModel {
 protected:
  Task_parity() : GoldenModel("tasks.safetensors") {}

  [[nodiscard]] const Case& given() const {
    const std::string name = GetParam().substr(GetParam().find('_') + 1);
    return *std::find_if(cases().begin(), cases().end(),
                         [&](const Case& each) { return each.name == name; });
  }
  [[nodiscard]] const tasks::Task& task() const { return *tasks::find_task(given().task); }

  [[nodiscard]] models::SequenceModel network(GraphBuilder& builder, int64_t rows) const {
    const models::BatchShape shape{.micro_batch = rows, .length = kLength};
    if (GetParam().starts_with("bert")) {
      models::BertConfig config;
      config.vocab_size = 23;
      config.hidden_size = 8;
      config.num_hidden_layers = 1;
      config.num_attention_heads = 2;
      config.intermediate_size = 10;
      config.max_position_embeddings = 9;
      config.hidden_dropout_prob = 0;
      config.attention_probs_dropout_prob = 0;
      config.num_labels = given().num_labels;
      config.head = *task().head;
      return models::build_bert_classifier(builder, config, shape, {});
    }
    models::DistilbertConfig config;
    config.vocab_size = 23;
    config.dim = 8;
    config.n_layers = 1;
    config.n_heads = 2;
    config.hidden_dim = 10;
    config.dropout = 0;
    config.attention_dropout = 0;
    config.seq_classif_dropout = 0;
    config.max_position_embeddings = 9;
    config.num_labels = given().num_labels;
    config.head = *task().head;
    return models::build_distilbert_classifier(builder, config, shape, {});
  }

  // Rows [first, first + rows) of a golden of all rows.
  [[nodiscard]] std::vector<double> rows_of(const std::string& name, int64_t first,
                                            int64_t rows) const {
    const std::vector<double> all = golden(name);
    const auto row = static_cast<std::ptrdiff_t>(all.size()) / kRows;
    return {all.begin() + first * row, all.begin() + (first + rows) * row};
  }

  // The weights of the rows' labels: 0 where there is none.
  [[nodiscard]] std::vector<double> weights_of(const std::vector<double>& labels,
                                               size_t count) const {
    std::vector<double> weights(count, 1);
    if (count != labels.size() || task().head->kind == models::HeadKind::row) return weights;
    for (size_t i = 0; i < count; ++i) weights[i] = labels[i] >= 0 ? 1 : 0;
    return weights;
  }

  void build(int64_t first, int64_t rows) {
    model_ = tasks::with_task(builder_, network(builder_, rows), true, task(),
                              {.regression_loss = given().regression_loss});
    feeds_ = {{model_.input_ids, rows_of("input_ids", first, rows)},
              {model_.attention_mask, rows_of("attention_mask", first, rows)},
              {model_.labels, rows_of("labels", first, rows)}};
    if (model_.token_type_ids != kNone)
      feeds_[model_.token_type_ids] = std::vector<double>(static_cast<size_t>(rows * kLength), 0);
    const auto count = [&](ValueId id) {
      return static_cast<size_t>(element_count(builder_.graph().type(id)));
    };
    feeds_[model_.row_weights] = weights_of(feeds_[model_.labels], count(model_.row_weights));
    const auto per_row = count(model_.row_weights) / static_cast<size_t>(rows);
    double total = 0;
    for (const double weight : weights_of(golden("labels"), per_row * kRows)) total += weight;
    feeds_[model_.inv_total] = {1 / total};
    feed_golden(false, 1);
  }
};

TEST_P(Task_parity, weights_have_the_names_and_shapes_of_transformers) {
  build(0, kRows);
  expect_golden_names_and_shapes();
}

TEST_P(Task_parity, logits_loss_and_every_gradient_are_equal) {
  build(0, kRows);
  expect_golden_pass();
}

TEST_P(Task_parity, pieces_of_the_batch_add_up_to_the_whole) {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1}, {1, 2}}) {
    builder_ = GraphBuilder(op_registry(), "model");
    build(first, rows);
    const auto appended = autodiff::append_gradients(builder_, model_.loss, kNone, parameters_);
    values_ = evaluate(builder_.graph(), feeds_);
    loss += values_.at(model_.loss)[0];
    for (const auto& [parameter, gradient] : appended) {
      std::vector<double>& sum = gradients[name_of(parameter)];
      const std::vector<double>& piece = values_.at(gradient);
      sum.resize(piece.size());
      for (size_t i = 0; i < piece.size(); ++i) sum[i] += piece[i];
    }
  }
  expect_equal({loss}, "loss");
  for (const auto& [name, sum] : gradients) expect_equal(sum, "grad/" + name);
}

INSTANTIATE_TEST_SUITE_P(Tasks, Task_parity, testing::ValuesIn(names()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace snug
