// SPDX-License-Identifier: Apache-2.0
// Runs each op on small operands and fits its rate. Operands are measured both in cache and driven
// out of it: in a training step what was just written is read again from the cache, what was kept
// from the forward pass is not. All ops are run in rounds and the fastest run of each counts, until
// a round finds hardly anything faster: other work on the machine slows some rounds, hardly all.
#include "backend/cpu/measure_profile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/units.h"
#include "graph/builder.h"
#include "ops/registry.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace snug {
namespace {

constexpr int64_t kPoolBytes = int64_t{18} << 20;  // with kernels and descriptors below 24 MiB
constexpr int kMinRounds = 6;
constexpr int kMaxRounds = 16;
constexpr double kSmallGain = 0.005;  // of a round: the mean share of its time that an op lost
constexpr double kNever = 1e30;

// One node to measure.
struct Probe {
  std::string op;
  std::vector<TensorType> inputs;  // shape {-1}: absent
  Attrs attrs = {};
};

// The fastest runs of a probe so far.
struct Timing {
  Cost cost;
  double warm = kNever;
  double cold = kNever;
};

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
TensorType boolean(Shape shape) { return {DType::boolean, std::move(shape)}; }
TensorType rng() { return {DType::i64, {3}}; }
TensorType absent() { return {DType::i32, {-1}}; }

// All memory of the measurement: operands are laid out from its start for every probe.
class Pool {
 public:
  Pool() : bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, kPoolBytes))) {
    if (!bytes_) throw std::bad_alloc();
    // 0.5 as floats; ids, labels and keys are cleared by take().
    for (int64_t i = 0; i < kPoolBytes / 4; ++i) reinterpret_cast<float*>(bytes_.get())[i] = 0.5F;
  }
  void reset() { used_ = 0; }
  [[nodiscard]] bool fits(int64_t bytes) const { return used_ + round_up(bytes, 64) <= kPoolBytes; }
  std::byte* take(int64_t bytes) {
    std::byte* data = bytes_.get() + used_;
    used_ += round_up(bytes, 64);
    return data;
  }
  void drive_out_of_cache() const {
#if defined(__x86_64__)
    for (int64_t i = 0; i < used_; i += 64) _mm_clflush(bytes_.get() + i);
    _mm_mfence();
#endif
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  int64_t used_ = 0;
};

void fill(std::byte* data, const TensorType& type) {
  const int64_t count = element_count(type);
  if (type.dtype == DType::f32) {
    std::fill_n(reinterpret_cast<float*>(data), count, 0.5F);
  } else {
    std::memset(data, type.dtype == DType::boolean ? 1 : 0, static_cast<size_t>(byte_count(type)));
  }
}

// Runs once an update over all weights, which no cache holds.
bool is_update(const std::string& op) {
  return op == "adamw" || op == "sgd" || op == "sgd_momentum" || op == "accumulate" ||
         op == "set_zero" || op == "sum_squares";
}

// Of one run in a training step, as far as it was measured.
double seconds_of(const std::string& op, const Timing& timing) {
  return std::max(1e-9, is_update(op) ? timing.cold : 0.5 * (timing.warm + timing.cold));
}

// One round: nothing changes where there is no kernel for the op, or no room.
void measure(const Backend& backend, Pool& pool, const Probe& probe, Timing& timing) {
  if (op_registry().find(probe.op) == nullptr) return;
  GraphBuilder builder(op_registry(), "probe");
  std::vector<ValueId> values;
  for (size_t i = 0; i < probe.inputs.size(); ++i) {
    const bool is_absent = probe.inputs[i].shape == Shape{-1};
    values.push_back(is_absent ? kNone : builder.state("x" + std::to_string(i), probe.inputs[i]));
  }
  builder.op(probe.op, values, probe.attrs);
  const NodeSpec spec = spec_of(builder.graph(), 0);
  KernelChoice choice;
  try {
    choice = backend.select(spec);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return;
    throw;
  }
  int64_t needed = choice.scratch_bytes + 4096;
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    needed += round_up(byte_count(spec.inputs[i]), 64);
  for (const TensorType& type : spec.outputs) needed += round_up(byte_count(type), 64);
  pool.reset();
  if (!pool.fits(needed)) return;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    inputs.push_back(nullptr);
    if (!spec.present[i]) continue;
    std::byte* data = pool.take(byte_count(spec.inputs[i]));
    fill(data, spec.inputs[i]);
    inputs.back() = data;
  }
  for (const TensorType& type : spec.outputs) outputs.push_back(pool.take(byte_count(type)));
  const Alias& alias = *spec.op->alias;
  if (alias.kind == AliasKind::must_overwrite) {
    for (const auto& [out, in] : alias.pairs) {
      outputs[static_cast<size_t>(out)] = const_cast<std::byte*>(inputs[static_cast<size_t>(in)]);
    }
  }
  const Launch launch{
      .inputs = inputs, .outputs = outputs, .scratch = pool.take(choice.scratch_bytes)};
  const auto kernel = backend.create(spec);
  const auto timed_run = [&] {
    const auto start = std::chrono::steady_clock::now();
    (void)kernel->run(launch);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (kernel->run(launch) != ErrorCode::ok) return;
  for (int i = 0; i < 2; ++i) timing.warm = std::min(timing.warm, timed_run());
  pool.drive_out_of_cache();
  timing.cold = std::min(timing.cold, timed_run());
  timing.cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
}

