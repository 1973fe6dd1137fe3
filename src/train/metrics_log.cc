// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"
#include "snug/error.h"

namespace snug::train {

namespace {

constexpr int64_t kChunkBytes = 4096;
constexpr int64_t kMostLineBytes = 1 << 16;

// Bytes of the whole lines in the first `bytes` of the file.
int64_t whole_lines(const io::File& file, int64_t bytes) {
  std::string chunk;
  while (bytes > 0) {
    const int64_t begin = std::max<int64_t>(0, bytes - kChunkBytes);
    chunk.resize(static_cast<size_t>(bytes - begin));
    file.read_at(begin, reinterpret_cast<std::byte*>(chunk.data()), bytes - begin);
    const size_t newline = chunk.rfind('\n');
    if (newline != std::string::npos) return begin + static_cast<int64_t>(newline) + 1;
    bytes = begin;
  }
  return 0;
}

}  // namespace

std::optional<bool> has_evaluation(const std::string& path, int64_t bytes, int64_t step) {
  if (bytes == 0) return false;
  if (!io::file_exists(path)) return std::nullopt;
  io::TextFile file(path);
  if (file.total_bytes() < bytes) return std::nullopt;
  std::string line;
  while (file.position() < bytes &&
         file.read_line(line, kMostLineBytes) == io::TextFile::Line::ok) {
    try {
      if (io::parse_json(line, path).get_int("step") == step) return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_data) throw;
      return std::nullopt;
    }
  }
  return file.position() >= bytes ? std::optional(false) : std::nullopt;
}

MetricsLog::MetricsLog(const std::string& path, int64_t kept_bytes)
    : file_(io::File::open_or_create(path)) {
  bytes_ = whole_lines(file_, std::min(kept_bytes, file_.size_bytes()));
  file_.truncate(bytes_);
}

void MetricsLog::write_line(const std::string& text) {
  const std::string line = text + "\n";
  file_.write_at(bytes_, line.data(), static_cast<int64_t>(line.size()));
  bytes_ += static_cast<int64_t>(line.size());
}

void MetricsLog::write(int64_t step, const std::vector<KeyChange>& changes) {
  nlohmann::ordered_json changed = nlohmann::ordered_json::object();
  for (const KeyChange& change : changes)
    changed[change.key] = {{"from", change.before}, {"to", change.now}};
  write_line(nlohmann::ordered_json{{"step", step}, {"changed", changed}}.dump());
}

// Names of transformers' log_history.
void MetricsLog::write(const EvaluationLog& line) {
  nlohmann::ordered_json json = {{"step", line.step}, {"epoch", line.epoch}};
  json["eval_loss"] = line.metrics->loss;
  for (const MetricValue& each : line.metrics->values) json["eval_" + each.name] = each.value;
  json["eval_rows"] = line.metrics->rows;
  json["eval_runtime"] = line.seconds;
  json["eval_samples_per_second"] = line.rows_per_second();
  write_line(json.dump());
}

void MetricsLog::write(const UpdateLog& line) {
  const nlohmann::ordered_json json = {{"step", line.step},
                                       {"epoch", line.epoch},
                                       {"loss", line.loss},
                                       {"learning_rate", line.learning_rate},
                                       {"grad_norm", line.grad_norm},
                                       {"tokens_per_second", line.tokens_per_second},
                                       {"waiting_for_rows", line.waiting_for_rows},
                                       {"arena_peak_bytes", line.arena_peak_bytes},
                                       {"rss_bytes", line.rss_bytes},
                                       {"loss_scale", line.loss_scale},
                                       {"skipped_updates", line.skipped_updates}};
  write_line(json.dump());
}

}  // namespace snug::train
