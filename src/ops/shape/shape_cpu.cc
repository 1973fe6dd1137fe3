// SPDX-License-Identifier: Apache-2.0
// CPU kernels that move elements: by their size only, so every element type is served. sum_to uses
// the reductions. Legend: a tensor cut at one axis is (outer, axis, inner); `inner` rows are
// contiguous bytes.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernel.h"
#include "backend/cpu/reduction.h"
#include "backend/cpu/transpose.h"
#include "base/threads.h"

namespace snug {
namespace {

constexpr int64_t kWorthAThreadBytes = 32768;

// count rows of `bytes` bytes each, from src + i * src_pitch to dst + i * dst_pitch.
void copy_rows(int threads, int64_t count, int64_t bytes, const std::byte* src, int64_t src_pitch,
               std::byte* dst, int64_t dst_pitch) noexcept {
  if (count == 0 || bytes == 0) return;
  if (count >= threads) {
    parallel_for(threads, count, std::max<int64_t>(1, kWorthAThreadBytes / bytes),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     std::memcpy(dst + i * dst_pitch, src + i * src_pitch,
                                 static_cast<size_t>(bytes));
                   }
                 });
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    parallel_for(threads, bytes, kWorthAThreadBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(dst + i * dst_pitch + begin, src + i * src_pitch + begin,
                  static_cast<size_t>(end - begin));
    });
  }
}

struct Cut {
  int64_t outer = 1;
  int64_t axis = 0;
  int64_t inner_bytes = 0;
};
Cut cut_at(const TensorType& type, int64_t axis) {
  Cut cut{.inner_bytes = element_bytes(type.dtype)};
  for (int64_t i = 0; i < static_cast<int64_t>(type.shape.size()); ++i) {
    const int64_t size = type.shape[i];
    if (i < axis) cut.outer *= size;
    if (i == axis) cut.axis = size;
    if (i > axis) cut.inner_bytes *= size;
  }
  return cut;
}
int64_t axis_of(const NodeSpec& spec) {
  return normalize_axis(spec.attrs.int64("axis"), static_cast<int64_t>(spec.inputs[0].shape.size()),
                        *spec.op->name);
}

