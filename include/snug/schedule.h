// SPDX-License-Identifier: Apache-2.0
// How a learning rate falls after its warm-up, by transformers' names and with the values of its
// get_scheduler.
#pragma once

#include <cstdint>

namespace snug {

// Every kind: one word, which is its name in a run configuration, too. src/optim/schedule.cc has
// the formulas.
#define SNUG_SCHEDULES(SNUG_SCHEDULE)      \
  SNUG_SCHEDULE(linear)                    \
  SNUG_SCHEDULE(cosine)                    \
  SNUG_SCHEDULE(constant)                  \
  SNUG_SCHEDULE(inverse_sqrt)              \
  SNUG_SCHEDULE(polynomial)                \
  SNUG_SCHEDULE(cosine_with_restarts)      \
  SNUG_SCHEDULE(cosine_with_min_lr)        \
  SNUG_SCHEDULE(cosine_warmup_with_min_lr) \
  SNUG_SCHEDULE(warmup_stable_decay)

#define SNUG_SCHEDULE_ENUMERATOR(word) word,
enum class ScheduleKind : uint8_t { SNUG_SCHEDULES(SNUG_SCHEDULE_ENUMERATOR) };
#undef SNUG_SCHEDULE_ENUMERATOR

}  // namespace snug
