// SPDX-License-Identifier: Apache-2.0
// CPU kernels: one query at a time, with rows of T scores. A unit of work is one head of all
// samples in order, so that sums over samples have one order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernel.h"
#include "base/threads.h"
#include "base/units.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cpu.h"
#include "ops/disentangled_attention/disentangled_attention.h"

namespace snug {
namespace {

struct Pairs {
  AttentionShape shape;
  RelativeRows rows;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* pos_key = nullptr;
  const float* pos_query = nullptr;
  const uint8_t* mask = nullptr;
  const int64_t* rng = nullptr;

  [[nodiscard]] bool is_visible(int64_t sample, int64_t query, int64_t key) const {
    const uint8_t* of_sample = mask + sample * shape.tokens;
    return mask == nullptr || (of_sample[query] != 0 && of_sample[key] != 0);
  }
  [[nodiscard]] float dot(const float* a, const float* b) const {
    float sum = 0;
    for (int64_t d = 0; d < shape.columns; ++d) sum += a[d] * b[d];
    return sum;
  }
  [[nodiscard]] int64_t row(int64_t query, int64_t key, int64_t head) const {
    return rows.row(query - key) * shape.width() + head * shape.columns;
  }
  [[nodiscard]] float score(int64_t sample, int64_t query, int64_t key, int64_t head) const {
    const float* qi = q + shape.head_offset(sample, head) + query * shape.width();
    const float* kj = k + shape.head_offset(sample, head) + key * shape.width();
    float sum = dot(qi, kj);
    if (pos_key != nullptr) sum += dot(qi, pos_key + row(query, key, head));
    if (pos_query != nullptr) sum += dot(kj, pos_query + row(query, key, head));
    return sum * shape.scale;
  }
  [[nodiscard]] float factor(int64_t sample, int64_t query, int64_t key, int64_t head) const {
    if (!shape.has_dropout) return 1;
    const PhiloxCounter words = dropout_words(attention_quad(query, key), rng[2] + sample, rng[1],
                                              attention_ordinal(shape.ordinal, head), rng[0]);
    return words[static_cast<size_t>(key % 4)] >= shape.threshold ? shape.keep_scale : 0;
  }
};

Pairs pairs_of(const NodeSpec& spec, size_t tables) {
  Pairs pairs;
  pairs.shape = attention_shape(spec);
  int64_t terms = 1;
  for (const size_t i : {tables, tables + 1}) {
    if (!spec.inputs.has(i)) continue;
    ++terms;
    pairs.rows.span = spec.inputs[i].shape[0] / 2;
  }
  pairs.rows.buckets = spec.attrs.int64("buckets");
  pairs.rows.max_distance = spec.attrs.int64("max_distance");
  pairs.shape.scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(pairs.shape.columns * terms)));
  return pairs;
}

void bind(Pairs& pairs, const Launch& launch, size_t tables) {
  pairs.q = input<float>(launch, 0);
  pairs.k = input<float>(launch, 1);
  pairs.pos_key = input<float>(launch, tables);
  pairs.pos_query = input<float>(launch, tables + 1);
  pairs.mask = input<uint8_t>(launch, tables + 2);
  pairs.rng = input<int64_t>(launch, tables + 3);
}

int64_t row_bytes(const AttentionShape& shape) {
  return round_up(shape.tokens, kAttentionPad) * static_cast<int64_t>(sizeof(float));
}
int64_t scratch_of(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  return parallel_parts(context.threads, shape.heads, 1) * row_bytes(shape);
}

void forward_query(const Pairs& p, const Launch& launch, int64_t sample, int64_t head,
                   int64_t query, float* scores) {
  const AttentionShape& shape = p.shape;
  const int64_t base = shape.head_offset(sample, head);
  const float* v = input<float>(launch, 2) + base;
  float* o = output<float>(launch, 0) + base + query * shape.width();
  float& lse = output<float>(launch, 1)[(sample * shape.heads + head) * shape.tokens + query];
  std::fill_n(o, shape.columns, 0.0F);
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t key = 0; key < shape.tokens; ++key) {
    scores[key] = p.is_visible(sample, query, key) ? p.score(sample, query, key, head)
                                                   : -std::numeric_limits<float>::infinity();
    largest = std::max(largest, scores[key]);
  }
  lse = 0;
  if (largest == -std::numeric_limits<float>::infinity()) return;
  float sum = 0;
  for (int64_t key = 0; key < shape.tokens; ++key) sum += std::exp(scores[key] - largest);
  lse = largest + std::log(sum);
  for (int64_t key = 0; key < shape.tokens; ++key) {
    const float w = std::exp(scores[key] - largest) / sum * p.factor(sample, query, key, head);
    for (int64_t d = 0; d < shape.columns; ++d) o[d] += w * v[key * shape.width() + d];
  }
}

