// SPDX-License-Identifier: Apache-2.0
// Runs each op on small operands and fits its rate. Operands are measured both in cache and driven
// out of it: in a training step what was just written is read again from the cache, what was kept
// from the forward pass is not. Operands that no cache holds are also written back to memory: that
// takes as long as to drive the outputs out, by all threads. All ops are run in rounds and the
// fastest run of each counts, until a round finds hardly anything faster: other work on the machine
// slows some rounds, hardly all.
#include "backend/cpu/measure_profile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <sstream>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rate_probes.h"
#include "base/stop.h"
#include "base/threads.h"
#include "base/units.h"
#include "graph/builder.h"
#include "io/file.h"
#include "ops/registry.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace snug {
namespace {

constexpr int64_t kPoolBytes = int64_t{18} << 20;  // with kernels and descriptors below 24 MiB
constexpr int kMinRounds = 6;
constexpr int kMaxRounds = 16;
constexpr double kSmallGain = 0.005;   // of a round: the mean share of its time that an op lost
constexpr double kLongSeconds = 2e-3;  // a run that is measured in a few rounds alone
constexpr int kRoundsOfLong = 4;
constexpr double kNever = 1e30;

// The fastest runs of a probe so far.
struct Runs {
  std::string kind = {};
  Cost cost = {};
  double first = kNever;  // of a round: its code is cold, and one thread wrote all operands
  double warm = kNever;
  double cold = kNever;
  double write_back = kNever;
  double sum = 0;  // of all rounds, for their spread
  int rounds = 0;
};

#if defined(__x86_64__)
bool has_clflushopt() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_CLFLUSHOPT) != 0;
}

// Lines leave one beside another. CLFLUSH waits for each: on an Intel Xeon with AMX that took 20
// times as long as memory does.
__attribute__((target("clflushopt"))) void drive_lines_out(const std::byte* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_clflushopt(const_cast<std::byte*>(data) + i);
  _mm_mfence();
}
#endif

void drive_out_of_cache(const std::byte* data, int64_t bytes) {
#if defined(__x86_64__)
  static const bool has_fast_way = has_clflushopt();
  if (has_fast_way) return drive_lines_out(data, bytes);
  for (int64_t i = 0; i < bytes; i += 64) _mm_clflush(data + i);
  _mm_mfence();
#else
  (void)data;
  (void)bytes;
#endif
}

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
  void drive_out_of_cache() const { snug::drive_out_of_cache(bytes_.get(), used_); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  int64_t used_ = 0;
};

// `ids` are below this; other integers are 0.
void fill(std::byte* data, const TensorType& type, int64_t ids) {
  const int64_t count = element_count(type);
  if (type.dtype == DType::f32) {
    std::fill_n(reinterpret_cast<float*>(data), count, 0.5F);
  } else if (type.dtype == DType::i32 && ids > 1) {
    std::minstd_rand random(1);
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<int32_t*>(data)[i] =
          static_cast<int32_t>(random() % static_cast<uint64_t>(ids));
  } else {
    std::memset(data, type.dtype == DType::boolean ? 1 : 0, static_cast<size_t>(byte_count(type)));
  }
}

// Of one run in a training step, as far as it was measured.
double seconds_of(Finds finds, const Runs& runs) {
  double seconds = 0;
  switch (finds) {
    case Finds::some:
      seconds = 0.5 * (runs.warm + runs.cold);
      break;
    case Finds::most:
      seconds = 0.75 * runs.warm + 0.25 * runs.cold;
      break;
    case Finds::little:
      seconds = runs.cold + 0.55 * runs.write_back;
      break;
    case Finds::nothing:
      seconds = runs.cold + runs.write_back;
      break;
    case Finds::unwarmed:
      seconds = 0.5 * (runs.first + runs.cold);
      break;
  }
  return std::max(1e-9, seconds);
}
// Of one run on operands that no cache holds. Half of what is written goes back meanwhile.
double far_seconds_of(Finds finds, const Runs& runs) {
  return std::max(seconds_of(finds, runs), runs.cold + 0.5 * runs.write_back);
}

