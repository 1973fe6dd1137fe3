// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_launch_cpu.h"

#include <cmath>

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

}  // namespace snug
