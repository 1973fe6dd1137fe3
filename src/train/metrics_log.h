// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object for each logged update. On resume, lines newer than the checkpoint
// are cut off.
#pragma once

#include <string>

#include "io/file.h"
#include "snug/session.h"

namespace snug::train {

class MetricsLog {
 public:
  /// Keeps the first `kept_bytes` of the file.
  MetricsLog(const std::string& path, int64_t kept_bytes);
  void write(const UpdateLog& line);
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  io::File file_;
  int64_t bytes_ = 0;
};

}  // namespace snug::train
