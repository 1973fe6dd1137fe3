// SPDX-License-Identifier: Apache-2.0
// snug_call: from the words of C to a verb, and from its end (a result, an error) to JSON.
#include <cstdlib>
#include <cstring>
#include <new>

#include "verbs.h"

namespace snug::c_api {
namespace {

std::string error_text(const Error& error) {
  return dumped({{"error",
                  {{"code", to_string(error.code())},
                   {"where", error.where()},
                   {"message", error.message()},
                   {"hint", error.hint()},
                   {"text", error.what()}}}});
}

std::string answer(const char* verb, const snug_option* options, size_t count, snug_event event,
                   void* context) {
  try {
    if (verb == nullptr) throw Error(ErrorCode::bad_config, "snug_call", "there is no verb");
    Call call(options, count, event, context);
    return "{\"result\":" + run_verb(verb, call) + "}";
  } catch (const Error& error) {
    return error_text(error);
  } catch (const std::bad_alloc&) {
    return error_text(
        Error(ErrorCode::out_of_budget, "memory", "the system is out of memory", "lower memory"));
  } catch (const std::exception& error) {
    return error_text(
        Error(ErrorCode::internal, "snug", error.what(), "please report this with the call"));
  }
}

}  // namespace
}  // namespace snug::c_api

extern "C" {

char* snug_call(const char* verb, const snug_option* options, size_t count, snug_event event,
                void* context) {
  try {
    const std::string text = snug::c_api::answer(verb, options, count, event, context);
    auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
  } catch (...) {
    return nullptr;
  }
}

void snug_free(char* text) { std::free(text); }

}  // extern "C"
