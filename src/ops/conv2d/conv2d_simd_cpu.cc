// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of our own (backend/cpu/product): the pixels under a window are a row of
// a matrix that never exists, read piece by piece as the product packs it (Chellapilla et al. 2006,
// section 2, without the copy). For whatever oneDNN has no direct kernel for, and for the gradient
// of weights over small images, where its kernels of AVX2 have too few pixels in a row.
//
// With G groups each is a product of its own. T taps, C and O channels of a group, positions are
// those of the window:
//   forward      y (positions, O)   = pixels (positions, T C)  weights (T C, O)
//   grad_input   dx (pixels, C)     = places (pixels, T O)     weights (T O, C)
//   grad_weight  dw (O, T C)        = dy (positions, O)^T      pixels (positions, T C)
#include <algorithm>
#include <cstring>
#include <string_view>

#include "backend/cpu/product/product.h"
#include "backend/cpu/product/stored_floats.h"
#include "base/units.h"
#include "ops/conv2d/conv2d_cpu.h"

namespace snug {
namespace {

constexpr int64_t kScratchAlignment = 64;
constexpr int64_t kLeastChannels = 4;  // of a group, where there are several

// The part [first, first + count) of a row, put together from pieces that follow one another.
class RowPart {
 public:
  // `at`: the element of the row that the first piece begins with, none behind `first`.
  RowPart(int64_t first, int64_t count, int64_t at, float* out)
      : first_(first), end_(first + count), at_(at), out_(out) {}
  [[nodiscard]] bool is_full() const { return at_ >= end_; }
  // Null: zeros.
  void add(const float* from, int64_t count) {
    const int64_t begin = std::max(at_, first_);
    const int64_t end = std::min(at_ + count, end_);
    if (begin < end) {
      float* const to = out_ + (begin - first_);
      const auto bytes = static_cast<size_t>(end - begin) * sizeof(float);
      if (from != nullptr) {
        std::memcpy(to, from + (begin - at_), bytes);
      } else {
        std::memset(to, 0, bytes);
      }
    }
    at_ += count;
  }

 private:
  int64_t first_;
  int64_t end_;
  int64_t at_;
  float* out_;
};

// One group of a convolution, as rows of matrices.
struct Group {
  const Conv2dDims& d;
  const float* data;  // x, dy or weights
  int64_t index;

