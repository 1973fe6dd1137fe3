// SPDX-License-Identifier: Apache-2.0
// How a call ends for a caller in C: a result or an error, as JSON text that it frees; and how an
// error of the caller's own passes through.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "snug/error.h"

namespace snug::c_api {

using Json = nlohmann::ordered_json;

/// Text of other people's files may not be UTF-8.
[[nodiscard]] inline std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A number that is not finite has no JSON.
[[nodiscard]] inline Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// A callback has ended the call; the caller knows why by the number that it answered. No Error, so
/// that nothing on the way takes it for one of the library's.
class CallbackFailed : public std::exception {
 public:
  explicit CallbackFailed(int64_t answer) : answer_(answer) {}
  [[nodiscard]] int64_t answer() const { return answer_; }
  [[nodiscard]] const char* what() const noexcept override { return "a callback has failed"; }

 private:
  int64_t answer_;
};

/// A callback that failed where nothing may be thrown (the kernel of an op): the call that it was
/// made from ends with this once it is over.
void fail_later(int64_t answer);

/// Runs the work, whose result is JSON text, and gives {"result": ...} or {"error": ...}, to be
/// freed by snug_free; null where there is no memory for that.
[[nodiscard]] char* answered(const std::function<std::string()>& work) noexcept;

}  // namespace snug::c_api
