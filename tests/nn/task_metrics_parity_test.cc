// SPDX-License-Identifier: Apache-2.0
// Metrics of every task against scikit-learn's, scipy's and seqeval's:
// tools/golden/task_metrics.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tasks/registry.h"

namespace snug {
namespace {

TEST(Task_metrics, equal_those_of_the_field_s_libraries) {
  std::ifstream file(SNUG_SOURCE_DIR "/tests/golden/task_metrics.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  size_t compared = 0;
  for (const nlohmann::json& each : golden.at("cases")) {
    const tasks::Task* task = tasks::find_task(each.at("task").get<std::string>());
    ASSERT_NE(task, nullptr) << each.at("task");
    tasks::Context context{.labels = each.at("labels").get<std::vector<std::string>>(),
                           .settings = {}};
    if (each.contains("threshold")) context.settings.threshold = each["threshold"].get<double>();
    const auto rows = static_cast<int64_t>(each.at("rows").size());
    const std::unique_ptr<tasks::Meter> meter = (*task->meter)(context, rows);
    data::RowColumns columns;
    for (const nlohmann::json& row : each.at("rows")) {
      columns.clear();
      for (const auto& values : row.value("integers", std::vector<std::vector<int32_t>>())) {
        std::copy(values.begin(), values.end(),
                  columns.add_integers(static_cast<int64_t>(values.size())).begin());
      }
      for (const auto& values : row.value("reals", std::vector<std::vector<float>>())) {
        std::copy(values.begin(), values.end(),
                  columns.add_reals(static_cast<int64_t>(values.size())).begin());
      }
      meter->add(columns, row.at("output").get<std::vector<float>>());
    }
    const EvalMetrics found = meter->result();
    EXPECT_EQ(found.rows, rows);
    for (const auto& [name, value] : each.at("metrics").items()) {
      ASSERT_TRUE(found.find(name).has_value()) << *task->name << " " << name;
      const double wanted =
          value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
      EXPECT_EQ(std::isnan(*found.find(name)), std::isnan(wanted)) << *task->name << " " << name;
      if (!value.is_null()) {
        EXPECT_NEAR(*found.find(name), wanted, 1e-12) << *task->name << " " << name << " " << rows;
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 100u);
}

}  // namespace
}  // namespace snug
