// SPDX-License-Identifier: Apache-2.0
#include "verbs/split_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "io/file.h"
#include "models/model.h"
#include "ops/optimizer/optimizers.h"
#include "optim/state_storage.h"
#include "run_model/model_weights.h"
#include "train/trainer.h"
#include "verbs/budget_check.h"

namespace snug::verbs {

using train::optimizer_of;

namespace {

constexpr double kRounding = 1.0 / (1 << 24);
constexpr double kConfidence = 8;
constexpr int64_t kChunkFloats = 16 << 10;

double squared_norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float each : values) sum += static_cast<double>(each) * static_cast<double>(each);
  return sum;
}

double share_of(const optim::Options& options) {
  return (*options.optimizer->gradient_share)(options.settings);
}

bool has_states(const optim::Options& options) {
  return !optim::states_of(options, "any", {1, 1}).empty();
}

class SplitRun {
 public:
  SplitRun(const SplitCase& it, const SessionPlan& plan)
      : it_(it),
        plan_(plan),
        session_(plan),
        sampler_(run_rows::train_sampler(it.config, *it.setup.data)),
        batch_(sampler_.next()),
        rows_({.rows = it.setup.data->train.get(),
               .task = it.setup.model.task,
               .pad_id = it.setup.data->pad_id()}) {
    run_model::initialize_weights(it.setup.model, session_);
  }

  /// Sum of the norms of the micro-batches' gradients, each divided by the whole batch's weight.
  double magnitude() {
    double sum = 0;
    double whole = 0;
    const auto micro_batch = static_cast<size_t>(plan_.report().micro_batch);
    for (size_t slot = 0; slot < batch_.rows.size(); slot += micro_batch) {
      data::BatchPlan piece = batch_;
      piece.rows = batch_.rows.subspan(slot, std::min(micro_batch, batch_.rows.size() - slot));
      rows_.begin(piece);
      const double weight = rows_.total_weight(models::kLabels).value();
      sum += weight * session_.step(rows_, {.is_skipped = true}).grad_norm;
      whole += weight;
    }
    return whole > 0 ? sum / whole : 0;
  }

  [[nodiscard]] double summands() const {
    return plan_.summands(batch_.bucket_length) +
           static_cast<double>(static_cast<int64_t>(batch_.rows.size()) * batch_.bucket_length);
  }

  /// One update at a rate of 1, so that weights show their gradients where the optimizer keeps
  /// nothing else of them; returns what a gradient is multiplied by on its way into what is
  /// compared.
  double update() {
    rows_.begin(batch_);
    const StepResult result = session_.step(rows_, {.learning_rate = 1});
    const double most = it_.config.max_grad_norm;
    const double clip = most > 0 ? std::min(1.0, most / (result.grad_norm + 1e-6)) : 1.0;
    const double share = share_of(optimizer_of(it_.config));
    return clip * (share > 0 ? share : 1);
  }

  /// What is compared.
  [[nodiscard]] std::vector<TensorInfo> compared() const {
    const optim::Options options = optimizer_of(it_.config);
    const std::vector<TensorInfo> tensors = session_.tensors();
    std::vector<TensorInfo> found;
    for (const TensorInfo& tensor : tensors) {
      if (tensor.kind != TensorKind::parameter || tensor.is_frozen_code()) continue;
      const std::vector<optim::NamedState> states =
          optim::states_of(options, tensor.name, tensor.shape);
      if (states.empty()) {
        found.push_back(tensor);
        continue;
      }
      const auto state = std::ranges::find(tensors, states[0].name, &TensorInfo::name);
      if (state != tensors.end()) found.push_back(*state);
    }
    return found;
  }
  /// Calls use(values) for all of the tensor in order.
  template <class Use>
  void read(const TensorInfo& tensor, Use use) const {
    session_.read_bytes(tensor.name, [&](std::span<const std::byte> bytes) {
      use(std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)));
    });
  }

 private:
  const SplitCase& it_;
  const SessionPlan& plan_;
  Session session_;
  data::TrainSampler sampler_;
  data::BatchPlan batch_;
  train::BatchRows rows_;
};

