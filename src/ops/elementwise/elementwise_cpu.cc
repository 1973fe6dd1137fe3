// SPDX-License-Identifier: Apache-2.0
// The list of element-wise CPU kernels, and the ops that need no vector code of their own: where,
// cast, comparisons and fill are plain loops that compilers vectorise.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/weight_rows.h"
#include "ops/elementwise/elementwise_cpu.h"

namespace snug {
namespace {

// One piece of an operand as f32: 16 KiB, which stay in the first-level cache.
using Buffer = std::array<float, kElementwiseChunk>;

// Pieces [begin, end) of at most kElementwiseChunk elements.
template <class Body>
void for_each_small_piece(int threads, int64_t n, const Body& body) {
  parallel_for(threads, n, kElementwiseChunk, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kElementwiseChunk)
      body(at, std::min(kElementwiseChunk, end - at));
  });
}

// The parts [begin, end) of n elements.
template <class Body>
void for_each_chunk(int threads, int64_t n, const Body& body) {
  parallel_for(threads, n, kElementwiseChunk, body);
}

BroadcastPlan plan_of(const NodeSpec& spec) {
  std::vector<Shape> operands;
  for (const TensorType& type : spec.inputs.given()) operands.push_back(type.shape);
  return plan_broadcast(spec.outputs[0].shape, operands);
}

