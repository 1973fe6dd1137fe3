// SPDX-License-Identifier: Apache-2.0
// snug_call and snug_place: from the words of C to a verb.
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "answer.h"
#include "verbs.h"

extern "C" {

char* snug_call(const char* verb, const snug_option* options, size_t count, snug_event event,
                void* context) {
  using namespace snug;
  char* const text = c_api::answered([&] {
    if (verb == nullptr) throw Error(ErrorCode::bad_config, "snug_call", "there is no verb");
    c_api::Call call(options, count, event, context);
    return c_api::run_verb(verb, call);
  });
#ifdef __GLIBC__
  malloc_trim(0);  // what the verb has freed is no longer the process's
#endif
  return text;
}

char* snug_place(const int64_t* lower, const int64_t* upper, const int64_t* size, int64_t* offsets,
                 size_t ranges, const snug_option* options, size_t count, snug_event event,
                 void* context) {
  using namespace snug;
  return c_api::answered([&] {
    if (ranges > 0 &&
        (lower == nullptr || upper == nullptr || size == nullptr || offsets == nullptr))
      throw Error(ErrorCode::bad_config, "snug_place", "an array is missing");
    c_api::Call call(options, count, event, context);
    return c_api::place_arrays({lower, upper, size, offsets, ranges}, call);
  });
}

void snug_free(char* text) { std::free(text); }

}  // extern "C"
