// SPDX-License-Identifier: Apache-2.0
// All tasks of the program, from the words in tasks.cmake.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace snug::tasks {

/// In the order of the words.
[[nodiscard]] const std::vector<const Task*>& all_tasks();
/// The first of the list: what is meant where nothing says more.
[[nodiscard]] const Task& default_task();
/// Null where there is none.
[[nodiscard]] const Task* find_task(std::string_view name);
/// The first that fits.
[[nodiscard]] const Task& task_of_labels(const data::LabelSurvey& survey);
/// The one whose head this is; null where the head does not say.
[[nodiscard]] const Task* task_of_head(const models::Head& head);
/// "classification, regression"
[[nodiscard]] std::string names_of(const std::vector<const Task*>& tasks);

/// "loss" and every metric of every task, each once.
[[nodiscard]] std::vector<std::string> metric_names();
/// By name or alias; null where the task has none of that name. "loss" is every task's.
[[nodiscard]] const Metric* find_metric(const Task& task, std::string_view name);
/// Whether a greater value of this metric is better. The name is one of metric_names(), and means
/// the same in every task.
[[nodiscard]] bool is_greater_better(std::string_view metric);

}  // namespace snug::tasks