double squared_distance(std::span<const float> values, const io::File& file, int64_t& offset) {
  std::vector<float> other(static_cast<size_t>(kChunkFloats));
  double sum = 0;
  for (size_t at = 0; at < values.size(); at += other.size()) {
    const size_t count = std::min(other.size(), values.size() - at);
    const auto bytes = static_cast<int64_t>(count * sizeof(float));
    file.read_at(offset, reinterpret_cast<std::byte*>(other.data()), bytes);
    offset += bytes;
    for (size_t i = 0; i < count; ++i) {
      const double difference = static_cast<double>(values[at + i]) - static_cast<double>(other[i]);
      sum += difference * difference;
    }
  }
  return sum;
}

}  // namespace

bool shows_gradients(const RunConfig& config) {
  // Codes, of states and of weights, round more than the order of a sum does.
  const bool has_codes = config.weight_dtype != RunConfig().weight_dtype ||
                         optim::has_codes(config.optim_bits, config.optim_bits_overrides);
  const optim::Options options = optimizer_of(config);
  return !has_codes && (share_of(options) > 0 || !has_states(options));
}

RunConfig with_plain_updates(const RunConfig& config) {
  RunConfig plain = config;
  for (const char* key : {"adam_beta1", "adam_beta2", "adam_epsilon", "momentum"})
    plain.set(key, "auto");
  plain.set("nesterov", "false");
  plain.set("optim_args", "");
  plain.set("optim_bits", "32");
  plain.set("optim_bits_overrides", "");
  plain.optim_codec = RunConfig().optim_codec;
  plain.weight_dtype = RunConfig().weight_dtype;
  for (const Optimizer* each : optimizers()) {
    plain.optim = *each->name;
    if (!has_states(optimizer_of(plain))) return plain;
  }
  SNUG_CHECK(false, "no optimizer is without states");
  return plain;
}

SplitDifference compare_splits(const SplitCase& it, const SessionPlan& first,
                               const SessionPlan& second) {
  const auto is_split = [](const SessionPlan& plan) {
    return plan.report().accumulation_steps > 1;
  };
  SNUG_CHECK(is_split(first) || is_split(second), "no splits");
  SplitDifference difference;
  double magnitude = 0;
  double summands = 0;
  double factor = 0;
  {
    SplitRun run(it, first);
    if (is_split(first)) magnitude = run.magnitude();
    summands = run.summands();
    factor = run.update();
    const std::vector<TensorInfo> compared = run.compared();
    FilesInFolder files{.key = it.config.cache_dir.empty() ? "TMPDIR" : "cache_dir",
                        .folder = io::parent_folder(it.file),
                        .process_bytes = first.report().planned_peak_bytes,
                        .smallest_bytes = first.report().smallest_budget_bytes};
    for (const TensorInfo& tensor : compared)
      files.bytes += element_count(tensor.shape) * int64_t{sizeof(float)};
    check_files_in_memory(files);
    io::File file = io::File::create(it.file);
    for (const TensorInfo& tensor : compared) {
      run.read(tensor, [&file](std::span<const float> values) {
        file.write_all(values.data(), static_cast<int64_t>(values.size_bytes()));
      });
    }
  }
  SplitRun run(it, second);
  if (is_split(second)) magnitude = std::max(magnitude, run.magnitude());
  summands = std::max(summands, run.summands());
  factor = std::max(factor, run.update());
  const io::File file = io::File::open_read(it.file);
  double distance = 0;
  double whole = 0;
  int64_t offset = 0;
  for (const TensorInfo& tensor : run.compared()) {
    run.read(tensor, [&](std::span<const float> values) {
      distance += squared_distance(values, file, offset);
      whole += squared_norm_of(values);
    });
  }
  difference.found = std::sqrt(distance);
  difference.gradient = std::sqrt(whole);
  difference.allowed = kConfidence * kRounding * std::sqrt(summands) * factor * magnitude +
                       4 * kRounding * difference.gradient;
  return difference;
}

}  // namespace snug::verbs