std::unique_ptr<Kernel> create_unary(const NodeSpec& spec, const CpuContext& context) {
  const std::string& op = *spec.op->name;
  const UnaryRow row = find_unary_row(op, op == "gelu" ? spec.attrs.text("approximate") : "");
  const float factor = op == "scale" ? static_cast<float>(spec.attrs.real("factor")) : 1.0F;
  const FloatRows rows(spec.outputs[0].dtype);
  return make_kernel(
      [=, n = element_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        for_each_small_piece(threads, n, [&](int64_t at, int64_t count) {
          Buffer buffer;
          const float* x = rows.read(launch.inputs[0], at, count, buffer.data());
          float* y = rows.place(launch.outputs[0], at, buffer.data());
          row(x, y, count, factor);
          rows.write(y, launch.outputs[0], at, count);
        });
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const std::string& op = *spec.op->name;
  const GradRow row = find_grad_row(op, op == "gelu_grad" ? spec.attrs.text("approximate") : "");
  const FloatRows rows(spec.outputs[0].dtype);
  return make_kernel(
      [=, n = element_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        for_each_small_piece(threads, n, [&](int64_t at, int64_t count) {
          Buffer first;
          Buffer second;
          const float* saved = rows.read(launch.inputs[0], at, count, first.data());
          const float* dy = rows.read(launch.inputs[1], at, count, second.data());
          float* dx = rows.place(launch.outputs[0], at, first.data());
          row(saved, dy, dx, count);
          rows.write(dx, launch.outputs[0], at, count);
        });
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_binary(const NodeSpec& spec, const CpuContext& context) {
  const BinaryRow row = find_binary_row(*spec.op->name);
  const FloatRows rows(spec.outputs[0].dtype);
  return make_kernel([=, plan = plan_of(spec), threads = context.threads](const Launch& launch) {
    for_each_piece(plan, threads, [&](const auto& offsets, int64_t at, int64_t n) {
      Buffer first;
      Buffer second;
      const auto operand = [&](size_t i, Buffer& buffer) {
        return rows.read(launch.inputs[i], offsets[i], plan.step(i) == 0 ? 1 : n, buffer.data());
      };
      const float* a = operand(0, first);
      const float* b = operand(1, second);
      // A single number is still read while the row is written.
      float* y = rows.place(launch.outputs[0], at, (plan.step(0) == 0 ? second : first).data());
      row(a, plan.step(0), b, plan.step(1), y, n);
      rows.write(y, launch.outputs[0], at, n);
    });
    return ErrorCode::ok;
  });
}

template <class T, class Compare>
std::unique_ptr<Kernel> comparison_kernel(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([plan = plan_of(spec), threads = context.threads](const Launch& launch) {
    const T* a = input<T>(launch, 0);
    const T* b = input<T>(launch, 1);
    auto* y = output<uint8_t>(launch);
    for_each_piece(plan, threads, [&](const auto& offsets, int64_t at, int64_t n) {
      const T* row_a = a + offsets[0];
      const T* row_b = b + offsets[1];
      for (int64_t i = 0; i < n; ++i) {
        y[at + i] = Compare()(row_a[i * plan.step(0)], row_b[i * plan.step(1)]) ? 1 : 0;
      }
    });
    return ErrorCode::ok;
  });
}

template <template <class> class Compare>
std::unique_ptr<Kernel> create_comparison(const NodeSpec& spec, const CpuContext& context) {
  if (spec.inputs[0].dtype == DType::i32)
    return comparison_kernel<int32_t, Compare<int32_t>>(spec, context);
  return comparison_kernel<float, Compare<float>>(spec, context);
}

// Elements are moved as unsigned integers of their size.
template <class T>
std::unique_ptr<Kernel> where_kernel(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([plan = plan_of(spec), threads = context.threads](const Launch& launch) {
    const auto* condition = input<uint8_t>(launch, 0);
    const T* a = input<T>(launch, 1);
    const T* b = input<T>(launch, 2);
    auto* y = output<T>(launch);
    for_each_piece(plan, threads, [&](const auto& offsets, int64_t at, int64_t n) {
      const uint8_t* c = condition + offsets[0];
      const T* row_a = a + offsets[1];
      const T* row_b = b + offsets[2];
      for (int64_t i = 0; i < n; ++i) {
        y[at + i] = c[i * plan.step(0)] != 0 ? row_a[i * plan.step(1)] : row_b[i * plan.step(2)];
      }
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_where(const NodeSpec& spec, const CpuContext& context) {
  switch (element_bytes(spec.outputs[0].dtype)) {
    case 1:
      return where_kernel<uint8_t>(spec, context);
    case 2:
      return where_kernel<uint16_t>(spec, context);
    case 8:
      return where_kernel<uint64_t>(spec, context);
    default:
      return where_kernel<uint32_t>(spec, context);
  }
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, uint8_t>) {
    return x != From{} ? 1 : 0;
  } else if constexpr (std::is_same_v<To, int32_t> && std::is_same_v<From, float>) {
    // 2^31 is the first f32 that does not fit.
    if (std::isnan(x)) return 0;
    if (x >= 2147483648.0F) return std::numeric_limits<int32_t>::max();
    if (x < -2147483648.0F) return std::numeric_limits<int32_t>::min();
    return static_cast<int32_t>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
std::unique_ptr<Kernel> cast_kernel(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [n = element_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        const From* x = input<From>(launch, 0);
        auto* y = output<To>(launch);
        for_each_chunk(threads, n, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) y[i] = convert<To, From>(x[i]);
        });
        return ErrorCode::ok;
      });
}

template <class To>
std::unique_ptr<Kernel> cast_to(const NodeSpec& spec, const CpuContext& context) {
  switch (spec.inputs[0].dtype) {
    case DType::i32:
      return cast_kernel<To, int32_t>(spec, context);
    case DType::boolean:
      return cast_kernel<To, uint8_t>(spec, context);
    default:
      return cast_kernel<To, float>(spec, context);
  }
}

std::unique_ptr<Kernel> create_cast(const NodeSpec& spec, const CpuContext& context) {
  switch (spec.outputs[0].dtype) {
    case DType::i32:
      return cast_to<int32_t>(spec, context);
    case DType::boolean:
      return cast_to<uint8_t>(spec, context);
    default:
      return cast_to<float>(spec, context);
  }
}

// Between f32 and 16 bits.
std::unique_ptr<Kernel> create_half_cast(const NodeSpec& spec, const CpuContext& context) {
  const DType from = spec.inputs[0].dtype;
  const DType to = spec.outputs[0].dtype;
  return make_kernel([row = find_cast_row(from, to), n = element_count(spec.outputs[0]),
                      from_bytes = element_bytes(from), to_bytes = element_bytes(to),
                      threads = context.threads](const Launch& launch) {
    for_each_chunk(threads, n, [&](int64_t begin, int64_t end) {
      row(launch.inputs[0] + begin * from_bytes, launch.outputs[0] + begin * to_bytes, end - begin);
    });
    return ErrorCode::ok;
  });
}

// Casts a weight that is stored in 24 bits.
std::unique_ptr<Kernel> create_weight_cast(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([rows = WeightRows(spec.inputs[0]), n = element_count(spec.outputs[0]),
                      threads = context.threads](const Launch& launch) {
    for_each_chunk(threads, n, [&](int64_t begin, int64_t end) {
      (void)rows.read(launch.inputs[0], begin, end - begin, output<float>(launch) + begin);
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_fill(const NodeSpec& spec, const CpuContext& context) {
  const auto value = static_cast<float>(spec.attrs.real("value"));
  return make_kernel(
      [value, n = element_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        auto* y = output<float>(launch);
        for_each_chunk(threads, n,
                       [&](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
        return ErrorCode::ok;
      });
}

}  // namespace

constexpr const char* kWhere =
    "bool f32|bf16|f16|i32|i64|bool f32|bf16|f16|i32|i64|bool -> f32|bf16|f16|i32|i64|bool";
// All of one type.
constexpr const char* kOne = "f32|bf16|f16 -> f32|bf16|f16";
constexpr const char* kTwo = "f32|bf16|f16 f32|bf16|f16 -> f32|bf16|f16";

std::span<const CpuKernelDef> elementwise_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"add", "simd:add", kTwo, broadcast_reason, no_scratch, create_binary},
      {"sub", "simd:sub", kTwo, broadcast_reason, no_scratch, create_binary},
      {"mul", "simd:mul", kTwo, broadcast_reason, no_scratch, create_binary},
      {"div", "simd:div", kTwo, broadcast_reason, no_scratch, create_binary},
      {"neg", "simd:neg", kOne, always, no_scratch, create_unary},
      {"exp", "simd:exp", kOne, always, no_scratch, create_unary},
      {"log", "simd:log", kOne, always, no_scratch, create_unary},
      {"sqrt", "simd:sqrt", kOne, always, no_scratch, create_unary},
      {"rsqrt", "simd:rsqrt", kOne, always, no_scratch, create_unary},
      {"tanh", "simd:tanh", kOne, always, no_scratch, create_unary},
      {"erf", "simd:erf", kOne, always, no_scratch, create_unary},
      {"sigmoid", "simd:sigmoid", kOne, always, no_scratch, create_unary},
      {"relu", "simd:relu", kOne, always, no_scratch, create_unary},
      {"gelu", "simd:gelu", kOne, always, no_scratch, create_unary},
      {"relu_grad", "simd:relu_grad", kTwo, always, no_scratch, create_grad},
      {"gelu_grad", "simd:gelu_grad", kTwo, always, no_scratch, create_grad},
      {"scale", "simd:scale", kOne, always, no_scratch, create_unary},
      {"where", "plain:where", kWhere, broadcast_reason, no_scratch, create_where},
      {"cast", "plain:cast", "f32|i32|bool -> f32|i32|bool", always, no_scratch, create_cast},
      {"cast", "simd:cast", "f32 -> bf16|f16", always, no_scratch, create_half_cast},
      {"cast", "simd:cast", "bf16|f16 -> f32", always, no_scratch, create_half_cast},
      {"cast", "simd:cast", "bf16x8 -> f32", always, no_scratch, create_weight_cast},
      {"equal", "plain:equal", "f32|i32 f32|i32 -> bool", broadcast_reason, no_scratch,
       create_comparison<std::equal_to>},
      {"not_equal", "plain:not_equal", "f32|i32 f32|i32 -> bool", broadcast_reason, no_scratch,
       create_comparison<std::not_equal_to>},
      {"less", "plain:less", "f32|i32 f32|i32 -> bool", broadcast_reason, no_scratch,
       create_comparison<std::less>},
      {"less_equal", "plain:less_equal", "f32|i32 f32|i32 -> bool", broadcast_reason, no_scratch,
       create_comparison<std::less_equal>},
      {"greater", "plain:greater", "f32|i32 f32|i32 -> bool", broadcast_reason, no_scratch,
       create_comparison<std::greater>},
      {"greater_equal", "plain:greater_equal", "f32|i32 f32|i32 -> bool", broadcast_reason,
       no_scratch, create_comparison<std::greater_equal>},
      {"fill", "plain:fill", "-> f32", always, no_scratch, create_fill},
  };
  return kernels;
}

}  // namespace snug
