// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "backend/reference/reference.h"
#include "base/half.h"
#include "ops/coded/coded.h"

namespace snug {
namespace {

constexpr double kZeroCode = 128;

// bf16 and bf16x8 are there as they are.
std::vector<double> coded_decoded(const RefTensor& weight, const RefTensor& scales) {
  std::vector<double> values(weight.data, weight.data + weight.size());
  if (scales.data == nullptr) return values;
  const int64_t columns = weight.type.shape[1];
  const int64_t blocks = coded_blocks(columns);
  for (int64_t i = 0; i < weight.size(); ++i) {
    const double scale = scales.data[i / columns * blocks + i % columns / kCodedBlock];
    values[static_cast<size_t>(i)] = scale * (values[static_cast<size_t>(i)] - kZeroCode);
  }
  return values;
}

void run_coded_matmul(const RefArgs& args) {
  const RefTensor& a = args.inputs[0];
  const RefTensor& bias = args.inputs[3];
  const RefTensor& y = args.outputs[0];
  const std::vector<double> weight = coded_decoded(args.inputs[1], args.inputs[2]);
  const bool transpose_b = args.attrs.boolean("transpose_b");
  const int64_t columns = args.inputs[1].type.shape[1];
  const int64_t width = y.type.shape.back();
  const int64_t summed = a.type.shape.back();
  for (int64_t i = 0; i < y.size(); ++i) {
    double sum = bias.data == nullptr ? 0 : bias.data[i % bias.size()];
    const int64_t n = i % width;
    for (int64_t k = 0; k < summed; ++k) {
      const int64_t at = transpose_b ? n * columns + k : k * columns + n;
      sum += a.data[i / width * summed + k] * weight[static_cast<size_t>(at)];
    }
    y.data[i] = sum;
  }
}

int64_t coded_checked_id(const RefTensor& ids, int64_t index, int64_t rows) {
  const auto id = static_cast<int64_t>(ids.data[index]);
  if (id < 0 || id >= rows)
    throw Error(
        ErrorCode::bad_data, "coded_embedding",
        "id " + std::to_string(id) + " is outside the table of " + std::to_string(rows) + " rows");
  return id;
}

void run_coded_embedding(const RefArgs& args) {
  const RefTensor& table = args.inputs[0];
  const RefTensor& ids = args.inputs[1];
  const std::vector<double> rows = coded_decoded(table, args.inputs[2]);
  const int64_t width = table.type.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t id = coded_checked_id(ids, i, table.type.shape[0]);
    std::copy_n(rows.begin() + id * width, width, args.outputs[0].data + i * width);
  }
}

void run_coded_embedding_sum(const RefArgs& args) {
  const RefTensor& table = args.inputs[0];
  const RefTensor& ids = args.inputs[1];
  const RefTensor& y = args.outputs[0];
  const std::vector<double> rows = coded_decoded(table, args.inputs[3]);
  const int64_t width = table.type.shape[1];
  std::fill_n(y.data, y.size(), 0.0);
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t id = coded_checked_id(ids, i, table.type.shape[0]);
    const double weight = args.inputs[2].data[i];
    if (weight == 0) continue;
    const int64_t sum = i / ids.type.shape.back();
    for (int64_t j = 0; j < width; ++j)
      y.data[sum * width + j] += weight * rows[static_cast<size_t>(id * width + j)];
  }
}

void run_upper_half(const RefArgs& args) {
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const Bf16x8 both = to_bf16x8(static_cast<float>(args.inputs[0].data[i]));
    args.outputs[0].data[i] = static_cast<double>(to_f32(Bf16{both.high}));
  }
}

}  // namespace

std::span<const RefKernelDef> coded_ref_kernels() {
  static const RefKernelDef kernels[] = {{"coded_matmul", run_coded_matmul},
                                         {"coded_embedding", run_coded_embedding},
                                         {"coded_embedding_sum", run_coded_embedding_sum},
                                         {"upper_half", run_upper_half}};
  return kernels;
}

}  // namespace snug