struct ProbeGroup {
  RateBasis basis;
  std::vector<Probe> probes;  // of one kind
  std::string variant = {};   // of the op, as rate_kind() names it
};

// Shapes of encoders and, with few rows, of recurrent nets.
void append_products(std::vector<ProbeGroup>& groups) {
  const Attrs b_across = {{"transpose_b", true}};
  const Attrs a_across = {{"transpose_a", true}};
  groups.push_back({RateBasis::both,
                    {{"matmul", {f32({512, 768}), f32({768, 768}), f32({768})}, b_across},
                     {"matmul", {f32({512, 1024}), f32({256, 1024}), f32({256})}, b_across},
                     {"matmul", {f32({64, 768}), f32({768, 768}), absent()}, b_across},
                     {"matmul", {f32({32, 512}), f32({2048, 512}), f32({2048})}, b_across},
                     {"matmul", {f32({8, 256}), f32({256, 256}), absent()}, b_across}}});
  groups.push_back({RateBasis::both,
                    {{"matmul", {f32({1024, 256}), f32({256, 1024}), absent()}},
                     {"matmul", {f32({256, 768}), f32({768, 1536}), absent()}},
                     {"matmul", {f32({512, 1024}), f32({1024, 512}), absent()}},
                     {"matmul", {f32({32, 2048}), f32({2048, 512}), absent()}},
                     {"matmul", {f32({8, 256}), f32({256, 256}), absent()}}},
                    ".nn"});
  groups.push_back(
      {RateBasis::both,
       {{"matmul", {f32({512, 768}), f32({512, 768}), absent()}, a_across},
        {"matmul", {f32({2048, 256}), f32({2048, 256}), absent()}, a_across},
        {"matmul", {f32({512, 256}), f32({512, 1024}), absent()}, a_across},
        {"matmul_accumulate", {f32({512, 2048}), f32({32, 512}), f32({32, 2048})}, a_across},
        {"matmul", {f32({8, 256}), f32({8, 256}), absent()}, a_across}},
       ".tn"});
}

void append_convolutions(std::vector<ProbeGroup>& groups) {
  using Ints = std::vector<int64_t>;
  struct Layer {
    Shape x;
    Shape w;
    int64_t stride = 1;
  };
  ProbeGroup forward{RateBasis::both, {}};
  ProbeGroup input{RateBasis::both, {}};
  ProbeGroup weight{RateBasis::both, {}};
  for (const Layer& layer :
       {Layer{{1, 56, 56, 64}, {64, 64, 3, 3}}, Layer{{1, 56, 56, 64}, {128, 64, 1, 1}},
        Layer{{2, 28, 28, 128}, {128, 128, 3, 3}, 2}, Layer{{2, 14, 14, 512}, {256, 512, 1, 1}},
        Layer{{2, 14, 14, 192}, {192, 192, 3, 3}}, Layer{{16, 32, 32, 16}, {16, 16, 3, 3}}}) {
    const int64_t padding = layer.w[2] / 2;
    const int64_t side = (layer.x[1] - 1) / layer.stride + 1;
    const TensorType y = f32({layer.x[0], side, side, layer.w[0]});
    Attrs attrs = {{"stride", Ints{layer.stride, layer.stride}},
                   {"padding", Ints{padding, padding}}};
    forward.probes.push_back({"conv2d", {f32(layer.x), f32(layer.w), absent()}, attrs});
    attrs.set("image", Ints{layer.x[1], layer.x[2]});
    input.probes.push_back({"conv2d_grad_input", {f32(layer.w), y}, attrs});
    attrs = forward.probes.back().attrs;
    attrs.set("kernel", Ints{layer.w[2], layer.w[3]});
    weight.probes.push_back({"conv2d_grad_weight", {f32(layer.x), y}, attrs});
  }
  for (ProbeGroup* group : {&forward, &input, &weight}) groups.push_back(*group);
}

