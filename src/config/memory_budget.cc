// SPDX-License-Identifier: Apache-2.0
// Budget forms and their bytes; the process's own resident set. Where the machine's limit comes
// from: cgroup.cc.
#include "config/memory_budget.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "base/numbers.h"
#include "base/units.h"
#include "config/option.h"
#include "io/file.h"
#include "snug/error.h"
#include "snug/memory.h"

namespace snug {
namespace config {
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
  if (!bytes || (!is_all_but && *bytes < kPageBytes)) return std::nullopt;
  return MemorySpec{.kind = is_all_but ? Kind::all_but : Kind::bytes, .bytes = *bytes};
}

}  // namespace config

namespace {

// A field of /proc/self/status in bytes.
int64_t status_bytes(std::string_view field) {
  const std::string path = "/proc/self/status";
  const std::string text = io::read_all(path, 1 << 20);
  const size_t line = text.find("\n" + std::string(field) + ":");
  if (line == std::string::npos) {
    throw Error(ErrorCode::io, path, "there is no " + std::string(field), "is /proc mounted?");
  }
  size_t begin = line + field.size() + 2;
  while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\t')) ++begin;
  int64_t kib = 0;
  (void)std::from_chars(text.data() + begin, text.data() + text.size(), kib);
  return kib * 1024;
}

}  // namespace

MemorySpec parse_memory(std::string_view text, std::string_view key) {
  if (const std::optional<MemorySpec> spec = config::try_parse_memory(text)) return *spec;
  throw Error(
      ErrorCode::bad_config, std::string(key),
      "'" + std::string(text) + "' is not an amount of memory of at least one page (4096 bytes)",
      std::string(config::kMemoryForms));
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

int64_t resolve_memory(const MemorySpec& spec, const std::string& root) {
  if (spec.kind == MemorySpec::Kind::bytes) return spec.bytes / kPageBytes * kPageBytes;
  const MemoryLimit limit = machine_memory(root);
  int64_t bytes = limit.bytes;
  if (spec.kind == MemorySpec::Kind::all_but) bytes -= std::min(spec.bytes, bytes);
  if (spec.kind == MemorySpec::Kind::percent) {
    bytes = static_cast<int64_t>(std::floor(static_cast<double>(bytes) * spec.percent / 100.0));
  }
  if (bytes < kPageBytes) {
    throw Error(ErrorCode::bad_config, "memory",
                "'" + to_string(spec) + "' leaves nothing of the " + format_bytes(limit.bytes) +
                    " that the " + limit.source + " allows",
                "give a larger amount");
  }
  return bytes / kPageBytes * kPageBytes;
}

int64_t current_rss_bytes() { return status_bytes("VmRSS"); }
int64_t peak_rss_bytes() { return status_bytes("VmHWM"); }

bool reset_peak_rss() {
  try {
    io::File file = io::File::append("/proc/self/clear_refs");
    file.write_all("5");  // 5 resets the high-water mark of the resident set
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace snug
