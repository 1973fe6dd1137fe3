// SPDX-License-Identifier: Apache-2.0
// The field "pattern" of Replace and Split: {"String": ...} or {"Regex": ...}.
#pragma once

#include "text/char_pattern.h"
#include "text/json_fields.h"

namespace snug::text {

[[nodiscard]] inline CharPattern read_pattern(const JsonFields& fields,
                                              bool* is_expression = nullptr) {
  const JsonFields pattern(fields.at("pattern"), fields.where(), "pattern");
  pattern.allow_only({"String", "Regex"});
  const bool is_regex = pattern.has("Regex");
  if (is_regex == pattern.has("String")) pattern.fail("is neither a String nor a Regex");
  if (is_expression != nullptr) *is_expression = is_regex;
  return is_regex ? CharPattern(pattern.required_string("Regex"), fields.where())
                  : CharPattern::literal(pattern.required_string("String"), fields.where());
}

}  // namespace snug::text
