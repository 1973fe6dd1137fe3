// SPDX-License-Identifier: Apache-2.0
// For tests: a network with a task behind it.
#pragma once

#include "tasks/registry.h"

namespace snug::tasks {

/// What `model` is once the task's loss stands behind it.
inline models::SequenceModel with_task(GraphBuilder& builder, models::SequenceModel model,
                                       bool is_training = true, const Task& task = default_task(),
                                       const TaskSettings& settings = {}) {
  finish(builder, model, task, settings, is_training);
  if (is_training) builder.mark_output(model.loss, "loss");
  return model;
}

}  // namespace snug::tasks
