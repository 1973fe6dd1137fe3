// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object for each logged update, and one for each resume that changed keys.
// evaluations.jsonl: one for each evaluation. On resume, lines newer than the checkpoint are cut
// off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "snug/run.h"

namespace snug::train {

inline constexpr const char* kUpdateLog = "metrics.jsonl";
inline constexpr const char* kEvaluationLog = "evaluations.jsonl";

struct EvaluationLog {
  int64_t step = 0;
  double epoch = 0;
  const EvalMetrics* metrics = nullptr;
  double seconds = 0;
  [[nodiscard]] double rows_per_second() const {
    return static_cast<double>(metrics->rows) / seconds;
  }
};

/// A key that a resumed run changed.
struct KeyChange {
  std::string key;
  std::string before;
  std::string now;
};

/// Whether the first `bytes` of evaluations.jsonl hold an evaluation after update `step`. Nothing
/// where that cannot be known: the file, or a line of it, was lost.
[[nodiscard]] std::optional<bool> has_evaluation(const std::string& path, int64_t bytes,
                                                 int64_t step);

class MetricsLog {
 public:
  /// Keeps the whole lines in the first `kept_bytes` of the file.
  MetricsLog(const std::string& path, int64_t kept_bytes);
  void write(const UpdateLog& line);
  void write(const EvaluationLog& line);
  void write(int64_t step, const std::vector<KeyChange>& changes);
  /// Forces it to the disk: a checkpoint counts on the lines before it.
  void sync() { file_.sync(); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  void write_line(const std::string& text);

  io::File file_;
  int64_t bytes_ = 0;
};

}  // namespace snug::train
