// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_ref.h"
#include "ops/disentangled_attention/disentangled_attention.h"

namespace snug {
namespace {

// The same with tables: pos_key at input `tables`, then pos_query, mask and rng.
class TableHead : public AttentionHead {
 public:
  TableHead(const RefArgs& args, size_t tables, int64_t sample, int64_t head)
      : AttentionHead(args, tables + 2, sample, head),
        q_(args.inputs[0].data),
        k_(args.inputs[1].data),
        pos_key_(args.inputs[tables].data),
        pos_query_(args.inputs[tables + 1].data) {
    int64_t terms = 1;
    for (const size_t table : {tables, tables + 1}) {
      if (args.inputs[table].data == nullptr) continue;
      ++terms;
      rows_.span = args.inputs[table].type.shape[0] / 2;
    }
    rows_.buckets = args.attrs.int64("buckets");
    rows_.max_distance = args.attrs.int64("max_distance");
    scale = 1 / std::sqrt(static_cast<double>(columns * terms));
  }

  [[nodiscard]] bool is_visible(int64_t query, int64_t key) const {
    return is_there(query) && is_there(key);
  }
  /// Offset of the pair's row in tables.
  [[nodiscard]] int64_t row_offset(int64_t query, int64_t key) const {
    return offset_in_sample(rows_.row(query - key));
  }
  [[nodiscard]] double score(int64_t query, int64_t key) const {
    const int64_t row = row_offset(query, key);
    double sum = dot(q_ + offset(query), k_ + offset(key));
    if (pos_key_ != nullptr) sum += dot(q_ + offset(query), pos_key_ + row);
    if (pos_query_ != nullptr) sum += dot(k_ + offset(key), pos_query_ + row);
    return scale * sum;
  }
  /// What the tables' terms add to gradients.
  void add_gradient(const RefArgs& args, int64_t query, int64_t key, double ds) const {
    const int64_t row = row_offset(query, key);
    for (int64_t d = 0; d < columns; ++d) {
      if (pos_key_ != nullptr) {
        args.outputs[0].data[offset(query) + d] += ds * pos_key_[row + d];
        args.outputs[3].data[row + d] += ds * q_[offset(query) + d];
      }
      if (pos_query_ != nullptr) {
        args.outputs[1].data[offset(key) + d] += ds * pos_query_[row + d];
        args.outputs[4].data[row + d] += ds * k_[offset(key) + d];
      }
    }
  }

 private:
  RelativeRows rows_;
  const double* q_;
  const double* k_;
  const double* pos_key_;
  const double* pos_query_;
};

void run_disentangled_attention(const RefArgs& args) {
  for_each_query<TableHead>(
      args, 3, [&](const TableHead& head, int64_t query) { attention_query(args, head, query); });
}

void run_disentangled_attention_grad(const RefArgs& args) {
  for (const RefTensor& output : args.outputs) std::fill_n(output.data, output.size(), 0.0);
  for_each_query<TableHead>(args, 6, [&](const TableHead& head, int64_t query) {
    attention_grad_query(args, head, query,
                         [&](int64_t key, double ds) { head.add_gradient(args, query, key, ds); });
  });
}

}  // namespace

std::span<const RefKernelDef> disentangled_attention_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"disentangled_attention", run_disentangled_attention},
      {"disentangled_attention_grad", run_disentangled_attention_grad}};
  return kernels;
}

}  // namespace snug
