// SPDX-License-Identifier: Apache-2.0
#include "ops/disentangled_attention/disentangled_attention_launch_cpu.h"

#include <cmath>

namespace snug {

RelativeShape relative_shape(const NodeSpec& spec, size_t tables) {
  RelativeShape shape;
  shape.pairs = attention_shape(spec);
  shape.dtype = spec.inputs[0].dtype;
  shape.rows.buckets = spec.attrs.int64("buckets");
  shape.rows.max_distance = spec.attrs.int64("max_distance");
  shape.has_pos_key = spec.inputs.has(tables);
  shape.has_pos_query = spec.inputs.has(tables + 1);
  int64_t terms = 1;
  for (const size_t i : {tables, tables + 1}) {
    if (!spec.inputs.has(i)) continue;
    ++terms;
    shape.table_rows = spec.inputs[i].shape[0];
    shape.rows.span = shape.table_rows / 2;
  }
  shape.pairs.scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(shape.pairs.columns * terms)));
  shape.pairs.hides_queries = true;
  shape.pairs.is_one_head = shape.dtype != DType::f32;
  return shape;
}

int64_t relative_row_floats(const RelativeShape& shape) {
  return round_up(2 * shape.pairs.tokens, kAttentionPad);
}

const int32_t* put_relative_rows(const RelativeShape& shape, float* scratch) {
  auto* middle = reinterpret_cast<int32_t*>(scratch) + shape.pairs.tokens;
  for (int64_t distance = 1 - shape.pairs.tokens; distance < shape.pairs.tokens; ++distance)
    middle[distance] = static_cast<int32_t>(shape.rows.row(distance));
  return middle;
}

RelativeTables relative_tables(const RelativeShape& shape, int64_t head, const float* pos_key,
                               const float* pos_query, const int32_t* row_of) {
  const int64_t offset = head * shape.pairs.columns;
  return {.pos_key = pos_key == nullptr ? nullptr : pos_key + offset,
          .pos_query = pos_query == nullptr ? nullptr : pos_query + offset,
          .stride = shape.pairs.width(),
          .row_of = row_of};
}

RelativeTables copied_tables(const RelativeShape& shape, int64_t head, const Launch& launch,
                             size_t tables, const int32_t* row_of, HeadCopies& copies) {
  const auto copy_of = [&](size_t i) {
    const std::byte* data = launch.inputs[i];
    return data == nullptr ? nullptr : copies.read(data, 0, head, 0, shape.table_rows);
  };
  return {.pos_key = copy_of(tables),
          .pos_query = copy_of(tables + 1),
          .stride = shape.pairs.columns,
          .row_of = row_of};
}

}  // namespace snug
