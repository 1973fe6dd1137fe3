// SPDX-License-Identifier: Apache-2.0
// For tests of CPU kernels: one op on given data, by the CPU backend and by the reference, and the
// processor targets that can be tried here.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference.h"
#include "base/half.h"
#include "base/philox.h"
#include "ops/registry.h"
#include "snug/instruction_set.h"

namespace snug {

/// An op with its operands as numbers.
struct OneKernel {
  std::string op;
  InputTypes types;
  std::vector<std::vector<double>> data;
  Attrs attrs;

  explicit OneKernel(std::string name, Attrs given = {})
      : op(std::move(name)), attrs(std::move(given)) {}
  OneKernel& add(TensorType type, std::vector<double> values) {
    types.add(std::move(type));
    data.push_back(std::move(values));
    return *this;
  }
  /// Numbers that f32 holds exactly, N(0, 1) times `scale`.
  OneKernel& add_normal(Shape shape, double scale = 1) {
    PhiloxStream stream(17, types.size());
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (double& value : values)
      value = static_cast<double>(static_cast<float>(scale * stream.normal()));
    return add({DType::f32, std::move(shape)}, std::move(values));
  }
  OneKernel& add_absent() {
    types.add(std::nullopt);
    data.emplace_back();
    return *this;
  }

  [[nodiscard]] NodeSpec spec() const {
    const OpDef& def = *op_registry().find(op);
    NodeSpec result{
        .op = &def, .inputs = types, .outputs = {}, .attrs = complete_attrs(def, attrs, op)};
    result.outputs = infer_types(def, types, result.attrs, op);
    return result;
  }
};

using KernelOutputs = std::vector<std::vector<double>>;

inline std::vector<std::byte> encode(const TensorType& type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(byte_count(type)));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    };
    switch (type.dtype) {
      case DType::f32:
        put(static_cast<float>(values[i]));
        break;
      case DType::i32:
        put(static_cast<int32_t>(values[i]));
        break;
      case DType::i64:
        put(static_cast<int64_t>(values[i]));
        break;
      case DType::boolean:
      case DType::u8:
        put(static_cast<uint8_t>(values[i]));
        break;
      case DType::bf16:
        put(to_bf16(static_cast<float>(values[i])));
        break;
      case DType::f16:
        put(to_f16(static_cast<float>(values[i])));
        break;
      case DType::bf16x8: {
        const Bf16x8 both = to_bf16x8(static_cast<float>(values[i]));
        std::memcpy(bytes.data() + 2 * i, &both.high, 2);
        std::memcpy(bytes.data() + 2 * values.size() + i, &both.low, 1);
        break;
      }
    }
  }
  return bytes;
}

/// The outputs' bytes, none where the kernel fails; scratch and outputs hold NaN before.
/// Output `placed.first` lies where input `placed.second` does, unless they are -1.
inline std::vector<std::vector<std::byte>> run_on_cpu_to_bytes(const OneKernel& one, int threads,
                                                               std::pair<int, int> placed = {-1,
                                                                                             -1}) {
  const NodeSpec spec = one.spec();
  const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
  const auto kernel = backend->create(spec);
  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (size_t i = 0; i < one.data.size(); ++i) {
    const bool is_given = one.types.has(i);
    memory.push_back(is_given ? encode(one.types[i], one.data[i]) : std::vector<std::byte>());
    inputs.push_back(is_given ? memory.back().data() : nullptr);
  }
  for (const TensorType& type : spec.outputs) {
    memory.emplace_back(static_cast<size_t>(byte_count(type)), std::byte{0xFF});
    outputs.push_back(memory.back().data());
    if (static_cast<int>(outputs.size()) - 1 != placed.first) continue;
    outputs.back() = memory[static_cast<size_t>(placed.second)].data();
  }
  std::vector<std::byte> scratch(static_cast<size_t>(backend->select(spec).scratch_bytes) + 64,
                                 std::byte{0xFF});
  void* aligned = scratch.data();
  size_t room = scratch.size();
  std::align(64, 1, aligned, room);
  if (kernel->run({inputs, outputs, static_cast<std::byte*>(aligned)}) != ErrorCode::ok) return {};
  std::vector<std::vector<std::byte>> result;
  for (size_t i = 0; i < outputs.size(); ++i)
    result.emplace_back(outputs[i], outputs[i] + byte_count(spec.outputs[i]));
  return result;
}

/// The same with outputs of floats and codes, as numbers.
inline KernelOutputs run_on_cpu(const OneKernel& one, int threads,
                                std::pair<int, int> placed = {-1, -1}) {
  KernelOutputs result;
  const std::vector<TensorType> types = one.spec().outputs;
  for (const std::vector<std::byte>& bytes : run_on_cpu_to_bytes(one, threads, placed)) {
    if (types[result.size()].dtype == DType::u8) {
      std::vector<double> codes;
      for (const std::byte code : bytes) codes.push_back(static_cast<double>(code));
      result.push_back(std::move(codes));
      continue;
    }
    if (types[result.size()].dtype == DType::bf16) {
      std::vector<Bf16> stored(bytes.size() / sizeof(Bf16));
      std::memcpy(stored.data(), bytes.data(), bytes.size());
      std::vector<double> values;
      for (const Bf16 value : stored) values.push_back(static_cast<double>(to_f32(value)));
      result.push_back(std::move(values));
      continue;
    }
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    result.emplace_back(values.begin(), values.end());
  }
  return result;
}

inline KernelOutputs run_on_reference(const OneKernel& one) {
  const NodeSpec spec = one.spec();
  const auto kernel = make_reference_backend()->create(spec);
  KernelOutputs result;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (size_t i = 0; i < one.data.size(); ++i) {
    inputs.push_back(one.types.has(i) ? reinterpret_cast<const std::byte*>(one.data[i].data())
                                      : nullptr);
  }
  for (const TensorType& type : spec.outputs)
    result.emplace_back(static_cast<size_t>(element_count(type)));
  for (auto& values : result) outputs.push_back(reinterpret_cast<std::byte*>(values.data()));
  if (kernel->run({inputs, outputs, nullptr}) != ErrorCode::ok) return {};
  return result;
}

/// || found - want || / || want ||, or the norm of the difference where want is 0.
inline double distance(const std::vector<double>& found, const std::vector<double>& want) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (found[i] - want[i]) * (found[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

/// Every output of the reference within `bound` of its norm.
inline void expect_close(const OneKernel& one, const KernelOutputs& found, double bound) {
  const KernelOutputs want = run_on_reference(one);
  ASSERT_EQ(found.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LT(distance(found[i], want[i]), bound) << one.op << " output " << i;
}

/// Runs body(name) once for every instruction set that kernels are compiled for and this processor
/// has.
template <class Body>
void for_each_target(const Body& body) {
  (void)instruction_set();  // holds down what is supported
  const int64_t supported = hwy::SupportedTargets();
  // The last is what every processor of the architecture has.
#if HWY_ARCH_ARM_A64
  const std::vector<int64_t> targets = {HWY_NEON};
#else
  const std::vector<int64_t> targets = {HWY_AVX3, HWY_AVX2, HWY_SCALAR};
#endif
  for (const int64_t target : targets) {
    if (target != targets.back() && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(std::string(hwy::TargetName(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace snug