  [[nodiscard]] int64_t taps() const { return d.height.kernel * d.width.kernel; }
  [[nodiscard]] ProductOperand read_by(ReadRow read) const {
    return {.read = read, .source = this};
  }
};

// The pixels under the window at a position, (KH, KW, C).
void read_pixels(const void* source, int64_t position, int64_t first, int64_t count,
                 float* out) noexcept {
  const auto& group = *static_cast<const Group*>(source);
  const WindowAxis& h = group.d.height;
  const WindowAxis& w = group.d.width;
  const int64_t channels = group.d.in_per_group();
  const int64_t j = position % w.count();
  const int64_t i = position / w.count() % h.count();
  const int64_t n = position / w.count() / h.count();
  const auto [q_begin, q_end] = w.taps(j);
  const bool is_one_piece = w.dilation == 1 && group.d.groups == 1;
  const int64_t line_floats = w.kernel * channels;
  int64_t p = first / line_floats;
  RowPart row(first, count, p * line_floats, out);
  for (; !row.is_full(); ++p) {
    const int64_t y = h.pixel(i, p);
    if (y < 0 || y >= h.size) {
      row.add(nullptr, line_floats);
      continue;
    }
    const float* const line =
        group.data + (n * h.size + y) * w.size * group.d.in_channels + group.index * channels;
    row.add(nullptr, q_begin * channels);
    if (q_begin < q_end && is_one_piece) {
      row.add(line + w.pixel(j, q_begin) * channels, (q_end - q_begin) * channels);
    } else {
      for (int64_t q = q_begin; q < q_end; ++q)
        row.add(line + w.pixel(j, q) * group.d.in_channels, channels);
    }
    row.add(nullptr, (w.kernel - q_end) * channels);
  }
}

// The place of the window whose tap lies on a pixel, or -1.
int64_t place_over(const WindowAxis& axis, int64_t pixel, int64_t tap) {
  const int64_t distance = pixel + axis.padding - tap * axis.dilation;
  if (distance < 0 || distance % axis.stride != 0) return -1;
  const int64_t place = distance / axis.stride;
  return place < axis.count() ? place : -1;
}

// dy at the places whose windows cover a pixel, (KH, KW, O).
void read_places(const void* source, int64_t pixel, int64_t first, int64_t count,
                 float* out) noexcept {
  const auto& group = *static_cast<const Group*>(source);
  const WindowAxis& h = group.d.height;
  const WindowAxis& w = group.d.width;
  const int64_t channels = group.d.out_per_group();
  const int64_t x = pixel % w.size;
  const int64_t y = pixel / w.size % h.size;
  const int64_t n = pixel / w.size / h.size;
  const int64_t height = h.count();
  const int64_t width = w.count();
  int64_t tap = first / channels;
  RowPart row(first, count, tap * channels, out);
  for (; !row.is_full(); ++tap) {
    const int64_t i = place_over(h, y, tap / w.kernel);
    const int64_t j = i < 0 ? -1 : place_over(w, x, tap % w.kernel);
    const float* from = nullptr;
    if (j >= 0) {
      from = group.data + ((n * height + i) * width + j) * group.d.out_channels +
             group.index * channels;
    }
    row.add(from, channels);
  }
}

// An output channel's weights, (T, C) of (C, T).
void read_filter(const void* source, int64_t channel, int64_t first, int64_t count,
                 float* out) noexcept {
  const auto& group = *static_cast<const Group*>(source);
  const int64_t channels = group.d.in_per_group();
  const int64_t taps = group.taps();
  const float* filter =
      group.data + (group.index * group.d.out_per_group() + channel) * channels * taps;
  int64_t tap = first / channels;
  int64_t c = first % channels;
  for (int64_t at = 0; at < count; ++at) {
    out[at] = filter[c * taps + tap];
    if (++c == channels) c = 0, ++tap;
  }
}

// The weights of a tap and an output channel, (C).
void read_tap(const void* source, int64_t row, int64_t first, int64_t count, float* out) noexcept {
  const auto& group = *static_cast<const Group*>(source);
  const int64_t channels = group.d.in_per_group();
  const int64_t taps = group.taps();
  const int64_t tap = row / group.d.out_per_group();
  const int64_t channel = group.index * group.d.out_per_group() + row % group.d.out_per_group();
  const float* from = group.data + channel * channels * taps + tap;
  for (int64_t at = 0; at < count; ++at) out[at] = from[(first + at) * taps];
}

// Finished tiles of (O, T C) go to their places in (O, C, T).
struct FilterTiles {
  float* out;  // of the group
  int64_t channels;
  int64_t taps;

  static void finish(const void* context, const ProductTile& tile) noexcept {
    const auto& to = *static_cast<const FilterTiles*>(context);
    for (int64_t i = 0; i < tile.rows; ++i) {
      float* const filter = to.out + (tile.row + i) * to.channels * to.taps;
      int64_t tap = tile.column / to.channels;
      int64_t c = tile.column % to.channels;
      for (int64_t j = 0; j < tile.columns; ++j) {
        filter[c * to.taps + tap] = tile.data[i * tile.stride + j];
        if (++c == to.channels) c = 0, ++tap;
      }
    }
  }
};

ProductSpec product_of(const Convolution& c) {
  const Conv2dDims& d = c.dims;
  const int64_t positions = d.batch * d.height.count() * d.width.count();
  const int64_t taps = d.height.kernel * d.width.kernel;
  switch (c.part) {
    case ConvolutionPart::forward:
      return {.m = positions,
              .n = d.out_per_group(),
              .k = taps * d.in_per_group(),
              .transpose_b = true,
              .reads_a = true,
              .reads_b = true};
    case ConvolutionPart::grad_input:
      return {.m = d.batch * d.height.size * d.width.size,
              .n = d.in_per_group(),
              .k = taps * d.out_per_group(),
              .reads_a = true,
              .reads_b = true};
    case ConvolutionPart::grad_weight:
      return {.m = d.out_per_group(),
              .n = taps * d.in_per_group(),
              .k = positions,
              .transpose_a = true,
              .reads_b = true};
  }
  return {};
}

class SimdConvolution final : public Kernel {
 public:
  SimdConvolution(const Convolution& convolution, int threads)
      : convolution_(convolution), product_(product_of(convolution), threads) {}

