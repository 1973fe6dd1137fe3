// SPDX-License-Identifier: Apache-2.0
// The references of ops that weigh values by scores of pairs: one query at a time, with one row of
// scores. Private to *_ref.cc. B, T, E, heads, D as in attention.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "backend/reference/reference.h"
#include "ops/attention/attention.h"

namespace snug {

/// The operands of one sample and head; element (t, d) of a (B, T, E) tensor is at offset(t) + d.
/// Inputs 0, 1, 2 are q, k, v.
class AttentionHead {
 public:
  AttentionHead(const RefArgs& args, size_t mask, int64_t sample, int64_t head)
      : args_(args),
        mask_(args.inputs[mask].data),
        rng_(args.inputs[mask + 1].data),
        sample_(sample),
        head_(head) {
    const Shape& q = args.inputs[0].type.shape;
    tokens = q[1];
    width = q[2];
    columns = width / args.attrs.int64("heads");
    rate_ = args.attrs.real("rate");
    window_ = attention_window(args.attrs);
    scale = 1 / std::sqrt(static_cast<double>(columns));
  }

  [[nodiscard]] int64_t offset(int64_t token) const {
    return sample_ * tokens * width + offset_in_sample(token);
  }
  [[nodiscard]] int64_t offset_in_sample(int64_t row) const {
    return row * width + head_ * columns;
  }
  [[nodiscard]] int64_t lse_index(int64_t query) const {
    return (sample_ * args_.attrs.int64("heads") + head_) * tokens + query;
  }
  [[nodiscard]] bool is_there(int64_t token) const {
    return mask_ == nullptr || mask_[sample_ * tokens + token] != 0;
  }
  [[nodiscard]] bool is_visible(int64_t query, int64_t key) const {
    return is_there(key) && (window_ == 0 || std::abs(query - key) <= window_);
  }
  /// The scalar product of two rows of D columns.
  [[nodiscard]] double dot(const double* a, const double* b) const {
    double sum = 0;
    for (int64_t d = 0; d < columns; ++d) sum += a[d] * b[d];
    return sum;
  }
  [[nodiscard]] double score(int64_t query, int64_t key) const {
    return scale * dot(args_.inputs[0].data + offset(query), args_.inputs[1].data + offset(key));
  }
  /// What dropout multiplies a probability by.
  [[nodiscard]] double dropout_factor(int64_t query, int64_t key) const {
    if (rate_ == 0) return 1;
    const PhiloxCounter words = dropout_words(
        attention_quad(query, key), static_cast<int64_t>(rng_[2]) + sample_,
        static_cast<int64_t>(rng_[1]), attention_ordinal(args_.attrs.int64("ordinal"), head_),
        static_cast<int64_t>(rng_[0]));
    return words[static_cast<size_t>(key % 4)] >= dropout_threshold(rate_) ? 1 / (1 - rate_) : 0;
  }

  int64_t tokens = 0;
  int64_t width = 0;
  int64_t columns = 0;
  double scale = 0;

 private:
  const RefArgs& args_;
  const double* mask_;
  const double* rng_;
  int64_t sample_;
  int64_t head_;
  double rate_ = 0;
  int64_t window_ = 0;
};

/// Outputs o and lse of one query.
template <class Head>
void attention_query(const RefArgs& args, const Head& head, int64_t query) {
  const double* v = args.inputs[2].data;
  double* o = args.outputs[0].data + head.offset(query);
  double& lse = args.outputs[1].data[head.lse_index(query)];
  std::fill_n(o, head.columns, 0.0);
  lse = 0;
  double largest = -std::numeric_limits<double>::infinity();
  bool sees_any = false;
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (!head.is_visible(query, key)) continue;
    largest = std::max(largest, head.score(query, key));
    sees_any = true;
  }
  if (!sees_any) return;
  double sum = 0;
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (head.is_visible(query, key)) sum += std::exp(head.score(query, key) - largest);
  }
  lse = largest + std::log(sum);
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (!head.is_visible(query, key)) continue;
    const double p =
        std::exp(head.score(query, key) - largest) / sum * head.dropout_factor(query, key);
    for (int64_t d = 0; d < head.columns; ++d) o[d] += p * v[head.offset(key) + d];
  }
}

/// Adds to outputs dq, dk and dv what one query gives; inputs 3, 4, 5 are o, lse, do. add(key, ds)
/// takes the gradient by the pair's unscaled score further.
template <class Head, class Add>
void attention_grad_query(const RefArgs& args, const Head& head, int64_t query, const Add& add) {
  const double* q = args.inputs[0].data;
  const double* k = args.inputs[1].data;
  const double* v = args.inputs[2].data;
  const double lse = args.inputs[4].data[head.lse_index(query)];
  const double* d_o = args.inputs[5].data + head.offset(query);
  const double delta = head.dot(d_o, args.inputs[3].data + head.offset(query));
  for (int64_t key = 0; key < head.tokens; ++key) {
    if (!head.is_visible(query, key)) continue;
    const double p = std::exp(head.score(query, key) - lse);
    const double factor = head.dropout_factor(query, key);
    const double ds = p * (factor * head.dot(d_o, v + head.offset(key)) - delta) * head.scale;
    for (int64_t d = 0; d < head.columns; ++d) {
      const int64_t at_query = head.offset(query) + d;
      const int64_t at_key = head.offset(key) + d;
      args.outputs[0].data[at_query] += ds * k[at_key];
      args.outputs[1].data[at_key] += ds * q[at_query];
      args.outputs[2].data[at_key] += p * factor * d_o[d];
    }
    add(key, ds);
  }
}

/// run(head operands, query) for every query of every sample's heads.
template <class Head, class Run>
void for_each_query(const RefArgs& args, size_t mask, const Run& run) {
  const Shape& q = args.inputs[0].type.shape;
  for (int64_t sample = 0; sample < q[0]; ++sample) {
    for (int64_t head = 0; head < args.attrs.int64("heads"); ++head) {
      const Head operands(args, mask, sample, head);
      for (int64_t query = 0; query < q[1]; ++query) run(operands, query);
    }
  }
}

}  // namespace snug
