// SPDX-License-Identifier: Apache-2.0
// Runs each op on small operands and fits its rate. Operands are measured both in cache and driven
// out of it: in a training step what was just written is read again from the cache, what was kept
// from the forward pass is not. Operands that no cache holds are also written back to memory: that
// takes as long as to drive the outputs out, by all threads, less the time of doing that once more,
// when nothing is left to write. All ops are run in rounds, until a round finds hardly anything
// faster: other work on the machine slows some rounds, hardly all. What counts is the lower
// quartile: the fastest of many rounds is faster than a step's.
#include "backend/cpu/measure_profile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rate_probes.h"
#include "base/float_mode.h"
#include "base/half.h"
#include "base/mapped_block.h"
#include "base/numbers.h"
#include "base/pieces.h"
#include "base/stop.h"
#include "base/threads.h"
#include "base/units.h"
#include "graph/builder.h"
#include "io/file.h"
#include "ops/registry.h"
#include "snug/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace snug {
namespace {

// With kernels and descriptors below kMeasuringBytes.
constexpr int64_t kPoolBytes = int64_t{18} << 20;
constexpr int kMinRounds = 6;
constexpr int kMaxRounds = 16;
constexpr double kSmallGain = 0.005;   // of a round: the mean share of its time that an op lost
constexpr double kLongSeconds = 2e-3;  // a run that is measured in a few rounds only
constexpr size_t kRoundsOfLong = 4;
constexpr double kUsualShare = 0.25;  // of the rounds: those that nothing disturbed

// Seconds of one round of a probe, by where its operands were.
struct Round {
  double first = 0;  // its code is cold, and one thread wrote all operands
  double warm = 0;
  double cold = 0;
  double write_back = 0;
  double nothing_to_write = 0;  // the same, where no cache holds the lines any more
};
struct Runs {
  std::string kind = {};
  Cost cost = {};
  std::vector<Round> rounds = {};
};

// The time of each part by itself that this share of the rounds stayed below.
Round at_share(const std::vector<Round>& rounds, double share) {
  Round result;
  for (double Round::*part :
       {&Round::first, &Round::warm, &Round::cold, &Round::write_back, &Round::nothing_to_write}) {
    std::vector<double> seconds;
    for (const Round& round : rounds) seconds.push_back(round.*part);
    const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(seconds.size()));
    std::nth_element(seconds.begin(), seconds.begin() + place, seconds.end());
    result.*part = seconds[static_cast<size_t>(place)];
  }
  return result;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// How long the threads of this process were ready to run and had no processor; 0 where the system
// does not say.
double waited_seconds() try {
  const std::string tasks = "/proc/self/task/";
  double seconds = 0;
  for (const std::string& task : io::list_folder(tasks)) {
    const std::string text = io::read_all_if_any(tasks + task + "/schedstat", 4096);
    const std::vector<std::string_view> words = words_in(text);  // ran, waited, how often
    if (words.size() == 3) seconds += 1e-9 * number_in<double>(words[1]).value_or(0);
  }
  return seconds;
} catch (const Error&) {
  return 0;
}

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
#elif defined(__aarch64__)
  for (int64_t i = 0; i < bytes; i += 64) asm volatile("dc civac, %0" : : "r"(data + i) : "memory");
  asm volatile("dsb ish" : : : "memory");
#else
  (void)data;
  (void)bytes;
#endif
}

// All memory of the measurement: operands are laid out from its start for every probe.
class Pool {
 public:
  Pool() : block_(kPoolBytes), bytes_(block_.data()) {
    // 0.5 as floats; ids, labels and keys are cleared by take().
    for (int64_t i = 0; i < kPoolBytes / 4; ++i) reinterpret_cast<float*>(bytes_)[i] = 0.5F;
  }
  void reset() { used_ = 0; }
  [[nodiscard]] bool fits(int64_t bytes) const { return used_ + round_up(bytes, 64) <= kPoolBytes; }
  std::byte* take(int64_t bytes) {
    std::byte* data = bytes_ + used_;
    used_ += round_up(bytes, 64);
    return data;
  }
  void drive_out_of_cache() const { snug::drive_out_of_cache(bytes_, used_); }

 private:
  MappedBlock block_;
  std::byte* bytes_;
  int64_t used_ = 0;
};