  // The product's, then the sums of weights' gradients in the order that they are made in.
  [[nodiscard]] int64_t scratch_bytes() const {
    if (convolution_.part != ConvolutionPart::grad_weight) return product_.scratch_bytes();
    const ProductSpec& p = product_.spec();
    return sums_offset() + p.m * p.n * static_cast<int64_t>(sizeof(float));
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    const Conv2dDims& d = convolution_.dims;
    const auto t = tensors_of<float>(convolution_, launch);
    for (int64_t g = 0; g < d.groups; ++g) {
      switch (convolution_.part) {
        case ConvolutionPart::forward:
          run_rows(launch, {d, t.x, g}, read_pixels, {d, t.w, g}, read_filter,
                   t.out + g * d.out_per_group(), d.out_channels,
                   t.bias == nullptr ? nullptr : t.bias + g * d.out_per_group());
          break;
        case ConvolutionPart::grad_input:
          run_rows(launch, {d, t.y, g}, read_places, {d, t.w, g}, read_tap,
                   t.out + g * d.in_per_group(), d.in_channels, nullptr);
          break;
        case ConvolutionPart::grad_weight:
          run_grad_weight(launch, {d, t.x, g}, t.y + g * d.out_per_group(), t.out);
      }
    }
    return ErrorCode::ok;
  }

 private:
  [[nodiscard]] int64_t sums_offset() const {
    return round_up(product_.scratch_bytes(), kScratchAlignment);
  }

  void run_rows(const Launch& launch, const Group& rows, ReadRow read_rows, const Group& weights,
                ReadRow read_weights, float* dst, int64_t stride, const float* bias) const {
    const StoredTiles tiles(DType::f32, reinterpret_cast<std::byte*>(dst), stride, bias);
    ProductLaunch product{.a = rows.read_by(read_rows),
                          .b = weights.read_by(read_weights),
                          .scratch = launch.scratch};
    tiles.attach(product_.spec(), product);
    product_.run(product);
  }

  void run_grad_weight(const Launch& launch, const Group& pixels, const float* dy,
                       float* out) const {
    const Conv2dDims& d = convolution_.dims;
    const ProductSpec& p = product_.spec();
    const FilterTiles tiles{out + pixels.index * p.m * p.n, d.in_per_group(), pixels.taps()};
    product_.run({.a = {dy, d.out_channels},
                  .b = pixels.read_by(read_pixels),
                  .dst = scratch_at<float>(launch, sums_offset()),
                  .dst_stride = p.n,
                  .finish = FilterTiles::finish,
                  .context = &tiles,
                  .scratch = launch.scratch});
  }

  Convolution convolution_;
  Product product_;
};

int64_t scratch_bytes(const NodeSpec& spec, const CpuContext& context) {
  return SimdConvolution(convolution_of(spec), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<SimdConvolution>(convolution_of(spec), context.threads);
}

std::string simd_accepts(const NodeSpec& spec, const CpuContext&) {
  const Conv2dDims d = convolution_of(spec).dims;
  if (d.groups > 1 && std::min(d.in_per_group(), d.out_per_group()) < kLeastChannels)
    return "a product for each group of so few channels is slower";
  return d.in_channels * d.out_channels == 0 ? "there is nothing to multiply" : "";
}

}  // namespace

CpuKernelDef simd_convolution(const char* op, const char* kernel) {
  return {op,
          kernel,
          op == std::string_view("conv2d") ? "f32 f32 f32 -> f32" : "f32 f32 -> f32",
          simd_accepts,
          scratch_bytes,
          create};
}

}  // namespace snug
