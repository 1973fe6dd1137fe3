// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "error_text.h"

namespace snug::c_api {
namespace {

thread_local int64_t failed_later = 0;

std::string failed_text(int64_t answer) {
  return "{\"error\":{\"code\":\"callback\",\"answer\":" + std::to_string(answer) + "}}";
}

std::string text_of(const std::function<std::string()>& work) {
  try {
    return "{\"result\":" + work() + "}";
  } catch (const CallbackFailed& failed) {
    return failed_text(failed.answer());
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

void fail_later(int64_t answer) {
  if (failed_later == 0) failed_later = answer;
}

char* answered(const std::function<std::string()>& work) noexcept {
  try {
    const int64_t of_outer_call = std::exchange(failed_later, 0);
    std::string text = text_of(work);
    if (failed_later != 0) text = failed_text(failed_later);
    failed_later = of_outer_call;
    auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace snug::c_api
