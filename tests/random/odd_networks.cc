// SPDX-License-Identifier: Apache-2.0
// Odd networks: each is planned with all kept, in the middle and in the smallest budget, and in
// other pieces of its batch. It has the same bits where the pieces are the same, the same loss and
// gradients up to the order of sums where they are not, the same predictions whatever the program's
// length, or it is refused by name.
//   odd_networks [--seed N] [--count N] [--only N]
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/numbers.h"
#include "odd_network.h"
#include "snug/error.h"

namespace snug::odd {
namespace {

constexpr double kBound = 2e-5;  // of the order of sums, relative to the largest

/// A promise that does not hold.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool holds, const std::string& what) {
  if (!holds) throw Broken(what);
}

struct Trained {
  int64_t micro_batch = 0;
  std::vector<double> losses = {};
  std::string bits = {};            // of all that the session keeps, behind the updates
  std::vector<float> outputs = {};  // before the updates
  double evaluated = 0;
};

SessionOptions options_of(const Traits& traits) {
  SessionOptions options{.batch_rows = kBatch, .memory = parse_memory("256MiB")};
  if (traits.has_length) options.lengths = {Lengths(kShort), Lengths(kLong)};
  options.learning_rate = 0.01;
  options.optim = traits.seed % 2 == 0 ? "adamw" : "sgd";
  options.max_grad_norm = traits.seed % 3 == 0 ? 0.5 : 0;
  options.threads = 1;
  return options;
}

std::string bits_of(const Session& session) {
  std::string all;
  for (const TensorInfo& tensor : session.tensors()) {
    const auto bytes = session.view_bytes(tensor.name);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

std::pair<std::vector<float>, double> outputs_of(Session& session, const Batch& batch) {
  std::vector<float> outputs;
  const Evaluation evaluation = session.evaluate(batch.rows(session), [&](const OutputRows& rows) {
    const auto values = rows.values.at("y");
    outputs.insert(outputs.end(), values.begin(), values.end());
  });
  return {outputs, evaluation.loss};
}

Trained train(const Network& network, const Traits& traits, const SessionOptions& options) {
  Session session(network, options);
  Trained trained;
  trained.micro_batch = session.plan().micro_batch;
  // What couples its rows takes whole batches.
  const bool is_coupled = !session.plan().row_coupling.empty();
  const Batch evaluated(traits, is_coupled ? 2 * kBatch : kBatch + 3, kLong, 7);
  std::tie(trained.outputs, trained.evaluated) = outputs_of(session, evaluated);
  // The last batch is smaller, and one is in the program of the shorter rows.
  trained.losses.push_back(session.step(Batch(traits, kBatch, kLong, 1).rows(session)).loss);
  trained.losses.push_back(session.step(Batch(traits, kBatch, kShort, 2).rows(session)).loss);
  trained.losses.push_back(
      session.step(Batch(traits, is_coupled ? kBatch : kBatch - 3, kLong, 3).rows(session)).loss);
  trained.bits = bits_of(session);
  return trained;
}

void near(double found, double wanted, double scale, const std::string& what) {
  require(std::abs(found - wanted) <= kBound * std::max(scale, 1.0),
          fmt::format("{} is {}, and {}", what, found, wanted));
}

void near(std::span<const float> found, std::span<const float> wanted, const std::string& what) {
  require(found.size() == wanted.size(), what + " has another size");
  double scale = 0;
  for (const float value : wanted) scale = std::max<double>(scale, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i)
    near(found[i], wanted[i], scale, fmt::format("{} at {}", what, i));
}

// What the two have in common although their batches are cut in other pieces.
void compare(const Trained& one, const Trained& other, const std::string& what) {
  if (one.micro_batch == other.micro_batch) {
    require(one.losses == other.losses, what + ": other losses");
    require(one.bits == other.bits, what + ": other bits behind the updates");
    require(one.outputs == other.outputs && one.evaluated == other.evaluated,
            what + ": other bits of an evaluation");
    return;
  }
  near(other.losses[0], one.losses[0], std::abs(one.losses[0]), what + ": the first loss");
  near(other.outputs, one.outputs, what + ": an output of the evaluation");
  near(other.evaluated, one.evaluated, std::abs(one.evaluated),
       what + ": the loss of the evaluation");
}

std::map<std::string, std::vector<float>> gradients_of(const Network& network, const Traits& traits,
                                                       SessionOptions options) {
  options.only_gradients = true;
  Session session(network, options);
  const bool is_coupled = !session.plan().row_coupling.empty();
  return session.gradients(Batch(traits, is_coupled ? kBatch : kBatch - 1, kLong, 4).rows(session))
      .of;
}

// Pieces of other sizes, which a network whose rows are coupled refuses.
bool check_splits(const Network& network, const Traits& traits, const Trained& whole) {
  SessionOptions options = options_of(traits);
  const auto wanted = gradients_of(network, traits, options);
  bool is_split = false;
  for (const int64_t rows : {8, 4, 2, 1}) {
    options.micro_batch_size = rows;
    try {
      compare(whole, train(network, traits, options), fmt::format("in pieces of {}", rows));
      for (const auto& [name, values] : gradients_of(network, traits, options))
        near(values, wanted.at(name),
             fmt::format("in pieces of {}: the gradient of {}", rows, name));
      is_split = is_split || rows < kBatch;
    } catch (const Error& error) {
      require(error.code() == ErrorCode::bad_config && rows < kBatch, error.what());
    }
  }
  return is_split;
}

// Rows that are short, in the program of their length and in that of longer ones.
void check_lengths(const Network& network, const Traits& traits) {
  if (!traits.has_length) return;
  const Batch batch(traits, kBatch, kShort, 5);
  SessionOptions options = options_of(traits);
  Session both(network, options);
  options.lengths = {Lengths(kLong)};
  Session longer(network, options);
  const auto [wanted, loss] = outputs_of(both, batch);
  const auto [found, other] = outputs_of(longer, batch);
  near(found, wanted, "an output in the program of longer rows");
  near(other, loss, std::abs(loss), "the loss in the program of longer rows");
}

void check_impure(const Network& network, const Traits& traits) {
  SessionOptions options = options_of(traits);
  options.repeats_own_ops = true;
  try {
    (void)train(network, traits, options);
  } catch (const Error& error) {
    require(std::string(error.what()).find("counted") != std::string::npos, error.what());
    return;
  }
  throw Broken("an op that counts its runs was taken");
}

struct Counts {
  int64_t equal = 0, split = 0, refused = 0;
  std::map<std::string, int64_t> reasons = {};
};

void check(const Traits& traits, Counts& counts) {
  const Network network = network_of(traits);
  std::optional<PlanReport> report;
  try {
    report = plan_network(network, options_of(traits));
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_graph || error.code() == ErrorCode::bad_config,
            error.what());
    require(!error.message().empty() && !error.hint().empty(),
            fmt::format("a refusal without a hint: {}", error.what()));
    ++counts.refused;
    ++counts.reasons[error.message().substr(0, 60)];
    return;
  }
  if (traits.is_impure) return check_impure(network, traits);
  const int64_t least = report->smallest_budget_bytes;
  const int64_t most = std::max(report->keep_all_peak_bytes, least);
  std::optional<Trained> first;
  for (const int64_t budget : {most, (least + most) / 2, least}) {
    SessionOptions options = options_of(traits);
    options.memory = parse_memory(std::to_string(budget));
    Trained trained = train(network, traits, options);
    if (first) compare(*first, trained, fmt::format("in {} bytes", budget));
    if (!first) first = std::move(trained);
  }
  check_lengths(network, traits);
  counts.split += check_splits(network, traits, *first) ? 1 : 0;
  ++counts.equal;
}

int64_t run(int64_t seed, int64_t count, std::optional<int64_t> only) {
  const auto begin = std::chrono::steady_clock::now();
  Counts counts;
  int64_t broken = 0;
  for (int64_t i = only.value_or(0); i < only.value_or(count - 1) + 1; ++i) {
    const Traits traits = traits_of(static_cast<uint64_t>(seed * 1000000 + i));
    try {
      check(traits, counts);
    } catch (const std::exception& error) {
      ++broken;
      fmt::print("FAILED {}: {}\n", i, error.what());
    }
  }
  for (const auto& [reason, times] : counts.reasons)
    fmt::print("  refused {} x: {}\n", times, reason);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print(
      "{} networks (seed {}), {} broken, {} equal ({} of them split), {} refused; {:.0f} s\n",
      only ? 1 : count, seed, broken, counts.equal, counts.split, counts.refused, seconds.count());
  return broken;
}

}  // namespace
}  // namespace snug::odd

int main(int argc, char** argv) {
  int64_t seed = 1;
  int64_t count = 300;
  std::optional<int64_t> only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const int64_t value = snug::number_in<int64_t>(argv[i + 1]).value_or(0);
    if (key == "--seed") seed = value;
    if (key == "--count") count = value;
    if (key == "--only") only = value;
  }
  return snug::odd::run(seed, count, only) == 0 ? 0 : 1;
}