void append_attention(std::vector<ProbeGroup>& groups) {
  const Attrs attrs = {{"heads", int64_t{4}}, {"rate", 0.1}, {"ordinal", int64_t{0}}};
  ProbeGroup forward{RateBasis::flops, {}};
  ProbeGroup backward{RateBasis::flops, {}};
  for (const int64_t batch : {1, 6}) {
    const TensorType x = f32({batch, 128, 256});
    forward.probes.push_back({"attention", {x, x, x, boolean({batch, 128}), rng()}, attrs});
    backward.probes.push_back({"attention_grad",
                               {x, x, x, x, f32({batch, 4, 128}), x, boolean({batch, 128}), rng()},
                               attrs});
  }
  groups.push_back(forward);
  groups.push_back(backward);
}

// Ops that read and write every element once, on a few rows and on many.
void append_streams(std::vector<ProbeGroup>& groups) {
  constexpr int64_t kWidth = 256;
  using Ints = std::vector<int64_t>;
  const auto both_sizes = [&groups](auto probe_of_rows) {
    groups.push_back(
        {RateBasis::bytes, {probe_of_rows(int64_t{16}), probe_of_rows(int64_t{1536})}});
  };
  for (const char* op : {"add", "sub", "mul", "div"}) {
    both_sizes([op](int64_t rows) {
      return Probe{op, {f32({rows, kWidth}), f32({rows, kWidth})}};
    });
  }
  for (const char* op :
       {"neg", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "relu", "gelu"}) {
    both_sizes([op](int64_t rows) { return Probe{op, {f32({rows, kWidth})}}; });
  }
  const auto matrix = [](int64_t rows) { return f32({rows, kWidth}); };
  both_sizes([&](int64_t r) { return Probe{"relu_grad", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) { return Probe{"gelu_grad", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) { return Probe{"scale", {matrix(r)}, {{"factor", 0.5}}}; });
  both_sizes([&](int64_t r) {
    return Probe{"where", {boolean({r, kWidth}), matrix(r), matrix(r)}};
  });
  both_sizes([&](int64_t r) { return Probe{"greater", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) {
    return Probe{"dropout", {matrix(r), rng()}, {{"rate", 0.1}, {"ordinal", int64_t{0}}}};
  });
  both_sizes([&](int64_t r) { return Probe{"softmax", {matrix(r)}}; });
  both_sizes([&](int64_t r) { return Probe{"masked_softmax", {matrix(r), boolean({r, kWidth})}}; });
  both_sizes([&](int64_t r) { return Probe{"softmax_grad", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) {
    return Probe{"layer_norm", {matrix(r), f32({kWidth}), f32({kWidth})}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"layer_norm_grad", {matrix(r), f32({kWidth}), f32({r}), f32({r}), matrix(r)}};
  });
  both_sizes([&](int64_t r) {
    const TensorType state = f32({r, kWidth / 4});
    return Probe{"lstm_cell", {matrix(r), state, state, boolean({r})}};
  });
  both_sizes([&](int64_t r) {
    const TensorType state = f32({r, kWidth / 4});
    return Probe{"lstm_cell_grad", {matrix(r), state, boolean({r}), state, state}};
  });
  const TensorType channels = f32({kWidth});
  both_sizes([&](int64_t r) { return Probe{"batch_norm", {matrix(r), channels, channels}}; });
  both_sizes([&](int64_t r) {
    return Probe{"batch_norm_grad", {matrix(r), channels, channels, channels, matrix(r)}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"batch_norm_inference", {matrix(r), channels, channels, channels, channels}};
  });
  const Attrs halving = {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  both_sizes([&](int64_t r) {
    return Probe{"max_pool2d", {f32({r / 16, 16, 16, kWidth / 16})}, halving};
  });
  both_sizes([&](int64_t r) {
    return Probe{"max_pool2d_grad",
                 {f32({r / 16, 16, 16, kWidth / 16}), f32({r / 16, 8, 8, kWidth / 16})},
                 halving};
  });
  both_sizes([&](int64_t r) {
    return Probe{"transpose", {f32({r / 16, 16, 4, kWidth / 4})}, {{"perm", Ints{0, 2, 1, 3}}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{
        "slice", {matrix(r)}, {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"stop", kWidth / 2}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{
        "pad", {matrix(r)}, {{"axis", int64_t{1}}, {"before", int64_t{0}}, {"after", kWidth}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"concat", {matrix(r), matrix(r)}, {{"axis", int64_t{1}}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"broadcast_to", {f32({kWidth})}, {{"shape", Ints{r, kWidth}}}};
  });
  both_sizes([&](int64_t r) { return Probe{"sum_to", {matrix(r)}, {{"shape", Ints{kWidth}}}}; });
  both_sizes([&](int64_t r) { return Probe{"reduce_sum", {matrix(r)}, {{"axes", Ints{0}}}}; });
  both_sizes([&](int64_t r) { return Probe{"sum_squares", {matrix(r)}}; });
  both_sizes([&](int64_t r) { return Probe{"embedding", {f32({1024, kWidth}), i32({r})}}; });
  both_sizes([&](int64_t r) {
    return Probe{"embedding_grad", {i32({r}), matrix(r)}, {{"rows", r}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"embedding_grad_accumulate", {f32({1024, kWidth}), i32({r}), matrix(r)}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"adamw",
                 {matrix(r), matrix(r), matrix(r), matrix(r), f32({4}), absent()},
                 {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"sgd", {matrix(r), matrix(r), f32({4}), absent()}, {{"weight_decay", 0.0}}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"sgd_momentum",
                 {matrix(r), matrix(r), matrix(r), f32({4}), absent()},
                 {{"momentum", 0.9}, {"weight_decay", 0.0}}};
  });
  both_sizes([&](int64_t r) { return Probe{"accumulate", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) { return Probe{"set_zero", {matrix(r)}}; });
  both_sizes([&](int64_t r) {
    return Probe{"softmax_cross_entropy", {matrix(r), i32({r}), f32({r}), f32({})}};
  });
  both_sizes([&](int64_t r) {
    return Probe{"softmax_cross_entropy_grad",
                 {matrix(r), i32({r}), f32({r}), f32({}), f32({r}), f32({})}};
  });
}

// The mean share of its time that an op lost in this round against the rounds before.
double measure_round(const Backend& backend, Pool& pool, const std::vector<ProbeGroup>& groups,
                     std::vector<std::vector<Timing>>& timings) {
  double gain = 0;
  int measured = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].probes.size(); ++i) {
      const Probe& probe = groups[g].probes[i];
      Timing& timing = timings[g][i];
      const double before = seconds_of(probe.op, timing);
      measure(backend, pool, probe, timing);
      if (timing.cold == kNever) continue;
      gain += 1 - seconds_of(probe.op, timing) / before;
      ++measured;
    }
  }
  return measured > 0 ? gain / measured : 0;
}

}  // namespace

std::string machine_key(int threads) {
  std::string model = "unknown CPU";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      model = line.substr(line.find(": ") + 2);
      break;
    }
  }
  const dnnl::version_t* version = dnnl::version();
  return model + ", " + std::to_string(threads) + " threads, oneDNN " +
         std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

MachineProfile measure_profile(int threads) {
  // Rates of ops that cannot be measured stay built-in ones.
  MachineProfile profile = default_profile();
  profile.machine = machine_key(threads);
  const auto backend = make_cpu_backend({.threads = threads, .profile = profile});
  Pool pool;
  std::vector<ProbeGroup> groups;
  append_products(groups);
  append_convolutions(groups);
  append_attention(groups);
  append_streams(groups);
  std::vector<std::vector<Timing>> timings;
  for (const ProbeGroup& group : groups) timings.emplace_back(group.probes.size());
  for (int round = 0; round < kMaxRounds; ++round) {
    const double gain = measure_round(*backend, pool, groups, timings);
    if (round + 1 >= kMinRounds && gain < kSmallGain) break;
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::string& op = groups[g].probes.front().op;
    std::vector<RatePoint> points;
    for (const Timing& timing : timings[g]) {
      if (timing.cold == kNever) continue;
      points.push_back({.flops = timing.cost.flops,
                        .bytes = timing.cost.bytes_read + timing.cost.bytes_written,
                        .seconds = seconds_of(op, timing)});
    }
    if (!points.empty()) profile.rates[op + groups[g].variant] = fit_rate(points, groups[g].basis);
  }
  if (const auto add = profile.rates.find("add"); add != profile.rates.end())
    profile.rates[""] = add->second;
  return profile;
}

}  // namespace snug
