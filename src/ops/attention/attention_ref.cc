// SPDX-License-Identifier: Apache-2.0
// B, T, E, heads, D as in attention.h. One query at a time, with one row of scores.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/reference/reference.h"
#include "ops/attention/attention.h"

namespace snug {
namespace {

// The operands of one sample and head; element (t, d) of a (B, T, E) tensor is at offset(t) + d.
class Head {
 public:
  Head(const RefArgs& args, size_t mask, int64_t sample, int64_t head)
      : args_(args),
        mask_(args.inputs[mask].data),
        rng_(args.inputs[mask + 1].data),
        sample_(sample),
        head_(head) {
    const Shape& q = args.inputs[0].type.shape;
    tokens = q[1];
    width_ = q[2];
    columns = width_ / args.attrs.int64("heads");
    rate_ = args.attrs.real("rate");
    scale = 1 / std::sqrt(static_cast<double>(columns));
  }

  [[nodiscard]] int64_t offset(int64_t token) const {
    return (sample_ * tokens + token) * width_ + head_ * columns;
  }
  [[nodiscard]] int64_t lse_index(int64_t query) const {
    return (sample_ * args_.attrs.int64("heads") + head_) * tokens + query;
  }
  [[nodiscard]] bool is_visible(int64_t key) const {
    return mask_ == nullptr || mask_[sample_ * tokens + key] != 0;
  }
  [[nodiscard]] double dot(const double* a, int64_t a_token, const double* b,
                           int64_t b_token) const {
    double sum = 0;
    for (int64_t d = 0; d < columns; ++d) sum += a[offset(a_token) + d] * b[offset(b_token) + d];
    return sum;
  }
  [[nodiscard]] double score(int64_t query, int64_t key) const {
    return scale * dot(args_.inputs[0].data, query, args_.inputs[1].data, key);
  }
  // What dropout multiplies a probability by.
  [[nodiscard]] double dropout_factor(int64_t query, int64_t key) const {
    if (rate_ == 0) return 1;
    const PhiloxCounter words = dropout_words(
        attention_quad(query, key), static_cast<int64_t>(rng_[2]) + sample_,
        static_cast<int64_t>(rng_[1]), attention_ordinal(args_.attrs.int64("ordinal"), head_),
        static_cast<int64_t>(rng_[0]));
    return words[static_cast<size_t>(key % 4)] >= dropout_threshold(rate_) ? 1 / (1 - rate_) : 0;
  }

  int64_t tokens = 0;
  int64_t columns = 0;
  double scale = 0;

 private:
  const RefArgs& args_;
  const double* mask_;
  const double* rng_;
  int64_t sample_;
  int64_t head_;
  int64_t width_ = 0;
  double rate_ = 0;
};

void forward_query(const RefArgs& args, const Head& head, int64_t query) {
  const double* v = args.inputs[2].data;
  double* o = args.outputs[0].data + head.offset(query);
  double& lse = args.outputs[1].data[head.lse_index(query)];
  std::fill_n(o, head.columns, 0.0);
  lse = 0;
  double largest = -std::numeric_limits<double>::infinity();
  bool sees_any = false;
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (!head.is_visible(key)) continue;
    largest = std::max(largest, head.score(query, key));
    sees_any = true;
  }
  if (!sees_any) return;
  double sum = 0;
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (head.is_visible(key)) sum += std::exp(head.score(query, key) - largest);
  }
  lse = largest + std::log(sum);
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (!head.is_visible(key)) continue;
    const double p =
        std::exp(head.score(query, key) - largest) / sum * head.dropout_factor(query, key);
    for (int64_t d = 0; d < head.columns; ++d) o[d] += p * v[head.offset(key) + d];
  }
}

void grad_query(const RefArgs& args, const Head& head, int64_t query) {
  const double* q = args.inputs[0].data;
  const double* k = args.inputs[1].data;
  const double* v = args.inputs[2].data;
  const double lse = args.inputs[4].data[head.lse_index(query)];
  const double* d_o = args.inputs[5].data;
  const double delta = head.dot(d_o, query, args.inputs[3].data, query);
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (!head.is_visible(key)) continue;
    const double p = std::exp(head.score(query, key) - lse);
    const double factor = head.dropout_factor(query, key);
    const double ds = p * (factor * head.dot(d_o, query, v, key) - delta) * head.scale;
    for (int64_t d = 0; d < head.columns; ++d) {
      const int64_t at_query = head.offset(query) + d;
      const int64_t at_key = head.offset(key) + d;
      args.outputs[0].data[at_query] += ds * k[at_key];
      args.outputs[1].data[at_key] += ds * q[at_query];
      args.outputs[2].data[at_key] += p * factor * d_o[at_query];
    }
  }
}

template <class Query>
void for_each_query(const RefArgs& args, size_t mask, Query query_fn) {
  const Shape& q = args.inputs[0].type.shape;
  for (int64_t sample = 0; sample < q[0]; ++sample) {
    for (int64_t head = 0; head < args.attrs.int64("heads"); ++head) {
      const Head operands(args, mask, sample, head);
      for (int64_t query = 0; query < q[1]; ++query) query_fn(args, operands, query);
    }
  }
}

void run_forward(const RefArgs& args) { for_each_query(args, 3, forward_query); }

void run_grad(const RefArgs& args) {
  for (const RefTensor& output : args.outputs) std::fill_n(output.data, output.size(), 0.0);
  for_each_query(args, 6, grad_query);
}

}  // namespace

std::span<const RefKernelDef> attention_ref_kernels() {
  static const RefKernelDef kernels[] = {{"attention", run_forward}, {"attention_grad", run_grad}};
  return kernels;
}

}  // namespace snug
