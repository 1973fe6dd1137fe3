// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "backend/reference/reference.h"

namespace snug {
namespace {

int64_t embedding_checked_id(const RefTensor& ids, int64_t index, int64_t rows) {
  const auto id = static_cast<int64_t>(ids.data[index]);
  if (id < 0 || id >= rows) {
    throw Error(
        ErrorCode::bad_data, "embedding",
        "id " + std::to_string(id) + " is outside the table of " + std::to_string(rows) + " rows");
  }
  return id;
}

void run_embedding(const RefArgs& args) {
  const RefTensor& table = args.inputs[0];
  const RefTensor& ids = args.inputs[1];
  const int64_t width = table.type.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t id = embedding_checked_id(ids, i, table.type.shape[0]);
    std::copy_n(table.data + id * width, width, args.outputs[0].data + i * width);
  }
}

void add_rows(const RefTensor& ids, const RefTensor& dy, const RefTensor& table) {
  const int64_t width = table.type.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    const int64_t id = embedding_checked_id(ids, i, table.type.shape[0]);
    for (int64_t j = 0; j < width; ++j) table.data[id * width + j] += dy.data[i * width + j];
  }
}

void run_embedding_grad(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
  add_rows(args.inputs[0], args.inputs[1], args.outputs[0]);
}

// Numbers the rows that ids name and that have no number yet in the order in which they first
// occur, and returns which row of a row-sparse matrix each id names.
std::vector<double> numbers_of(const RefTensor& ids, double& known, const RefTensor& row_of) {
  std::vector<double> rows;
  for (int64_t i = 0; i < ids.size(); ++i) {
    double& number = row_of.data[embedding_checked_id(ids, i, row_of.size())];
    if (number == 0) number = ++known;
    rows.push_back(number - 1);
  }
  return rows;
}

// The same for a matrix that has no rows before, whose outputs these are.
std::vector<double> numbers_of_new(const RefTensor& ids, std::span<const RefTensor> outputs) {
  for (const RefTensor& output : outputs) std::fill_n(output.data, output.size(), 0.0);
  double known = 0;
  return numbers_of(ids, known, outputs[1]);
}

// And for a sum whose rows, row_of and count are the first inputs and the outputs.
std::vector<double> numbers_of_sum(const RefArgs& args) {
  for (size_t i = 0; i < args.outputs.size(); ++i)
    std::copy_n(args.inputs[i].data, args.inputs[i].size(), args.outputs[i].data);
  return numbers_of(args.inputs[args.outputs.size()], *args.outputs[2].data, args.outputs[1]);
}

void run_embedding_grad_rows(const RefArgs& args) {
  std::vector<double> numbers = numbers_of_new(args.inputs[0], args.outputs);
  add_rows({args.inputs[0].type, numbers.data()}, args.inputs[1], args.outputs[0]);
}

void run_embedding_rows_accumulate(const RefArgs& args) {
  std::vector<double> numbers = numbers_of_sum(args);
  add_rows({args.inputs[3].type, numbers.data()}, args.inputs[4], args.outputs[0]);
}

void run_embedding_accumulate(const RefArgs& args) {
  std::copy_n(args.inputs[0].data, args.inputs[0].size(), args.outputs[0].data);
  add_rows(args.inputs[1], args.inputs[2], args.outputs[0]);
}

// Calls body(index of an id, the row that it names, its sum) for each id (..., T).
template <class Body>
void for_each_summand(const RefTensor& ids, int64_t rows, const Body& body) {
  const int64_t tokens = ids.type.shape.back();
  for (int64_t i = 0; i < ids.size(); ++i) body(i, embedding_checked_id(ids, i, rows), i / tokens);
}

void run_embedding_sum(const RefArgs& args) {
  const RefTensor& table = args.inputs[0];
  const RefTensor& weights = args.inputs[2];
  const RefTensor& y = args.outputs[0];
  const int64_t width = table.type.shape[1];
  std::fill_n(y.data, y.size(), 0.0);
  for_each_summand(args.inputs[1], table.type.shape[0], [&](int64_t i, int64_t id, int64_t sum) {
    if (weights.data[i] == 0) return;
    for (int64_t j = 0; j < width; ++j)
      y.data[sum * width + j] += weights.data[i] * table.data[id * width + j];
  });
}

void add_weighted(const RefTensor& ids, const RefTensor& weights, const RefTensor& dy,
                  const RefTensor& table) {
  const int64_t width = table.type.shape[1];
  for_each_summand(ids, table.type.shape[0], [&](int64_t i, int64_t id, int64_t sum) {
    if (weights.data[i] == 0) return;
    for (int64_t j = 0; j < width; ++j)
      table.data[id * width + j] += weights.data[i] * dy.data[sum * width + j];
  });
}

void run_sum_grad(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
  add_weighted(args.inputs[0], args.inputs[1], args.inputs[2], args.outputs[0]);
}

void run_sum_grad_rows(const RefArgs& args) {
  std::vector<double> numbers = numbers_of_new(args.inputs[0], args.outputs);
  add_weighted({args.inputs[0].type, numbers.data()}, args.inputs[1], args.inputs[2],
               args.outputs[0]);
}

void run_sum_rows_accumulate(const RefArgs& args) {
  std::vector<double> numbers = numbers_of_sum(args);
  add_weighted({args.inputs[3].type, numbers.data()}, args.inputs[4], args.inputs[5],
               args.outputs[0]);
}

void run_sum_accumulate(const RefArgs& args) {
  std::copy_n(args.inputs[0].data, args.inputs[0].size(), args.outputs[0].data);
  add_weighted(args.inputs[1], args.inputs[2], args.inputs[3], args.outputs[0]);
}

void run_sum_grad_weights(const RefArgs& args) {
  const RefTensor& table = args.inputs[0];
  const RefTensor& dy = args.inputs[2];
  const int64_t width = table.type.shape[1];
  for_each_summand(args.inputs[1], table.type.shape[0], [&](int64_t i, int64_t id, int64_t sum) {
    double product = 0;
    for (int64_t j = 0; j < width; ++j)
      product += table.data[id * width + j] * dy.data[sum * width + j];
    args.outputs[0].data[i] = product;
  });
}

}  // namespace

std::span<const RefKernelDef> embedding_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"embedding", run_embedding},
      {"embedding_grad", run_embedding_grad},
      {"embedding_grad_rows", run_embedding_grad_rows},
      {"embedding_grad_accumulate", run_embedding_accumulate},
      {"embedding_grad_rows_accumulate", run_embedding_rows_accumulate},
      {"embedding_sum", run_embedding_sum},
      {"embedding_sum_grad", run_sum_grad},
      {"embedding_sum_grad_rows", run_sum_grad_rows},
      {"embedding_sum_grad_accumulate", run_sum_accumulate},
      {"embedding_sum_grad_rows_accumulate", run_sum_rows_accumulate},
      {"embedding_sum_grad_weights", run_sum_grad_weights}};
  return kernels;
}

}  // namespace snug
