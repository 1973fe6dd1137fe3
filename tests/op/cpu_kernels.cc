// SPDX-License-Identifier: Apache-2.0
#include "op/cpu_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/half.h"
#include "base/philox.h"
#include "base/threads.h"

namespace snug {

#define SNUG_OP_FAMILY(family) std::span<const CpuKernelDef> family##_cpu_kernels();
#include "op_families_cpu.inc"
#undef SNUG_OP_FAMILY

[[nodiscard]] std::shared_ptr<const Onednn> make_onednn();  // without the library's header

namespace {

constexpr size_t kAlignmentBytes = 64;
constexpr size_t kRedZoneBytes = 256;
constexpr std::byte kRed{0xA5};
constexpr std::byte kPoison{0xFF};

// Exactly `size` bytes at an aligned address, with red zones around them.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size)
      : size_(size), memory_(size + 2 * kRedZoneBytes + kAlignmentBytes, kRed) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kRedZoneBytes;
    begin_ = kRedZoneBytes + (kAlignmentBytes - address % kAlignmentBytes) % kAlignmentBytes;
    fill(kPoison);
  }
  void fill(std::byte value) { std::memset(data(), static_cast<int>(value), size_); }
  [[nodiscard]] std::byte* data() { return memory_.data() + begin_; }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {first, first + static_cast<std::ptrdiff_t>(size_)};
  }
  [[nodiscard]] bool is_intact() const {
    const auto red = [](std::byte b) { return b == kRed; };
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), first, red) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(size_), memory_.end(), red);
  }

 private:
  size_t size_;
  size_t begin_ = 0;
  std::vector<std::byte> memory_;
};

template <class T>
std::vector<std::byte> encode_as(const std::vector<double>& data) {
  std::vector<std::byte> bytes(data.size() * sizeof(T));
  for (size_t i = 0; i < data.size(); ++i) {
    const T value = static_cast<T>(data[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> encode_halves(const std::vector<double>& data, auto bits_of) {
  std::vector<double> bits;
  for (const double value : data) bits.push_back(bits_of(static_cast<float>(value)));
  return encode_as<uint16_t>(bits);
}

std::vector<std::byte> encode(DType dtype, const std::vector<double>& data) {
  switch (dtype) {
    case DType::f32:
      return encode_as<float>(data);
    case DType::i32:
      return encode_as<int32_t>(data);
    case DType::i64:
      return encode_as<int64_t>(data);
    case DType::boolean:
    case DType::u8:
      return encode_as<uint8_t>(data);
    case DType::bf16:
      return encode_halves(data, [](float x) { return to_bf16(x).bits; });
    case DType::f16:
      return encode_halves(data, [](float x) { return to_f16(x).bits; });
    case DType::bf16x8: {
      std::vector<std::byte> bytes = encode_halves(data, [](float x) { return to_bf16x8(x).high; });
      for (const double x : data)
        bytes.push_back(std::bit_cast<std::byte>(to_bf16x8(static_cast<float>(x)).low));
      return bytes;
    }
  }
  return {};
}

template <class T>
std::vector<double> decode_as(const std::vector<std::byte>& bytes) {
  std::vector<double> data(bytes.size() / sizeof(T));
  for (size_t i = 0; i < data.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    data[i] = static_cast<double>(value);
  }
  return data;
}

std::vector<double> decode_halves(const std::vector<std::byte>& bytes, auto value_of) {
  std::vector<double> data = decode_as<uint16_t>(bytes);
  for (double& value : data) value = static_cast<double>(value_of(static_cast<uint16_t>(value)));
  return data;
}

}  // namespace

std::vector<double> decode(const TensorType& type, const std::vector<std::byte>& bytes) {
  switch (type.dtype) {
    case DType::f32:
      return decode_as<float>(bytes);
    case DType::i32:
      return decode_as<int32_t>(bytes);
    case DType::i64:
      return decode_as<int64_t>(bytes);
    case DType::boolean:
    case DType::u8:
      return decode_as<uint8_t>(bytes);
    case DType::bf16:
      return decode_halves(bytes, [](uint16_t bits) { return to_f32(Bf16{bits}); });
    case DType::f16:
      return decode_halves(bytes, [](uint16_t bits) { return to_f32(F16{bits}); });
    case DType::bf16x8: {
      const size_t count = bytes.size() / 3;
      std::vector<double> data(count);
      for (size_t i = 0; i < count; ++i) {
        Bf16x8 both;
        std::memcpy(&both.high, bytes.data() + 2 * i, 2);
        std::memcpy(&both.low, bytes.data() + 2 * count + i, 1);
        data[i] = static_cast<double>(to_f32(both));
      }
      return data;
    }
  }
  return {};
}

std::vector<const CpuKernelDef*> cpu_kernels_of(const std::string& op) {
  std::vector<const CpuKernelDef*> found;
  const auto append = [&](std::span<const CpuKernelDef> family) {
    for (const CpuKernelDef& kernel : family) {
      if (kernel.op == op) found.push_back(&kernel);
    }
  };
#define SNUG_OP_FAMILY(family) append(family##_cpu_kernels());
#include "op_families_cpu.inc"
#undef SNUG_OP_FAMILY
  (void)append;
  return found;
}

CpuContext cpu_test_context(int threads) {
  return {.threads = threads, .profile = default_profile(), .onednn = make_onednn()};
}

CpuRun run_cpu_kernel(const CpuKernelDef& def, const CaseGraph& graph, int threads, int times) {
  const NodeSpec spec = spec_of(graph.builder.graph(), graph.node);
  const CpuContext context = cpu_test_context(threads);
  set_library_threads(threads);
  const int64_t scratch_bytes = def.scratch_bytes(spec, context);
  return run_kernel(*def.create(spec, context), scratch_bytes, graph, times);
}

CpuRun run_kernel(const Kernel& kernel, int64_t scratch_bytes, const CaseGraph& graph, int times) {
  const NodeSpec spec = spec_of(graph.builder.graph(), graph.node);
  GuardedBytes scratch(static_cast<size_t>(scratch_bytes));

  std::vector<GuardedBytes> inputs;
  std::vector<GuardedBytes> outputs;
  std::vector<std::vector<std::byte>> before;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    before.push_back(spec.inputs.has(i)
                         ? encode(spec.inputs[i].dtype, graph.feeds.at(graph.inputs[i]))
                         : std::vector<std::byte>{});
    inputs.emplace_back(before.back().size());
    std::copy(before.back().begin(), before.back().end(), inputs.back().data());
  }
  for (const TensorType& type : spec.outputs)
    outputs.emplace_back(static_cast<size_t>(byte_count(type)));
  std::vector<const std::byte*> input_pointers;
  std::vector<std::byte*> output_pointers;
  for (size_t i = 0; i < inputs.size(); ++i)
    input_pointers.push_back(spec.inputs.has(i) ? inputs[i].data() : nullptr);
  for (GuardedBytes& bytes : outputs) output_pointers.push_back(bytes.data());
  std::vector<bool> is_overwritten(inputs.size(), false);
  if (spec.op->alias->kind == AliasKind::must_overwrite) {
    for (const auto& [output, input] : spec.op->alias->pairs) {
      input_pointers[static_cast<size_t>(input)] = output_pointers[static_cast<size_t>(output)];
      is_overwritten[static_cast<size_t>(input)] = true;
    }
  }

  CpuRun result;
  for (int time = 0; time < times && result.code == ErrorCode::ok; ++time) {
    scratch.fill(kPoison);
    for (GuardedBytes& bytes : outputs) bytes.fill(kPoison);
    if (spec.op->alias->kind == AliasKind::must_overwrite) {
      for (const auto& [output, input] : spec.op->alias->pairs) {
        const std::vector<std::byte>& from = before[static_cast<size_t>(input)];
        std::copy(from.begin(), from.end(), output_pointers[static_cast<size_t>(output)]);
      }
    }
    result.code = kernel.run({input_pointers, output_pointers, scratch.data()});
  }
  if (!scratch.is_intact()) result.violation += "it writes outside its scratch; ";
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_intact() || inputs[i].bytes() != before[i]) {
      result.violation += "it writes to input " + std::to_string(i) + "; ";
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_intact())
      result.violation += "it writes outside output " + std::to_string(i) + "; ";
    result.outputs.push_back(outputs[i].bytes());
  }
  return result;
}