void grad_query(const Pairs& p, const Launch& launch, int64_t sample, int64_t head, int64_t query) {
  const AttentionShape& shape = p.shape;
  const int64_t base = shape.head_offset(sample, head);
  const int64_t at_query = base + query * shape.width();
  const float* v = input<float>(launch, 2);
  const float lse = input<float>(launch, 4)[(sample * shape.heads + head) * shape.tokens + query];
  const float* d_o = input<float>(launch, 5) + at_query;
  const float delta = p.dot(d_o, input<float>(launch, 3) + at_query);
  for (int64_t key = 0; key < shape.tokens; ++key) {
    if (!p.is_visible(sample, query, key)) continue;
    const int64_t at_key = base + key * shape.width();
    const int64_t row = p.row(query, key, head);
    const float w = std::exp(p.score(sample, query, key, head) - lse);
    const float factor = p.factor(sample, query, key, head);
    const float ds = w * (factor * p.dot(d_o, v + at_key) - delta) * shape.scale;
    for (int64_t d = 0; d < shape.columns; ++d) {
      output<float>(launch, 0)[at_query + d] += ds * p.k[at_key + d];
      output<float>(launch, 1)[at_key + d] += ds * p.q[at_query + d];
      output<float>(launch, 2)[at_key + d] += w * factor * d_o[d];
      if (p.pos_key != nullptr) {
        output<float>(launch, 0)[at_query + d] += ds * p.pos_key[row + d];
        output<float>(launch, 3)[row + d] += ds * p.q[at_query + d];
      }
      if (p.pos_query != nullptr) {
        output<float>(launch, 1)[at_key + d] += ds * p.pos_query[row + d];
        output<float>(launch, 4)[row + d] += ds * p.k[at_key + d];
      }
    }
  }
}

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([pairs = pairs_of(spec, 3), threads = context.threads](const Launch& launch) {
    Pairs p = pairs;
    bind(p, launch, 3);
    parallel_parts_for(threads, p.shape.heads, 1, [&](int part, int64_t begin, int64_t end) {
      auto* scores = scratch_at<float>(launch, part * row_bytes(p.shape));
      for (int64_t head = begin; head < end; ++head) {
        for (int64_t i = 0; i < p.shape.samples * p.shape.tokens; ++i)
          forward_query(p, launch, i / p.shape.tokens, head, i % p.shape.tokens, scores);
      }
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([pairs = pairs_of(spec, 6), threads = context.threads](const Launch& launch) {
    Pairs p = pairs;
    bind(p, launch, 6);
    const int64_t tokens = p.shape.samples * p.shape.tokens;
    for (size_t i = 0; i < 3; ++i)
      std::fill_n(output<float>(launch, i), tokens * p.shape.width(), 0.0F);
    const int64_t in_table = 2 * p.rows.span * p.shape.width();
    if (p.pos_key != nullptr) std::fill_n(output<float>(launch, 3), in_table, 0.0F);
    if (p.pos_query != nullptr) std::fill_n(output<float>(launch, 4), in_table, 0.0F);
    parallel_parts_for(threads, p.shape.heads, 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        for (int64_t i = 0; i < tokens; ++i)
          grad_query(p, launch, i / p.shape.tokens, head, i % p.shape.tokens);
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> disentangled_attention_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"disentangled_attention", "rows:disentangled_attention",
       "f32 f32 f32 f32 f32 bool i64 -> f32 f32", always, scratch_of, create_forward},
      {"disentangled_attention_grad", "rows:disentangled_attention_grad",
       "f32 f32 f32 f32 f32 f32 f32 f32 bool i64 -> f32 f32 f32 f32 f32", always, no_scratch,
       create_grad},
  };
  return kernels;
}

}  // namespace snug
