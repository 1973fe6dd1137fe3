// SPDX-License-Identifier: Apache-2.0
// Texts of snug::Error.
#include "snug/error.h"

#include <algorithm>

namespace snug {
namespace {

// A byte that may have to be spelled out: a control character of ASCII, or before one of UTF-8.
bool is_suspect(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F || byte == 0xC2;
}

// Errors quote foreign bytes, and a terminal obeys some of them: control characters of ASCII and
// the ones that UTF-8 writes as C2 80 to C2 9F are spelled out ("\x1b").
std::string printable(const std::string& text) {
  if (std::none_of(text.begin(), text.end(), is_suspect)) return text;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_after_c2 = i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xC2;
    const bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F ||
                            (is_after_c2 && byte >= 0x80 && byte < 0xA0);
    if (!is_control) {
      out += text[i];
      continue;
    }
    if (is_after_c2) out.pop_back();
    constexpr char kDigits[] = "0123456789abcdef";
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

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

}  // namespace snug