std::vector<std::vector<double>> error_bounds(const CaseGraph& graph, double epsilon) {
  constexpr int kTrials = 6;
  constexpr double kFactor = 4;  // roundings of a few operations an element
  constexpr double kTensorShare =
      0.25;  // an element may also carry roundings of its larger neighbours
  const Graph& g = graph.builder.graph();
  const RefValues exact = evaluate(g, graph.feeds);
  std::vector<std::vector<double>> sensitivity;
  for (ValueId id : graph.outputs) sensitivity.emplace_back(exact.at(id).size(), 0.0);
  PhiloxStream random(5);
  for (int trial = 0; trial < kTrials; ++trial) {
    RefValues moved = graph.feeds;
    for (auto& [id, data] : moved) {
      const DType dtype = g.type(id).dtype;
      if (!is_floating(dtype)) continue;
      for (double& x : data) x *= 1 + epsilon * (random.next() % 2 == 0 ? 1 : -1);
    }
    const RefValues values = evaluate(g, moved);
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      for (size_t j = 0; j < sensitivity[i].size(); ++j) {
        const double change =
            std::abs(values.at(graph.outputs[i])[j] - exact.at(graph.outputs[i])[j]);
        sensitivity[i][j] = std::max(sensitivity[i][j], change);
      }
    }
  }
  const NodeSpec spec = spec_of(g, graph.node);
  const Cost cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
  double elements = 1;
  for (const TensorType& type : spec.outputs) elements += static_cast<double>(element_count(type));
  const double growth = std::sqrt(std::max(1.0, cost.flops / elements));
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::vector<double>& values = exact.at(graph.outputs[i]);
    double largest = 0;
    for (double x : values) largest = std::max(largest, std::abs(x));
    for (size_t j = 0; j < values.size(); ++j) {
      sensitivity[i][j] =
          kFactor * growth *
              (sensitivity[i][j] + epsilon * (std::abs(values[j]) + kTensorShare * largest)) +
          std::numeric_limits<float>::min();
    }
  }
  return sensitivity;
}

}  // namespace snug
