// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace snug::train {

MetricsLog::MetricsLog(const std::string& path, int64_t kept_bytes)
    : file_(io::File::open_or_create(path)) {
  bytes_ = std::min(kept_bytes, file_.size_bytes());
  file_.truncate(bytes_);
}

void MetricsLog::write(const UpdateLog& line) {
  const nlohmann::ordered_json json = {{"step", line.step},
                                       {"epoch", line.epoch},
                                       {"loss", line.loss},
                                       {"learning_rate", line.learning_rate},
                                       {"grad_norm", line.grad_norm},
                                       {"tokens_per_second", line.tokens_per_second},
                                       {"arena_peak_bytes", line.arena_peak_bytes},
                                       {"rss_bytes", line.rss_bytes}};
  const std::string text = json.dump() + "\n";
  file_.write_at(bytes_, text.data(), static_cast<int64_t>(text.size()));
  bytes_ += static_cast<int64_t>(text.size());
}

}  // namespace snug::train
