// SPDX-License-Identifier: Apache-2.0
// snug_call: from the words of C to a verb.
#include <cstdlib>

#include "answer.h"
#include "verbs.h"

extern "C" {

char* snug_call(const char* verb, const snug_option* options, size_t count, snug_event event,
                void* context) {
  using namespace snug;
  return c_api::answered([&] {
    if (verb == nullptr) throw Error(ErrorCode::bad_config, "snug_call", "there is no verb");
    c_api::Call call(options, count, event, context);
    return c_api::run_verb(verb, call);
  });
}

void snug_free(char* text) { std::free(text); }

}  // extern "C"