// One round: nothing changes where there is no kernel for the op, or no room.
void measure(const Backend& backend, int threads, Pool& pool, const ProbedNode& node, Runs& runs) {
  const RateProbe& probe = node.probe;
  if (runs.rounds >= kRoundsOfLong && runs.warm > kLongSeconds) return;
  GraphBuilder builder(op_registry(), "probe");
  std::vector<ValueId> values;
  for (size_t i = 0; i < probe.inputs.size(); ++i) {
    values.push_back(probe.inputs.has(i) ? builder.state("x" + std::to_string(i), probe.inputs[i])
                                         : kNone);
  }
  builder.op(*node.op->name, values, probe.attrs);
  const NodeSpec spec = spec_of(builder.graph(), 0);
  KernelChoice choice;
  try {
    choice = backend.select(spec);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return;
    throw;
  }
  int64_t needed = choice.scratch_bytes + 4096;
  for (const TensorType& type : spec.inputs.given()) needed += round_up(byte_count(type), 64);
  for (const TensorType& type : spec.outputs) needed += round_up(byte_count(type), 64);
  pool.reset();
  if (!pool.fits(needed)) return;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    inputs.push_back(nullptr);
    if (!spec.inputs.has(i)) continue;
    std::byte* data = pool.take(byte_count(spec.inputs[i]));
    fill(data, spec.inputs[i], probe.ids);
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
  const auto timed = [](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto run = [&] { (void)kernel->run(launch); };
  ErrorCode code = ErrorCode::ok;
  const double first = timed([&] { code = kernel->run(launch); });
  if (code != ErrorCode::ok) return;
  double warm = kNever;
  for (int i = 0; i < 2; ++i) warm = std::min(warm, timed(run));
  pool.drive_out_of_cache();
  const double cold = timed(run);
  const double write_back = timed([&] {
    for (size_t i = 0; i < outputs.size(); ++i) {
      parallel_for(threads, byte_count(spec.outputs[i]), 1 << 16, [&](int64_t begin, int64_t end) {
        drive_out_of_cache(outputs[i] + begin, end - begin);
      });
    }
  });
  runs.first = std::min(runs.first, first);
  runs.warm = std::min(runs.warm, warm);
  runs.cold = std::min(runs.cold, cold);
  runs.write_back = std::min(runs.write_back, write_back);
  runs.sum += seconds_of(node.op->timing.finds,
                         {.first = first, .warm = warm, .cold = cold, .write_back = write_back});
  ++runs.rounds;
  runs.kind = rate_kind(spec);
  runs.cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
}

// The mean share of its time that an op lost in this round against the rounds before.
double measure_round(const Backend& backend, int threads, Pool& pool,
                     const std::vector<ProbedNode>& nodes, std::vector<Runs>& runs) {
  double gain = 0;
  int measured = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    stop_point();
    const Finds finds = nodes[i].op->timing.finds;
    const double before = seconds_of(finds, runs[i]);
    measure(backend, threads, pool, nodes[i], runs[i]);
    if (runs[i].cold == kNever) continue;
    gain += 1 - seconds_of(finds, runs[i]) / before;
    ++measured;
  }
  return measured > 0 ? gain / measured : 0;
}

// Of the cache that this core shares; sysconf() adds up those of other sockets. A virtual machine
// may see the whole cache of its host, which it shares (480 MiB for two processors, of which 64 to
// 128 MiB were found to be theirs): no more counts than most processors have.
constexpr int64_t kMostCachePerProcessor = int64_t{16} << 20;

int64_t last_cache_bytes(int64_t otherwise) {
  std::istringstream file(
      io::read_all_if_any("/sys/devices/system/cpu/cpu0/cache/index3/size", 4096));
  int64_t kib = 0;
  char unit = 0;
  if (!(file >> kib >> unit) || unit != 'K' || kib <= 0) return otherwise;
  return std::min(kib << 10, available_threads() * kMostCachePerProcessor);
}

}  // namespace

std::string machine_key(int threads) {
  std::string model = "unknown CPU";
  std::istringstream info(io::read_all_if_any("/proc/cpuinfo", int64_t{16} << 20));
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
  profile.cache_bytes = last_cache_bytes(profile.cache_bytes);
  const auto backend = make_cpu_backend({.threads = threads, .profile = profile});
  Pool pool;
  const std::vector<ProbedNode> nodes = probed_nodes();
  std::vector<Runs> runs(nodes.size());
  for (int round = 0; round < kMaxRounds; ++round) {
    const double gain = measure_round(*backend, threads, pool, nodes, runs);
    if (round + 1 >= kMinRounds && gain < kSmallGain) break;
  }
  struct Fit {
    RateBasis basis;
    std::vector<RatePoint> points;
  };
  std::map<std::string, Fit> fits;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Runs& of_node = runs[i];
    if (of_node.cold == kNever) continue;
    const Finds finds = nodes[i].op->timing.finds;
    const double seconds = seconds_of(finds, of_node);
    Fit& fit = fits[of_node.kind];
    fit.basis = nodes[i].probe.basis;
    fit.points.push_back({.flops = of_node.cost.flops,
                          .bytes = of_node.cost.bytes_read + of_node.cost.bytes_written,
                          .seconds = seconds,
                          .far_seconds = far_seconds_of(finds, of_node),
                          .spread = of_node.sum / of_node.rounds / seconds - 1});
  }
  for (const auto& [kind, fit] : fits) profile.rates[kind] = fit_rate(fit.points, fit.basis);
  for (const OpDef* op : op_registry().all()) {
    const auto rate = profile.rates.find(*op->name);
    if (op->timing.is_typical && rate != profile.rates.end()) profile.rates[""] = rate->second;
  }
  return profile;
}

}  // namespace snug
