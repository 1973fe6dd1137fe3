// SPDX-License-Identifier: Apache-2.0
// The area by its definition, and which scores are kept.
#include "tasks/roc_auc.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "tasks/registry.h"

namespace snug::tasks {
namespace {

// Every pair, one by one.
double by_definition(const std::vector<ScoredRow>& rows) {
  double pairs = 0;
  double sum = 0;
  for (const ScoredRow& a : rows) {
    for (const ScoredRow& b : rows) {
      if (!a.has_label || b.has_label) continue;
      ++pairs;
      sum += a.score > b.score ? 1 : a.score == b.score ? 0.5 : 0;
    }
  }
  return sum / pairs;
}

TEST(Roc_auc, is_the_share_of_pairs_in_order) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<ScoredRow> rows(2 + random() % 40);
    for (ScoredRow& row : rows) row = {static_cast<double>(random() % 9), random() % 3 == 0};
    const double wanted = by_definition(rows);
    const double found = roc_auc(rows);
    EXPECT_EQ(std::isnan(found), std::isnan(wanted));
    if (!std::isnan(wanted)) {
      EXPECT_NEAR(found, wanted, 1e-14);
    }
  }
}

TEST(Roc_auc, a_score_that_is_no_number_has_no_order) {
  const double none = std::nan("");
  std::vector<ScoredRow> rows = {{1, true}, {none, false}, {0, false}};
  EXPECT_TRUE(std::isnan(roc_auc(rows)));
}

TEST(Roc_auc, scores_beyond_the_limit_are_kept_where_the_run_is_chosen_by_them) {
  constexpr int64_t kLabels = 16384;
  const Context context{.labels = std::vector<std::string>(kLabels, "x"), .settings = {}};
  Context chosen = context;
  chosen.settings.chosen_by = kRocAuc;
  const Task& task = *find_task("classification");
  EXPECT_EQ((*task.bytes_of_rows)(context.settings, kLabels, 10'000), 0);
  EXPECT_GE((*task.bytes_of_rows)(chosen.settings, kLabels, 10'000), kLabels * 10'000 * 8);
  EXPECT_GT((*task.bytes_of_rows)(context.settings, 2, 100'000), 100'000 * 8);
  const MetricValue found = *(*task.meter)(context, 10'000)->result().values.rbegin();
  EXPECT_EQ(found.name, kRocAuc);
  EXPECT_TRUE(std::isnan(found.value));
  EXPECT_NE(found.text.find("metric_for_best_model: roc_auc"), std::string::npos) << found.text;
}

TEST(Roc_auc, what_is_undefined_is_said) {
  KeptScores scores({"no", "yes"}, 2, {});
  EXPECT_EQ(scores.metric().text, "ROC-AUC undefined (no rows)");
  for (const double score : {0.25, 0.5}) {
    const double both[] = {score, 1 - score};
    scores.add(both, {score < 0.5, true});
  }
  EXPECT_EQ(scores.metric().text, "ROC-AUC undefined (every row is 'yes')");
  KeptScores controls({"\x1b[31m\n"}, 1, {});
  controls.add(std::array{0.5}, {false});
  EXPECT_EQ(controls.metric().text, "ROC-AUC undefined (no row is '\\x1b[31m\\x0a')");
}

}  // namespace
}  // namespace snug::tasks
