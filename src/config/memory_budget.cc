// SPDX-License-Identifier: Apache-2.0
// What a budget is in bytes; the process's own resident set. Where the machine's limit comes from:
// cgroup.cc. Amounts as text: spec/memory_text.h.
#include "snug/memory.h"

#include <charconv>
#include <cmath>
#include <string>

#include "base/units.h"
#include "io/file.h"
#include "snug/error.h"

namespace snug {
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

int64_t resolve_memory(const MemorySpec& spec, const std::string& root) {
  if (spec.kind == MemorySpec::Kind::bytes)  // what is less than a page holds nothing
    return spec.bytes < kPageBytes ? spec.bytes : spec.bytes / kPageBytes * kPageBytes;
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
