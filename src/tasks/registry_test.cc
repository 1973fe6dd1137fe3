// SPDX-License-Identifier: Apache-2.0
// What holds of every task: names, labels, and a loss that the network's logits can have.
#include "tasks/registry.h"
#include "ops/fed_names.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/verify.h"
#include "ops/registry.h"

namespace snug::tasks {
namespace {

TEST(Tasks, have_names_metrics_and_inputs_of_their_own) {
  std::set<std::string> names;
  for (const Task* task : all_tasks()) {
    EXPECT_TRUE(names.insert(*task->name).second) << *task->name;
    EXPECT_EQ(find_task(*task->name), task);
    EXPECT_EQ(task_of_head(*task->head), task) << *task->name;
    EXPECT_FALSE(task->rows->columns.empty()) << *task->name;
    EXPECT_FALSE(task->inputs->empty()) << *task->name;
    EXPECT_FALSE(task->metrics->empty()) << *task->name;
    for (const Metric& metric : *task->metrics) {
      EXPECT_EQ(find_metric(*task, metric.name)->name, metric.name);
      EXPECT_EQ(is_greater_better(metric.name), metric.is_greater_better) << metric.name;
    }
    EXPECT_EQ(find_metric(*task, "loss")->name, "loss");
  }
  EXPECT_EQ(find_task("anything else"), nullptr);
  EXPECT_EQ(task_of_head({}), nullptr);
}

TEST(Tasks, f1_is_the_macro_mean_of_labels_and_that_of_spans) {
  for (const auto& [task, metric] :
       {std::pair<const char*, const char*>{"classification", "macro_f1"},
        {"multi_label", "macro_f1"},
        {"token_classification", "f1"}})
    EXPECT_EQ(find_metric(*find_task(task), "f1")->name, metric) << task;
  EXPECT_EQ(find_metric(*find_task("classification"), "micro_f1")->name, "accuracy");
}

TEST(Tasks, training_adds_what_is_fed_and_a_scalar_loss) {
  for (const Task* task : all_tasks()) {
    for (const bool is_training : {true, false}) {
      GraphBuilder builder(op_registry(), "task");
      models::SequenceModel model;
      model.logits = builder.op1("neg", {builder.input("x", {DType::f32, {2, 3}})});
      finish(builder, model, *task, {}, is_training);
      verify(builder.graph());
      EXPECT_EQ(builder.graph().find(models::kLogits), model.logits);
      EXPECT_EQ(model.labels != kNone, is_training) << *task->name;
      if (!is_training) continue;
      EXPECT_EQ(builder.graph().find(models::kLabels), model.labels) << *task->name;
      EXPECT_EQ(builder.graph().find(kRowWeights), model.row_weights) << *task->name;
      EXPECT_EQ(builder.shape(model.labels)[0], 2) << *task->name;
      EXPECT_EQ(builder.shape(model.row_weights)[0], 2) << *task->name;
      EXPECT_TRUE(builder.shape(model.loss).empty()) << *task->name;
    }
  }
}

TEST(Tasks, labels_are_for_the_first_task_that_they_fit) {
  const auto task_of = [](const data::LabelSurvey& survey) { return *task_of_labels(survey).name; };
  EXPECT_EQ(task_of({.labelled = 3, .all_numbers = false}), "classification");
  EXPECT_EQ(task_of({.labelled = 3}), "classification");
  EXPECT_EQ(task_of({.labelled = 3, .has_fraction = true}), "regression");
  EXPECT_EQ(task_of({.labelled = 3, .all_numbers = false, .has_fraction = true}), "classification");
  EXPECT_EQ(task_of({.labelled = 3, .lists_of_numbers = 3, .all_numbers = false}), "regression");
  EXPECT_EQ(task_of({.labelled = 3, .lists_of_text = 1, .all_numbers = false}), "multi_label");
  EXPECT_EQ(task_of({.labelled = 3, .lists_of_text = 3, .lists_of_words = 3, .all_numbers = false}),
            "token_classification");
  // Its reader says that labels of words are text.
  EXPECT_EQ(
      task_of({.labelled = 3, .lists_of_numbers = 3, .lists_of_words = 3, .all_numbers = false}),
      "token_classification");
}

TEST(Task, numbers_that_round_to_zero_have_no_sign) {
  EXPECT_EQ(number_text("QWK", -2e-16), "QWK 0.0000");
  EXPECT_EQ(number_text("QWK", -0.00006), "QWK -0.0001");
}

}  // namespace
}  // namespace snug::tasks