std::unique_ptr<Kernel> create_slice(const NodeSpec& spec, const CpuContext& context) {
  const Cut src = cut_at(spec.inputs[0], axis_of(spec));
  const Cut dst = cut_at(spec.outputs[0], axis_of(spec));
  int64_t start = spec.attrs.int64("start");
  if (start < 0) start += src.axis;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    copy_rows(threads, src.outer, dst.axis * src.inner_bytes,
              launch.inputs[0] + start * src.inner_bytes, src.axis * src.inner_bytes,
              launch.outputs[0], dst.axis * src.inner_bytes);
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_pad(const NodeSpec& spec, const CpuContext& context) {
  const Cut src = cut_at(spec.inputs[0], axis_of(spec));
  const Cut dst = cut_at(spec.outputs[0], axis_of(spec));
  const int64_t head = spec.attrs.int64("before") * src.inner_bytes;
  const int64_t body = src.axis * src.inner_bytes;
  const int64_t pitch = dst.axis * src.inner_bytes;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    parallel_for(threads, src.outer,
                 std::max<int64_t>(1, kWorthAThreadBytes / std::max<int64_t>(1, pitch)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     std::byte* line = launch.outputs[0] + i * pitch;
                     std::memset(line, 0, static_cast<size_t>(head));
                     std::memset(line + head + body, 0, static_cast<size_t>(pitch - head - body));
                   }
                 });
    copy_rows(threads, src.outer, body, launch.inputs[0], body, launch.outputs[0] + head, pitch);
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_concat(const NodeSpec& spec, const CpuContext& context) {
  const int64_t axis = axis_of(spec);
  const Cut dst = cut_at(spec.outputs[0], axis);
  std::vector<int64_t> widths;
  for (const TensorType& type : spec.inputs.given())
    widths.push_back(cut_at(type, axis).axis * dst.inner_bytes);
  return make_kernel([dst, widths, threads = context.threads](const Launch& launch) {
    int64_t offset = 0;
    for (size_t i = 0; i < widths.size(); ++i) {
      copy_rows(threads, dst.outer, widths[i], launch.inputs[i], widths[i],
                launch.outputs[0] + offset, dst.axis * dst.inner_bytes);
      offset += widths[i];
    }
    return ErrorCode::ok;
  });
}

// ---- transpose ----

// Dimensions in the order of dst: sizes, and the strides in src of each. Size-1 dimensions are
// dropped and dimensions that stay neighbours are merged.
struct AxisOrder {
  Shape sizes;
  Shape src_strides;
};
AxisOrder permutation_of(const NodeSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  const Shape strides = strides_of(shape);
  AxisOrder p;
  for (const int64_t axis : spec.attrs.ints("perm")) {
    const int64_t i = normalize_axis(axis, std::ssize(shape), *spec.op->name);
    if (shape[i] == 1) continue;
    if (!p.sizes.empty() && p.src_strides.back() == strides[i] * shape[i]) {
      p.sizes.back() *= shape[i];
      p.src_strides.back() = strides[i];
    } else {
      p.sizes.push_back(shape[i]);
      p.src_strides.push_back(strides[i]);
    }
  }
  if (p.sizes.empty()) p = {.sizes = {1}, .src_strides = {1}};
  return p;
}

// Offset in src of the i-th combination of the first `count` dimensions, of which `skip` (or -1) is
// left out.
int64_t offset_of(const AxisOrder& p, size_t count, size_t skip, int64_t i) {
  int64_t offset = 0;
  for (size_t dim = count; dim-- > 0;) {
    if (dim == skip) continue;
    offset += i % p.sizes[dim] * p.src_strides[dim];
    i /= p.sizes[dim];
  }
  return offset;
}

template <class T>
std::unique_ptr<Kernel> create_transpose_of(const AxisOrder& p, int threads) {
  const size_t last = p.sizes.size() - 1;
  int64_t elements = 1;
  for (const int64_t size : p.sizes) elements *= size;
  if (elements == 0) return make_kernel([](const Launch&) { return ErrorCode::ok; });
  const int64_t width = p.sizes[last];
  if (p.src_strides[last] == 1) {
    // Whole rows move.
    return make_kernel([=](const Launch& launch) {
      const T* src = input<T>(launch, 0);
      T* dst = output<T>(launch);
      const int64_t grain =
          std::max<int64_t>(1, kWorthAThreadBytes / (width * static_cast<int64_t>(sizeof(T))));
      parallel_for(threads, elements / width, grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          std::copy_n(src + offset_of(p, last, p.sizes.size(), row), width, dst + row * width);
        }
      });
      return ErrorCode::ok;
    });
  }
  // The dimension that is contiguous in src becomes the rows of tiles whose columns are dst's last
  // dimension.
  size_t unit = 0;
  while (p.src_strides[unit] != 1) ++unit;
  int64_t unit_dst_stride = 1;
  for (size_t dim = unit + 1; dim < p.sizes.size(); ++dim) unit_dst_stride *= p.sizes[dim];
  return make_kernel([=](const Launch& launch) {
    const T* src = input<T>(launch, 0);
    T* dst = output<T>(launch);
    const int64_t length = p.sizes[unit];
    const int64_t strips = (length + kTransposeStrip - 1) / kTransposeStrip;
    const int64_t grain = std::max<int64_t>(
        1, kWorthAThreadBytes / (width * kTransposeStrip * static_cast<int64_t>(sizeof(T))));
    parallel_for(
        threads, elements / length / width * strips, grain, [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t plane = item / strips;
            const int64_t first = item % strips * kTransposeStrip;
            // The plane's offset in dst: dst's dimensions without `unit` and the last.
            int64_t dst_offset = 0;
            int64_t rest = plane;
            int64_t stride = width;
            for (size_t dim = last; dim-- > 0;) {
              if (dim != unit) {
                dst_offset += rest % p.sizes[dim] * stride;
                rest /= p.sizes[dim];
              }
              stride *= p.sizes[dim];
            }
            const T* from = src + offset_of(p, last, unit, plane) + first;
            T* to = dst + dst_offset + first * unit_dst_stride;
            const int64_t cols = std::min(kTransposeStrip, length - first);
            if constexpr (std::is_same_v<T, float>) {
              transpose_strided_f32(from, p.src_strides[last], to, unit_dst_stride, width, cols,
                                    false);
            } else {
              transpose_strided(from, p.src_strides[last], to, unit_dst_stride, width, cols);
            }
          }
        });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_transpose(const NodeSpec& spec, const CpuContext& context) {
  const AxisOrder p = permutation_of(spec);
  switch (element_bytes(spec.inputs[0].dtype)) {
    case 1:
      return create_transpose_of<uint8_t>(p, context.threads);
    case 2:
      return create_transpose_of<uint16_t>(p, context.threads);
    case 8:
      return create_transpose_of<uint64_t>(p, context.threads);
    default:
      return create_transpose_of<float>(p, context.threads);
  }
}

// ---- broadcast_to, sum_to ----

template <class T>
std::unique_ptr<Kernel> create_broadcast_of(const NodeSpec& spec, int threads) {
  const Shape& from = spec.inputs[0].shape;
  const Shape& to = spec.outputs[0].shape;
  const Shape from_strides = strides_of(from);
  const size_t missing = to.size() - from.size();
  // Neighbouring dimensions that are both repeated or both copied are merged.
  AxisOrder p;
  bool was_repeated = false;
  for (size_t dim = 0; dim < to.size(); ++dim) {
    if (to[dim] == 1) continue;
    const bool is_repeated = dim < missing || from[dim - missing] == 1;
    const int64_t stride = is_repeated ? 0 : from_strides[dim - missing];
    if (!p.sizes.empty() && was_repeated == is_repeated) {
      p.sizes.back() *= to[dim];
      p.src_strides.back() = stride;
    } else {
      p.sizes.push_back(to[dim]);
      p.src_strides.push_back(stride);
    }
    was_repeated = is_repeated;
  }
  if (p.sizes.empty()) p = {.sizes = {1}, .src_strides = {1}};
  return make_kernel([p, threads, elements = element_count(spec.outputs[0])](const Launch& launch) {
    if (elements == 0) return ErrorCode::ok;
    const T* src = input<T>(launch, 0);
    T* dst = output<T>(launch);
    const size_t last = p.sizes.size() - 1;
    const int64_t width = p.sizes[last];
    const int64_t grain =
        std::max<int64_t>(1, kWorthAThreadBytes / (width * static_cast<int64_t>(sizeof(T))));
    parallel_for(threads, elements / width, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* line = src + offset_of(p, last, p.sizes.size(), row);
        if (p.src_strides[last] == 0) {
          std::fill_n(dst + row * width, width, *line);
        } else {
          std::copy_n(line, width, dst + row * width);
        }
      }
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_broadcast(const NodeSpec& spec, const CpuContext& context) {
  switch (element_bytes(spec.inputs[0].dtype)) {
    case 1:
      return create_broadcast_of<uint8_t>(spec, context.threads);
    case 2:
      return create_broadcast_of<uint16_t>(spec, context.threads);
    case 8:
      return create_broadcast_of<uint64_t>(spec, context.threads);
    default:
      return create_broadcast_of<uint32_t>(spec, context.threads);
  }
}

Reduction sum_to_reduction(const NodeSpec& spec) {
  const Shape& from = spec.inputs[0].shape;
  const Shape& to = spec.outputs[0].shape;
  const size_t missing = from.size() - to.size();
  std::vector<bool> reduced(from.size());
  for (size_t dim = 0; dim < from.size(); ++dim)
    reduced[dim] = dim < missing || to[dim - missing] != from[dim];
  return plan_reduction(from, reduced);
}
int64_t sum_to_scratch(const NodeSpec& spec, const CpuContext&) {
  return reduction_scratch_bytes(sum_to_reduction(spec));
}
std::unique_ptr<Kernel> create_sum_to(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([plan = sum_to_reduction(spec), dtype = spec.inputs[0].dtype,
                      threads = context.threads](const Launch& launch) {
    reduce_sum(threads, plan, dtype, launch.inputs[0], output<float>(launch), 1.0, launch.scratch);
    return ErrorCode::ok;
  });
}

// A view: the runtime binds the same bytes and calls nothing. Where a caller binds separate bytes
// it is a copy.
std::unique_ptr<Kernel> create_reshape(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [bytes = byte_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        if (launch.inputs[0] != launch.outputs[0])
          copy_rows(threads, 1, bytes, launch.inputs[0], 0, launch.outputs[0], 0);
        return ErrorCode::ok;
      });
}

}  // namespace

// One type, of 1, 2, 4 or 8 bytes.
constexpr const char* kMoved = "f32|bf16|f16|i32|i64|bool -> f32|bf16|f16|i32|i64|bool";

std::span<const CpuKernelDef> shape_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"reshape", "plain:reshape", "* -> *", always, no_scratch, create_reshape},
      {"transpose", "plain:transpose", kMoved, always, no_scratch, create_transpose},
      {"slice", "plain:slice", "* -> *", always, no_scratch, create_slice},
      {"pad", "plain:pad", "* -> *", always, no_scratch, create_pad},
      {"concat", "plain:concat", "*... -> *", always, no_scratch, create_concat},
      {"broadcast_to", "plain:broadcast_to", kMoved, always, no_scratch, create_broadcast},
      {"sum_to", "simd:sum_to", "f32|bf16|f16 -> f32", always, sum_to_scratch, create_sum_to},
  };
  return kernels;
}

}  // namespace snug
