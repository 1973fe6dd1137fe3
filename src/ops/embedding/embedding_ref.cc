// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/reference/reference.h"

namespace snug {
namespace {

int64_t checked_id(const RefTensor& ids, int64_t index, int64_t rows) {
  const auto id = static_cast<int64_t>(ids.data[index]);
  if (id < 0 || id >= rows) {
    throw Error(
        ErrorCode::bad_data, "embedding",
        "id " + std::to_string(id) + " is outside the table of " + std::to_string(rows) + " rows");
  }
  return id;
}

void run_forward(const RefArgs& args) {
  const RefTensor& table = args.inputs[0];
  const RefTensor& ids = args.inputs[1];
  const int64_t width = table.type.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t id = checked_id(ids, i, table.type.shape[0]);
    std::copy_n(table.data + id * width, width, args.outputs[0].data + i * width);
  }
}

void add_rows(const RefTensor& ids, const RefTensor& dy, const RefTensor& table) {
  const int64_t width = table.type.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t id = checked_id(ids, i, table.type.shape[0]);
    for (int64_t j = 0; j < width; ++j) table.data[id * width + j] += dy.data[i * width + j];
  }
}

void run_grad(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
  add_rows(args.inputs[0], args.inputs[1], args.outputs[0]);
}

void run_accumulate(const RefArgs& args) {
  std::copy_n(args.inputs[0].data, args.inputs[0].size(), args.outputs[0].data);
  add_rows(args.inputs[1], args.inputs[2], args.outputs[0]);
}

}  // namespace

std::span<const RefKernelDef> embedding_ref_kernels() {
  static const RefKernelDef kernels[] = {{"embedding", run_forward},
                                         {"embedding_grad", run_grad},
                                         {"embedding_grad_accumulate", run_accumulate}};
  return kernels;
}

}  // namespace snug
