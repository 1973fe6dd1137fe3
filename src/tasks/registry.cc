// SPDX-License-Identifier: Apache-2.0
#include "tasks/registry.h"

#include <algorithm>

namespace snug::tasks {

#define SNUG_TASK(task) const Task& task##_task();
#include "tasks.inc"
#undef SNUG_TASK

const std::vector<const Task*>& all_tasks() {
  static const std::vector<const Task*> tasks = {
#define SNUG_TASK(task) &task##_task(),
#include "tasks.inc"
#undef SNUG_TASK
  };
  return tasks;
}

const Task& default_task() { return *all_tasks().front(); }

const Task* find_task(std::string_view name) {
  for (const Task* task : all_tasks()) {
    if (*task->name == name) return task;
  }
  return nullptr;
}

const Task& task_of_labels(const data::LabelSurvey& survey) {
  for (const Task* task : all_tasks()) {
    if ((*task->fits)(survey)) return *task;
  }
  return default_task();
}

const Task* task_of_head(const models::Head& head) {
  for (const Task* task : all_tasks()) {
    if (task->head->kind == head.kind && task->head->problem_type == head.problem_type) return task;
  }
  return nullptr;
}

std::string names_of(const std::vector<const Task*>& tasks) {
  std::string names;
  for (const Task* task : tasks) names += (names.empty() ? "" : ", ") + *task->name;
  return names;
}

namespace {

const Metric& loss_metric() {
  static const Metric loss{.name = kLossMetric, .is_greater_better = false};
  return loss;
}

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names = {loss_metric().name};
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Task* task : all_tasks()) {
    for (const Metric& metric : *task->metrics) {
      add(metric.name);
      for (const std::string& alias : metric.aliases) add(alias);
    }
  }
  return names;
}

const Metric* find_metric(const Task& task, std::string_view name) {
  if (name == loss_metric().name) return &loss_metric();
  for (const Metric& metric : *task.metrics) {
    const auto& aliases = metric.aliases;
    if (metric.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end())
      return &metric;
  }
  return nullptr;
}

bool is_greater_better(std::string_view metric) {
  for (const Task* task : all_tasks()) {
    if (const Metric* found = find_metric(*task, metric)) return found->is_greater_better;
  }
  return true;
}

}  // namespace snug::tasks