// `ids` are below this; other integers are 0.
void fill(std::byte* data, const TensorType& type, int64_t ids) {
  const int64_t count = element_count(type);
  if (type.dtype == DType::f32) {
    std::fill_n(reinterpret_cast<float*>(data), count, 0.5F);
  } else if (type.dtype == DType::bf16) {
    std::fill_n(reinterpret_cast<Bf16*>(data), count, to_bf16(0.5F));
  } else if (type.dtype == DType::i32 && ids > 1) {
    std::minstd_rand random(1);
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<int32_t*>(data)[i] =
          static_cast<int32_t>(random() % static_cast<uint64_t>(ids));
  } else {
    std::memset(data, type.dtype == DType::boolean ? 1 : 0, static_cast<size_t>(byte_count(type)));
  }
}

// What the lines take to memory, without the instructions that send them there.
double write_back_of(const Round& round) {
  return std::max(0.0, round.write_back - round.nothing_to_write);
}
// Seconds of one run in a training step.
double seconds_of(Finds finds, const Round& round) {
  const double write_back = write_back_of(round);
  double seconds = 0;
  switch (finds) {
    case Finds::some:
      seconds = 0.5 * (round.warm + round.cold);
      break;
    case Finds::most:
      seconds = 0.75 * round.warm + 0.25 * round.cold;
      break;
    case Finds::little:
      seconds = round.cold + 0.55 * write_back;
      break;
    case Finds::nothing:
      seconds = round.cold + write_back;
      break;
    case Finds::unwarmed:
      seconds = 0.5 * (round.first + round.cold);
      break;
  }
  return std::max(1e-9, seconds);
}
// Seconds of one run on operands that no cache holds. Half of what is written goes back meanwhile.
double far_seconds_of(Finds finds, const Round& round) {
  return std::max(seconds_of(finds, round), round.cold + 0.5 * write_back_of(round));
}

Finds finds_of(const ProbedNode& node) { return node.probe.finds.value_or(node.op->timing.finds); }

// One round: nothing changes where there is no kernel for the op, or no room.
void measure(const Backend& backend, int threads, Pool& pool, const ProbedNode& node, Runs& runs) {
  const RateProbe& probe = node.probe;
  if (runs.rounds.size() >= kRoundsOfLong && runs.rounds.front().warm > kLongSeconds) return;
  GraphBuilder builder(op_registry(), "probe");
  std::vector<ValueId> values;
  for (size_t i = 0; i < probe.inputs.size(); ++i) {
    std::string name = "x";
    name += std::to_string(i);
    values.push_back(probe.inputs.has(i) ? builder.state(name, probe.inputs[i]) : kNone);
  }
  builder.op(*node.op->name, values, probe.attrs);
  const NodeSpec spec = spec_of(builder.graph(), NodeId(0));
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
    const double start = seconds_now();
    work();
    return seconds_now() - start;
  };
  const auto run = [&] { (void)kernel->run(launch); };
  ErrorCode code = ErrorCode::ok;
  // Workers that had nothing to do for long sleep; between the ops of a step they do not.
  const auto wake_workers = [&] { parallel_for(threads, threads, 1, [](int64_t, int64_t) {}); };
  Round round;
  wake_workers();
  round.first = timed([&] { code = kernel->run(launch); });
  if (code != ErrorCode::ok) return;
  round.warm = std::min(timed(run), timed(run));
  pool.drive_out_of_cache();
  wake_workers();
  round.cold = timed(run);
  const auto drive_outputs_out = [&] {
    for (size_t i = 0; i < outputs.size(); ++i) {
      parallel_for(threads, byte_count(spec.outputs[i]), 1 << 16, [&](int64_t begin, int64_t end) {
        drive_out_of_cache(outputs[i] + begin, end - begin);
      });
    }
  };
  round.write_back = timed(drive_outputs_out);
  round.nothing_to_write = timed(drive_outputs_out);
  runs.rounds.push_back(round);
  runs.kind = choice.rate;
  runs.cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
}

// The mean share of its time that an op lost in this round against the rounds before.
double measure_round(const Backend& backend, int threads, Pool& pool,
                     const std::vector<ProbedNode>& nodes, std::vector<Runs>& runs) {
  double gain = 0;
  int measured = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    stop_point();
    const Finds finds = finds_of(nodes[i]);
    const auto fastest = [&] { return seconds_of(finds, at_share(runs[i].rounds, 0)); };
    const bool is_first = runs[i].rounds.empty();
    const double before = is_first ? 0 : fastest();
    measure(backend, threads, pool, nodes[i], runs[i]);
    if (runs[i].rounds.empty()) continue;
    gain += is_first ? 1 : 1 - fastest() / before;
    ++measured;
  }
  return measured > 0 ? gain / measured : 0;
}

