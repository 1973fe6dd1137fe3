// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl as a resumed run finds it: whole lines before the checkpoint stay, the next
// follows.
//
//   input: 64 bytes that stand before the text | bytes that count / 32 | text
#include <algorithm>
#include <string>

#include "fuzz/fuzz.h"
#include "io/file.h"
#include "train/metrics_log.h"

namespace snug::fuzz {

void read_metrics_log(std::string_view input) {
  std::string text(size_t{take_byte(input)} * 64, 'x');
  const size_t kept = size_t{take_byte(input)} * 32;
  text += input;
  const std::string path = write_file("metrics.jsonl", text);
  const size_t end = text.substr(0, kept).rfind('\n');
  const std::string lines = text.substr(0, end == std::string::npos ? 0 : end + 1);
  train::MetricsLog log(path, static_cast<int64_t>(kept));
  require(log.bytes() == static_cast<int64_t>(lines.size()), "whole lines are kept");
  log.write(7, {});
  const std::string after = io::read_all(path, 1 << 20);
  require(after == lines + "{\"step\":7,\"changed\":{}}\n", "the next line follows them");
}

}  // namespace snug::fuzz
