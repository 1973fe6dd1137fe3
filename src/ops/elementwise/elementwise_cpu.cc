// SPDX-License-Identifier: Apache-2.0
// The list of element-wise CPU kernels, and the ops that need no vector code of their own: where,
// cast, comparisons and fill are plain loops that compilers vectorise.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/weight_rows.h"
#include "ops/elementwise/elementwise_cpu.h"

namespace snug {
namespace {

// One piece of an operand as f32: 16 KiB, which stay in the first-level cache.
using Buffer = std::array<float, kElementwiseChunk>;

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

// Where operands have the output's shape, or all of it but its first dims. If all have it, rows are
// cache lines.
RowwiseForm row_form(const NodeSpec& spec, const CpuContext& context) {
  const BroadcastPlan plan = plan_of(spec);
  RowwiseForm form{.threads = context.threads};
  if (plan.rank > 2 || plan.rows == 0 || plan.row_size() == 0) return form;
  constexpr int64_t kLine = 16;
  const bool is_flat = plan.rank == 1;
  const int64_t size = is_flat ? (plan.row_size() % kLine == 0 ? kLine : 1) : plan.row_size();
  form.grid.rows = is_flat ? plan.row_size() / size : plan.dims[0];
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const int64_t elements = is_flat ? plan.step(i) * size : plan.strides[i][0];
    form.inputs.push_back(elements * element_bytes(spec.inputs[i].dtype));
  }
  form.outputs.push_back(size * element_bytes(spec.outputs[0].dtype));
  return form;
}

// Elements of a row of the output.
int64_t row_size(const RowwiseForm& form, const NodeSpec& spec) {
  return form.outputs[0] / element_bytes(spec.outputs[0].dtype);
}

// Elements [at, at + count) of n, at most so many: half of the next ones arrive from memory
// (fetch_ahead) while these are computed. With a whole buffer at a time, reading waits for memory,
// and memory for what is computed: gelu_grad of bf16 took 1.3 times as long.
constexpr int64_t kBuffered = kElementwiseChunk / 4;
template <class Body>
void for_each_buffer(int64_t n, const Body& body) {
  for (int64_t at = 0; at < n; at += kBuffered) body(at, std::min(kBuffered, n - at));
}

std::unique_ptr<Kernel> nothing_to_do() {
  return make_kernel([](const Launch&) { return ErrorCode::ok; });
}

std::unique_ptr<Kernel> create_unary(const NodeSpec& spec, const CpuContext& context) {
  const std::string& op = *spec.op->name;
  const UnaryRow row = find_unary_row(op, op == "gelu" ? spec.attrs.text("approximate") : "");
  const float factor = op == "scale" ? static_cast<float>(spec.attrs.real("factor")) : 1.0F;
  const FloatRows rows(spec.outputs[0].dtype);
  RowwiseForm form = row_form(spec, context);
  if (!form.is_given()) return nothing_to_do();
  return make_row_kernel(form, [=, size = row_size(form, spec)](const RowPiece& piece) {
    for_each_buffer(piece.rows() * size, [&](int64_t at, int64_t count) {
      Buffer buffer;
      const float* x = rows.read(piece.inputs[0], at, count, buffer.data());
      float* y = rows.place(piece.outputs[0], at, buffer.data());
      row(x, y, count, factor);
      rows.write(y, piece.outputs[0], at, count);
    });
  });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const std::string& op = *spec.op->name;
  const GradRow row = find_grad_row(op, op == "gelu_grad" ? spec.attrs.text("approximate") : "");
  const FloatRows rows(spec.outputs[0].dtype);
  RowwiseForm form = row_form(spec, context);
  if (!form.is_given()) return nothing_to_do();
  return make_row_kernel(form, [=, size = row_size(form, spec)](const RowPiece& piece) {
    for_each_buffer(piece.rows() * size, [&](int64_t at, int64_t count) {
      Buffer first;
      Buffer second;
      const float* saved = rows.read(piece.inputs[0], at, count, first.data());
      const float* dy = rows.read(piece.inputs[1], at, count, second.data());
      float* dx = rows.place(piece.outputs[0], at, first.data());
      row(saved, dy, dx, count);
      rows.write(dx, piece.outputs[0], at, count);
    });
  });
}

std::unique_ptr<Kernel> create_binary(const NodeSpec& spec, const CpuContext& context) {
  const BinaryRow row = find_binary_row(*spec.op->name);
  const FloatRows rows(spec.outputs[0].dtype);
  const BroadcastPlan plan = plan_of(spec);
  // n elements of a row of the output from `at` on; operands from these offsets on.
  const auto compute = [=](std::span<const std::byte* const> inputs, std::byte* output,
                           const std::array<int64_t, 2>& offsets, int64_t at, int64_t n) {
    Buffer first;
    Buffer second;
    const auto operand = [&](size_t i, Buffer& buffer) {
      return rows.read(inputs[i], offsets[i], plan.step(i) == 0 ? 1 : n, buffer.data());
    };
    const float* a = operand(0, first);
    const float* b = operand(1, second);
    // A single number is still read while the row is written.
    float* y = rows.place(output, at, (plan.step(0) == 0 ? second : first).data());
    row(a, plan.step(0), b, plan.step(1), y, n);
    rows.write(y, output, at, n);
  };
  RowwiseForm form = row_form(spec, context);
  if (form.is_given()) {
    // Operands of one shape are one row, whatever piece of it.
    const bool is_flat = plan.rank == 1;
    const int64_t size = row_size(form, spec);
    return make_row_kernel(form, [=](const RowPiece& piece) {
      const int64_t n = is_flat ? piece.rows() * size : size;
      for (int64_t line = 0; line < (is_flat ? 1 : piece.rows()); ++line) {
        for_each_buffer(n, [&](int64_t at, int64_t count) {
          std::array<int64_t, 2> offsets{};
          for (size_t i = 0; i < 2; ++i)
            offsets[i] = (is_flat ? 0 : line * plan.strides[i][0]) + at * plan.step(i);
          compute(piece.inputs, piece.outputs[0], offsets, line * n + at, count);
        });
      }
    });
  }
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    for_each_piece(plan, threads, [&](const auto& offsets, int64_t at, int64_t n) {
      compute(launch.inputs, launch.outputs[0], {offsets[0], offsets[1]}, at, n);
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
  RowwiseForm form = row_form(spec, context);
  if (!form.is_given()) return nothing_to_do();
  return make_row_kernel(form, [row = find_cast_row(spec.inputs[0].dtype, spec.outputs[0].dtype),
                                size = row_size(form, spec)](const RowPiece& piece) {
    row(piece.inputs[0], piece.outputs[0], piece.rows() * size);
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
      {"add", "simd:add", kTwo, broadcast_reason, no_scratch, create_binary, "", nullptr, row_form},
      {"sub", "simd:sub", kTwo, broadcast_reason, no_scratch, create_binary, "", nullptr, row_form},
      {"mul", "simd:mul", kTwo, broadcast_reason, no_scratch, create_binary, "", nullptr, row_form},
      {"div", "simd:div", kTwo, broadcast_reason, no_scratch, create_binary, "", nullptr, row_form},
      {"neg", "simd:neg", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"exp", "simd:exp", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"log", "simd:log", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"sqrt", "simd:sqrt", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"rsqrt", "simd:rsqrt", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"tanh", "simd:tanh", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"erf", "simd:erf", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"sigmoid", "simd:sigmoid", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"relu", "simd:relu", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"gelu", "simd:gelu", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"relu_grad", "simd:relu_grad", kTwo, always, no_scratch, create_grad, "", nullptr, row_form},
      {"gelu_grad", "simd:gelu_grad", kTwo, always, no_scratch, create_grad, "", nullptr, row_form},
      {"scale", "simd:scale", kOne, always, no_scratch, create_unary, "", nullptr, row_form},
      {"where", "plain:where", kWhere, broadcast_reason, no_scratch, create_where},
      {"cast", "plain:cast", "f32|i32|bool -> f32|i32|bool", always, no_scratch, create_cast},
      {"cast", "simd:cast", "f32 -> bf16|f16", always, no_scratch, create_half_cast, "", nullptr,
       row_form},
      {"cast", "simd:cast", "bf16|f16 -> f32", always, no_scratch, create_half_cast, "", nullptr,
       row_form},
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