// How much of the last cache counts for each processor at most. A virtual machine may see the whole
// cache of its host, which it shares: of 480 MiB that two processors saw, passes over 64 MiB ran at
// 100 GB/s, and over 128 MiB at the 58 GB/s of memory.
constexpr int64_t kMostCachePerProcessor = int64_t{32} << 20;

int64_t last_cache_bytes(int64_t otherwise) {
  const std::string file =
      io::read_all_if_any("/sys/devices/system/cpu/cpu0/cache/index3/size", 4096);
  const std::vector<std::string_view> words = words_in(file);
  if (words.size() != 1 || !words[0].ends_with('K')) return otherwise;
  const auto kib = number_in<int64_t>(words[0].substr(0, words[0].size() - 1));
  if (!kib || *kib <= 0) return otherwise;
  return std::min(*kib << 10, available_threads() * kMostCachePerProcessor);
}

}  // namespace

std::string processor_name(const std::string& cpuinfo) {
  const auto value_of = [&](const std::string& name) {
    for (const std::string_view line : lines_in(cpuinfo)) {
      if (line.starts_with(name) && line.find(": ") != std::string_view::npos)
        return std::string(line.substr(line.find(": ") + 2));
    }
    return std::string();
  };
  if (const std::string model = value_of("model name"); !model.empty()) return model;
  const std::string part = value_of("CPU part");
  return part.empty() ? "unknown CPU" : "CPU " + value_of("CPU implementer") + " " + part;
}

std::string machine_key(int threads) {
  const dnnl::version_t* version = dnnl::version();
  // Threads that share a processor wait for one another: that takes milliseconds a call.
  const int processors = available_threads();
  const std::string shared =
      threads > processors ? " on " + std::to_string(processors) + " processors" : "";
  return processor_name(io::read_all_if_any("/proc/cpuinfo", int64_t{16} << 20)) + ", " +
         std::to_string(threads) + " threads" + shared + ", " +
         std::string(to_string(instruction_set())) + ", oneDNN " + std::to_string(version->major) +
         "." + std::to_string(version->minor) + "." + std::to_string(version->patch);
}

bool is_measured_again(const MachineProfile& profile) {
  constexpr double kDisturbed = 0.05;
  return profile.waited_share > kDisturbed && profile.measurements < kMostMeasurements;
}

MachineProfile measure_profile(int threads) {
  check_threads(threads);
  const TeamFloatMode float_mode(threads, Subnormals::kept);
  const double start = seconds_now();
  const double waited_before = waited_seconds();
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
  profile.waited_share =
      std::min(1.0, (waited_seconds() - waited_before) / (threads * (seconds_now() - start)));
  struct Fit {
    RateBasis basis;
    std::vector<RatePoint> points;
  };
  std::map<std::string, Fit> fits;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Runs& of_node = runs[i];
    if (of_node.rounds.empty()) continue;
    const Finds finds = finds_of(nodes[i]);
    const Round usual = at_share(of_node.rounds, kUsualShare);
    const double seconds = seconds_of(finds, usual);
    double sum = 0;
    for (const Round& round : of_node.rounds) sum += seconds_of(finds, round);
    const double mean = sum / static_cast<double>(of_node.rounds.size());
    Fit& fit = fits[of_node.kind];
    fit.basis = nodes[i].probe.basis;
    fit.points.push_back({.flops = of_node.cost.flops,
                          .bytes = of_node.cost.bytes_read + of_node.cost.bytes_written,
                          .seconds = seconds,
                          .near_seconds = std::min(usual.warm, seconds),
                          .far_seconds = far_seconds_of(finds, usual),
                          .spread = std::max(0.0, mean / seconds - 1)});
  }
  for (const auto& [kind, fit] : fits) profile.rates[kind] = fit_rate(fit.points, fit.basis);
  for (const OpDef* op : op_registry().all()) {
    const auto rate = profile.rates.find(*op->name);
    if (op->timing.is_typical && rate != profile.rates.end()) profile.rates[""] = rate->second;
  }
  return profile;
}

}  // namespace snug
