// SPDX-License-Identifier: Apache-2.0
#include "verbs/split_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "graph/op_def.h"
#include "io/file.h"
#include "ops/optimizer/optimizers.h"
#include "setup/model_network.h"
#include "setup/model_weights.h"
#include "train/trainer.h"

namespace snug::train {
namespace {

constexpr double kRounding = 1.0 / (1 << 24);
constexpr double kConfidence = 8;
constexpr int64_t kChunkFloats = 16 << 10;

double squared_norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float each : values) sum += static_cast<double>(each) * static_cast<double>(each);
  return sum;
}

// Over all nodes, how many numbers an output is the sum of; and the rows of the batch.
double summands_of(const PlannedProgram& program, int64_t rows) {
  double sum = static_cast<double>(rows * program.length.of());
  for (size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const NodeSpec spec = spec_of(program.graph, static_cast<NodeId>(i));
    double elements = 0;
    for (const TensorType& type : spec.outputs)
      elements += static_cast<double>(element_count(type));
    const double flops = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs}).flops;
    sum += std::max(1.0, flops / std::max(1.0, elements));
  }
  return sum;
}

double share_of(const optim::Options& options) {
  return (*options.optimizer->gradient_share)(options.settings);
}

bool has_states(const optim::Options& options) {
  return !optim::states_of(options, "any", {1, 1}).empty();
}

/// The run whose first update is compared: at a constant rate of 1, so that weights show their
/// gradients where the optimizer keeps nothing else of them.
RunConfig at_rate_of_one(const RunConfig& config) {
  RunConfig constant = config;
  constant.set("lr_scheduler_type", "constant");
  constant.set("warmup_steps", "0");
  constant.set("warmup_ratio", "0");
  constant.set("learning_rate", "1");
  return constant;
}

class SplitRun {
 public:
  SplitRun(const SplitCase& it, const RunPlan& plan)
      : it_(it),
        config_(at_rate_of_one(it.config)),
        plan_(plan),
        engine_(plan, *it.machine.backend, it.options.memory),
        sampler_(train_sampler(it.config, *it.setup.data)),
        batch_(sampler_.next()),
        feed_{.rows = it.setup.data->train.get(),
              .task = it.setup.model.task,
              .pad_id = it.setup.data->pad_id(),
              .seed = static_cast<uint64_t>(it.config.seed)},
        feeder_(feed_) {
    (void)initialize_weights(it.setup.model, engine_, feed_.seed, it.machine.threads);
  }

  /// Sum of the norms of the micro-batches' gradients.
  double magnitude() {
    double sum = 0;
    Executable& program = engine_.train(engine_.bucket_of(batch_.bucket_length));
    const auto rows = static_cast<int64_t>(batch_.rows.size());
    const RowBatch pieces(feeder_, batch_);
    for (int64_t slot = 0; slot < rows; slot += plan_.micro_batch) {
      pieces.fill(engine_, slot, 0);
      engine_.run(program);
      double squares = 0;
      for (const auto& [name, entry] : plan_.residents.entries()) {
        if (!name.starts_with(kGradientPrefix)) continue;
        const std::span<float> gradient = engine_.write<float>(name);
        squares += squared_norm_of(gradient);
        std::fill(gradient.begin(), gradient.end(), 0.0f);
      }
      sum += std::sqrt(squares);
    }
    return sum;
  }

  [[nodiscard]] double summands() const {
    const auto bucket = engine_.bucket_of(batch_.bucket_length);
    return summands_of(plan_.train[bucket], static_cast<int64_t>(batch_.rows.size()));
  }

  /// One update; returns what a gradient is multiplied by on its way into what is compared.
  double update() {
    const UpdateResult result = run_update(engine_, RowBatch(feeder_, batch_), {}, rule_at_one());
    const Recipe recipe = recipe_of(config_);
    const double clip = recipe.max_grad_norm > 0
                            ? std::min(1.0, recipe.max_grad_norm / (result.grad_norm + 1e-6))
                            : 1.0;
    const double share = share_of(recipe.optimizer);
    return clip * (share > 0 ? share : 1);
  }

  /// Groups of weights have rates of their own, which might hide a difference: 1 for all.
  [[nodiscard]] UpdateRule rule_at_one() const {
    UpdateRule rule = update_rule(config_, parameter_names(network_of(it_.setup.model)), 1);
    std::fill(rule.rates.begin(), rule.rates.end(), 1);
    return rule;
  }

  /// What is compared, value after value.
  [[nodiscard]] std::vector<std::span<const float>> compared() const {
    const optim::Options options = recipe_of(config_).optimizer;
    std::vector<std::span<const float>> values;
    for (const auto& [name, entry] : plan_.residents.entries()) {
      if (entry.kind != ValueKind::parameter) continue;
      const std::vector<optim::NamedState> states =
          optim::states_of(options, name, entry.type.shape);
      if (states.empty()) values.push_back(engine_.read<float>(name));
      if (!states.empty() && engine_.has(states[0].name))
        values.push_back(engine_.read<float>(states[0].name));
    }
    return values;
  }

 private:
  const SplitCase& it_;
  RunConfig config_;
  const RunPlan& plan_;
  Engine engine_;
  data::TrainSampler sampler_;
  data::BatchPlan batch_;
  FeedContext feed_;
  Feeder feeder_;
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
  const Recipe recipe = recipe_of(config);
  // Codes round more than the order of a sum does.
  return !optim::has_codes(recipe.states) &&
         (share_of(recipe.optimizer) > 0 || !has_states(recipe.optimizer));
}

RunConfig with_plain_updates(const RunConfig& config) {
  RunConfig plain = config;
  for (const char* key : {"adam_beta1", "adam_beta2", "adam_epsilon", "momentum"})
    plain.set(key, "auto");
  plain.set("nesterov", "false");
  plain.set("optim_args", "");
  plain.set("optim_bits", "32");
  plain.set("optim_bits_overrides", "");
  for (const Optimizer* each : optimizers()) {
    plain.optim = *each->name;
    if (!has_states(recipe_of(plain).optimizer)) return plain;
  }
  SNUG_CHECK(false, "no optimizer is without states");
  return plain;
}

SplitDifference compare_splits(const SplitCase& it, const RunPlan& first, const RunPlan& second) {
  SNUG_CHECK(first.accumulation_steps > 1 || second.accumulation_steps > 1, "no splits");
  SplitDifference difference;
  double magnitude = 0;
  double summands = 0;
  double factor = 0;
  {
    SplitRun run(it, first);
    if (first.accumulation_steps > 1) magnitude = run.magnitude();
    summands = run.summands();
    factor = run.update();
    io::File file = io::File::create(it.file);
    for (const std::span<const float> values : run.compared())
      file.write_all(values.data(), static_cast<int64_t>(values.size_bytes()));
  }
  SplitRun run(it, second);
  if (second.accumulation_steps > 1) magnitude = std::max(magnitude, run.magnitude());
  summands = std::max(summands, run.summands());
  factor = std::max(factor, run.update());
  const io::File file = io::File::open_read(it.file);
  double distance = 0;
  double whole = 0;
  int64_t offset = 0;
  for (const std::span<const float> values : run.compared()) {
    distance += squared_distance(values, file, offset);
    whole += squared_norm_of(values);
  }
  difference.found = std::sqrt(distance);
  difference.gradient = std::sqrt(whole);
  difference.allowed = kConfidence * kRounding * std::sqrt(summands) * factor * magnitude +
                       4 * kRounding * difference.gradient;
  return difference;
}

}  // namespace snug::train
