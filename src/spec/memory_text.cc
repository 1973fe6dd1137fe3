// SPDX-License-Identifier: Apache-2.0
#include "spec/memory_text.h"

#include <string>

#include "base/numbers.h"
#include "base/units.h"
#include "snug/error.h"

namespace snug {
namespace spec {
namespace {

std::optional<int64_t> try_parse_bytes(std::string_view text) {
  try {
    return parse_bytes(text, "memory");
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<MemorySpec> try_parse_memory(std::string_view text) {
  using Kind = MemorySpec::Kind;
  if (text == "auto") return MemorySpec{};
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    const double percent = number_in<double>(text).value_or(0);
    if (!(percent > 0 && percent <= 100)) return std::nullopt;
    return MemorySpec{.kind = Kind::percent, .percent = percent};
  }
  const bool is_all_but = text.starts_with('-');
  if (is_all_but) text.remove_prefix(1);
  const std::optional<int64_t> bytes = try_parse_bytes(text);
  if (!bytes || (!is_all_but && *bytes < 1)) return std::nullopt;
  return MemorySpec{.kind = is_all_but ? Kind::all_but : Kind::bytes, .bytes = *bytes};
}

}  // namespace spec

MemorySpec parse_memory(std::string_view text, std::string_view key) {
  if (const std::optional<MemorySpec> spec = spec::try_parse_memory(text)) return *spec;
  throw Error(ErrorCode::bad_config, std::string(key),
              "'" + std::string(text) + "' is not an amount of memory",
              std::string(spec::kMemoryForms));
}

std::string to_string(const MemorySpec& spec) {
  switch (spec.kind) {
    case MemorySpec::Kind::automatic:
      return "auto";
    case MemorySpec::Kind::bytes:
      return std::to_string(spec.bytes);
    case MemorySpec::Kind::all_but:
      return "-" + std::to_string(spec.bytes);
    case MemorySpec::Kind::percent:
      break;
  }
  return number_text(spec.percent) + "%";
}

}  // namespace snug
