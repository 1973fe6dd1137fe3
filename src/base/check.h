// SPDX-License-Identifier: Apache-2.0
// SNUG_CHECK states what must hold unless Snug itself has a bug; user errors throw snug::Error with
// their own text.
#pragma once

#include <string>

namespace snug {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& note);
}  // namespace snug

#define SNUG_CHECK(condition, note)                                               \
  do {                                                                            \
    if (!(condition)) ::snug::check_failed(__FILE__, __LINE__, #condition, note); \
  } while (false)

#ifdef NDEBUG
#define SNUG_DCHECK(condition, note) \
  do {                               \
  } while (false)
#else
#define SNUG_DCHECK(condition, note) SNUG_CHECK(condition, note)
#endif
