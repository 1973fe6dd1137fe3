// SPDX-License-Identifier: Apache-2.0
// Texts of snug::Error.
#include "snug/error.h"

#include <utility>

#include "base/printable.h"
#include "snug/does_not_fit.h"

namespace snug {
namespace {

std::string compose(const std::string& where, const std::string& message, const std::string& hint) {
  std::string text = where.empty() ? message : "[" + where + "] " + message;
  if (!hint.empty()) text += "\nhint: " + hint;
  return text;
}

}  // namespace

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::ok:
      return "ok";
    case ErrorCode::invalid_graph:
      return "invalid_graph";
    case ErrorCode::shape_mismatch:
      return "shape_mismatch";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::out_of_budget:
      return "out_of_budget";
    case ErrorCode::bad_config:
      return "bad_config";
    case ErrorCode::bad_data:
      return "bad_data";
    case ErrorCode::io:
      return "io";
    case ErrorCode::device:
      return "device";
    case ErrorCode::numeric:
      return "numeric";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers hand over what they made
Error::Error(ErrorCode code, std::string where, const std::string& message, std::string hint)
    : std::runtime_error(compose(printable(where), printable(message), printable(hint))),
      code_(code),
      where_(printable(where)),
      message_(printable(message)),
      hint_(printable(hint)) {}

DoesNotFit::DoesNotFit(const std::string& where, const std::string& message, RefusalFacts facts,
                       const std::string& hint)
    : Error(ErrorCode::out_of_budget, where, message, hint), facts_(std::move(facts)) {}

}  // namespace snug
