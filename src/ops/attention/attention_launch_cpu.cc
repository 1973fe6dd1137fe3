// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_launch_cpu.h"

#include <cmath>

#include "backend/cpu/kernel.h"
#include "ops/attention/attention.h"

namespace snug {

AttentionShape attention_shape(const NodeSpec& spec) {
  const Shape& q = spec.inputs[0].shape;
  AttentionShape shape;
  shape.samples = q[0];
  shape.tokens = q[1];
  shape.heads = spec.attrs.int64("heads");
  shape.columns = q[2] / shape.heads;
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.columns)));
  const double rate = spec.attrs.real("rate");
  shape.has_dropout = rate > 0;
  shape.threshold = dropout_threshold(rate);
  shape.keep_scale = static_cast<float>(1 / (1 - rate));
  shape.ordinal = static_cast<uint32_t>(spec.attrs.int64("ordinal"));
  shape.window = attention_window(spec.attrs);
  return shape;
}

const float* HeadCopies::read(const std::byte* data, int64_t sample, int64_t head, int64_t first,
                              int64_t rows) {
  float* copy = take(rows);
  for (int64_t i = 0; i < rows; ++i)
    (void)rows_.read(data, offset(sample, head, first + i), shape_.columns,
                     copy + i * shape_.columns);
  return copy;
}

void HeadCopies::write(const float* copy, std::byte* data, int64_t sample, int64_t head,
                       int64_t first, int64_t rows) const {
  for (int64_t i = 0; i < rows; ++i)
    rows_.write(copy + i * shape_.columns, data, offset(sample, head, first + i), shape_.columns);
}

AttentionData grad_data(const Launch& launch, size_t mask) {
  return {.q = input<float>(launch, 0),
          .k = input<float>(launch, 1),
          .v = input<float>(launch, 2),
          .o = input<float>(launch, 3),
          .lse = input<float>(launch, 4),
          .diff_o = input<float>(launch, 5),
          .mask = input<uint8_t>(launch, mask),
          .rng = input<int64_t>(launch, mask + 1),
          .diff_q = output<float>(launch, 0),
          .diff_k = output<float>(launch, 1),
          .diff_v = output<float>(launch, 2)};
}

AttentionData copied_grad_data(const Launch& launch, size_t mask, HeadCopies& copies,
                               int64_t sample, int64_t head, int64_t tokens) {
  const auto copy_of = [&](size_t i) {
    return copies.read(launch.inputs[i], sample, head, 0, tokens);
  };
  return {.q = copy_of(0),
          .k = copy_of(1),
          .v = copy_of(2),
          .o = copy_of(3),
          .lse = input<float>(launch, 4),
          .diff_o = copy_of(5),
          .mask = input<uint8_t>(launch, mask),
          .rng = input<int64_t>(launch, mask + 1),
          .diff_q = copies.take(tokens),
          .diff_k = copies.take(tokens),
          .diff_v = copies.take(tokens)};
}

void write_grad(const AttentionData& data, const Launch& launch, const HeadCopies& copies,
                int64_t sample, int64_t head, int64_t tokens) {
  const float* results[] = {data.diff_q, data.diff_k, data.diff_v};
  for (size_t i = 0; i < 3; ++i)
    copies.write(results[i], launch.outputs[i], sample, head, 0, tokens);
}

}  // namespace snug
