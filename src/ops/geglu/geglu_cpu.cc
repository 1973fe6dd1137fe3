// SPDX-License-Identifier: Apache-2.0
// Rows in pieces that stay in the first-level cache, by the row functions of gelu and products.
#include "backend/cpu/half_rows.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/row_kernel.h"
#include "ops/elementwise/elementwise_cpu.h"

namespace snug {
namespace {

// Halves of a row: a piece is as many columns of both.
constexpr int64_t kPiece = kElementwiseChunk / 4;

// body(offset of the piece in x, in y, n) for each of `rows` rows.
template <class Body>
void for_each_half_piece(int64_t rows, int64_t half, const Body& body) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t first = 0; first < half; first += kPiece)
      body(row * 2 * half + first, row * half + first, std::min(kPiece, half - first));
  }
}

struct Halves {
  int64_t rows = 0;
  int64_t half = 0;
  explicit Halves(const TensorType& x) : half(x.shape.back() / 2) {
    rows = half == 0 ? 0 : element_count(x) / (2 * half);
  }
};

RowwiseForm form_of(const NodeSpec& spec, const CpuContext& context) {
  const Halves x(spec.inputs[0]);
  const int64_t half = x.half * element_bytes(spec.inputs[0].dtype);
  const bool is_gradient = spec.inputs.size() == 2;
  RowwiseForm form{.grid = {.rows = x.rows}, .threads = context.threads};
  form.inputs = {2 * half};
  if (is_gradient) form.inputs.push_back(half);
  form.outputs = {is_gradient ? 2 * half : half};
  return form;
}

std::unique_ptr<Kernel> create_geglu(const NodeSpec& spec, const CpuContext& context) {
  return make_row_kernel(
      form_of(spec, context),
      [half = Halves(spec.inputs[0]).half, rows = FloatRows(spec.inputs[0].dtype),
       gelu = find_unary_row("gelu", spec.attrs.text("approximate")),
       times = find_binary_row("mul")](const RowPiece& piece) {
        for_each_half_piece(piece.rows(), half, [&](int64_t at, int64_t to, int64_t n) {
          float first[kPiece];
          float second[kPiece];
          const float* x = rows.read(piece.inputs[0], at, n, first);
          const float* gate = rows.read(piece.inputs[0], at + half, n, second);
          float* y = rows.place(piece.outputs[0], to, first);
          gelu(x, y, n, 0);
          times(y, 1, gate, 1, y, n);
          rows.write(y, piece.outputs[0], to, n);
        });
      });
}

// dx may be x: a piece of x is read before dx is written over it.
std::unique_ptr<Kernel> create_geglu_grad(const NodeSpec& spec, const CpuContext& context) {
  return make_row_kernel(
      form_of(spec, context),
      [half = Halves(spec.inputs[0]).half, rows = FloatRows(spec.inputs[0].dtype),
       gelu = find_unary_row("gelu", spec.attrs.text("approximate")),
       slope = find_grad_row("gelu_grad", spec.attrs.text("approximate")),
       times = find_binary_row("mul")](const RowPiece& piece) {
        for_each_half_piece(piece.rows(), half, [&](int64_t at, int64_t from, int64_t n) {
          float first[kPiece];
          float second[kPiece];
          float third[kPiece];
          float of_gate[kPiece];
          float of_x[kPiece];
          const float* x = rows.read(piece.inputs[0], at, n, first);
          const float* gate = rows.read(piece.inputs[0], at + half, n, second);
          const float* dy = rows.read(piece.inputs[1], from, n, third);
          gelu(x, of_gate, n, 0);
          times(of_gate, 1, dy, 1, of_gate, n);
          times(gate, 1, dy, 1, of_x, n);
          float* to_x = rows.place(piece.outputs[0], at, of_x);
          slope(x, of_x, to_x, n);
          rows.write(to_x, piece.outputs[0], at, n);
          float* to_gate = rows.place(piece.outputs[0], at + half, of_gate);
          if (to_gate != of_gate) std::copy_n(of_gate, n, to_gate);
          rows.write(to_gate, piece.outputs[0], at + half, n);
        });
      });
}

}  // namespace

std::span<const CpuKernelDef> geglu_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"geglu", "simd:geglu", "f32|bf16|f16 -> f32|bf16|f16", always, no_scratch, create_geglu, "",
       nullptr, form_of},
      {"geglu_grad", "simd:geglu_grad", "f32|bf16|f16 f32|bf16|f16 -> f32|bf16|f16", always,
       no_scratch, create_geglu_grad, "", nullptr, form_of},
  };
  return kernels;
}

}  // namespace snug
