// SPDX-License-Identifier: Apache-2.0
// winograd:conv2d and its gradients: how the work of conv2d_winograd_cpu.h is shared out, and what
// it takes.
#include "ops/conv2d/conv2d_winograd_cpu.h"

#include <algorithm>
#include <string_view>

#include "backend/cpu/product/panels.h"
#include "base/threads.h"
#include "ops/conv2d/conv2d_cpu.h"

namespace snug {
namespace {

constexpr int64_t kGrain = 16;  // channels come in whole vectors of every instruction set

// A slice of transformed filters, or of sums: 4 MiB.
constexpr int64_t kSliceFloats = 1 << 20;
// Tiles whose rows and sums a thread keeps in its second cache.
constexpr int64_t kTilesAtOnce = 24;
// The gradient of weights takes as many tiles at once as have so many floats, which stay in the
// second cache, within these limits.
constexpr int64_t kShareFloats = 1 << 17;
constexpr int64_t kLeastOfShare = 48;
constexpr int64_t kMostOfShare = 240;
// With fewer at once, sums are loaded and stored too often for what is saved where a share has
// several rows of the 4 x 4.
constexpr int64_t kLeastOfRows = 96;

// The gradient by the input is a convolution of dy with filters turned about.
WinogradShape shape_of(const Convolution& c) {
  const Conv2dDims& d = c.dims;
  WinogradShape shape{.images = d.batch,
                      .src_height = d.height.size,
                      .src_width = d.width.size,
                      .dst_height = d.height.count(),
                      .dst_width = d.width.count(),
                      .padding_height = d.height.padding,
                      .padding_width = d.width.padding,
                      .src_channels = d.in_channels,
                      .dst_channels = d.out_channels};
  if (c.part != ConvolutionPart::grad_input) return shape;
  std::swap(shape.src_height, shape.dst_height);
  std::swap(shape.src_width, shape.dst_width);
  std::swap(shape.src_channels, shape.dst_channels);
  shape.padding_height = d.height.kernel - 1 - d.height.padding;
  shape.padding_width = d.width.kernel - 1 - d.width.padding;
  return shape;
}

// Columns of a slice: as many as leave transformed filters the size of filters or a share of a
// cache.
int64_t slice_columns(const WinogradShape& shape) {
  const int64_t width = panel_columns();
  const int64_t most = kSliceFloats / (kWinogradPlanes * shape.src_channels) / width * width;
  return std::clamp(most, width, shape.dst_channels);
}
int64_t slice_floats(const WinogradShape& shape) {
  return kWinogradPlanes * shape.src_channels * slice_columns(shape);
}

// Computes y = conv(x), and dx = conv(dy). Scratch is [filters of a slice | zeros | rows and sums
// of each part].
class WinogradConvolution final : public Kernel {
 public:
  WinogradConvolution(const Convolution& convolution, int threads)
      : convolution_(convolution),
        shape_(shape_of(convolution)),
        threads_(threads),
        width_(panel_columns()),
        loops_(winograd_loops()) {}

  [[nodiscard]] int64_t scratch_bytes() const {
    const int parts = parallel_parts(threads_, shape_.tiles(), kTilesAtOnce);
    return (shared_floats() + parts * part_floats()) * static_cast<int64_t>(sizeof(float));
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    const auto t = tensors_of<float>(convolution_, launch);
    const bool is_adjoint = convolution_.part == ConvolutionPart::grad_input;
    const WinogradFilters filters{convolution_.dims.out_channels, convolution_.dims.in_channels,
                                  is_adjoint};
    auto* const panels = reinterpret_cast<float*>(launch.scratch);
    float* const zeros = panels + slice_floats(shape_);
    std::fill_n(zeros, shape_.src_channels, 0.0F);
    WinogradForward slice{.src = is_adjoint ? t.y : t.x,
                          .columns = {},
                          .filters = panels,
                          .bias = t.bias,
                          .zeros = zeros,
                          .dst = t.out};
    const int64_t panel_floats = kWinogradPlanes * shape_.src_channels * width_;
    const int64_t columns = slice_columns(shape_);
    for (int64_t first = 0; first < shape_.dst_channels; first += columns) {
      slice.columns = {first, std::min(first + columns, shape_.dst_channels)};
      const int64_t count = (slice.columns.end - first) / width_;
      parallel_for(threads_, count, 1, [&](int64_t begin, int64_t end) {
        const int64_t before = first / width_;
        loops_.transform_filters(filters, t.w, {before + begin, before + end},
                                 panels + begin * panel_floats);
      });
      parallel_parts_for(
          threads_, shape_.tiles(), kTilesAtOnce, [&](int part, int64_t begin, int64_t end) {
            WinogradForward mine = slice;
            mine.rows = panels + shared_floats() + part * part_floats();
            mine.sums = mine.rows + kWinogradPlanes * kTilesAtOnce * shape_.src_channels;
            for (int64_t at = begin; at < end; at += kTilesAtOnce)
              loops_.multiply(shape_, {at, std::min(at + kTilesAtOnce, end)}, mine);
          });
    }
    return ErrorCode::ok;
  }

 private:
  [[nodiscard]] int64_t shared_floats() const { return slice_floats(shape_) + shape_.src_channels; }
  [[nodiscard]] int64_t part_floats() const {
    return kWinogradPlanes * kTilesAtOnce * (shape_.src_channels + width_);
  }

  Convolution convolution_;
  WinogradShape shape_;
  int threads_;
  int64_t width_;
  WinogradLoops loops_;
};

// Computes dw. A thread transforms what it multiplies, so it goes through all of x and dy: once,
// where its rows of the 4 x 4 are one share. Every sum goes through the tiles in order. Scratch is
// [sums of a slice | zeros | rows of each part].
class WinogradGradWeight final : public Kernel {
 public:
  WinogradGradWeight(const Convolution& convolution, int threads)
      : convolution_(convolution),
        shape_(shape_of(convolution)),
        threads_(threads),
        width_(panel_columns()),
        columns_(slice_columns(shape_)),
        row_parts_(find_row_parts()),
        loops_(winograd_loops()) {}

  [[nodiscard]] int64_t scratch_bytes() const {
    const int parts = parallel_parts(threads_, row_parts_ * column_parts(columns_, row_parts_), 1);
    return (rows_at() + parts * part_floats()) * static_cast<int64_t>(sizeof(float));
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    const auto t = tensors_of<float>(convolution_, launch);
    auto* const scratch = reinterpret_cast<float*>(launch.scratch);
    float* const zeros = scratch + slice_floats(shape_);
    std::fill_n(zeros, zero_count(), 0.0F);
    WinogradSums sums{.x = t.x,
                      .dy = t.y,
                      .zeros = zeros,
                      .k = shape_.src_channels,
                      .columns = {},
                      .sums = scratch};
    for (int64_t first = 0; first < shape_.dst_channels; first += columns_) {
      sums.columns = {first, std::min(first + columns_, shape_.dst_channels)};
      const int64_t count = sums.columns.end - first;
      const int64_t cuts = column_parts(count, row_parts_);
      parallel_parts_for(threads_, row_parts_ * cuts, 1, [&](int part, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          loops_.add_products(shape_, sums,
                              {.rows = part_of(kWinogradSide, 1, i / cuts, row_parts_),
                               .columns = part_of(count, width_, i % cuts, cuts),
                               .tiles_at_once = tiles_at_once(),
                               .scratch = scratch + rows_at() + part * part_floats()});
        }
      });
      parallel_for(threads_, count / width_, 1, [&](int64_t begin, int64_t end) {
        loops_.fold_filters(sums, {begin, end}, t.out);
      });
    }
    return ErrorCode::ok;
  }

 private:
  // So few that all threads have as many shares of a slice, or one for each panel.
  [[nodiscard]] int64_t column_parts(int64_t columns, int64_t row_parts) const {
    const int64_t panels = columns / width_;
    int64_t parts = 1;
    while (parts < panels && row_parts * parts % threads_ != 0) ++parts;
    return parts;
  }
  // As few as give all threads as much to do and have room for enough tiles.
  [[nodiscard]] int64_t find_row_parts() const {
    for (int64_t parts = 1; parts < kWinogradSide; parts *= 2) {
      const bool is_fair = parts * column_parts(columns_, parts) % threads_ == 0;
      if (is_fair && kLeastOfRows * tile_floats(parts) <= kShareFloats) return parts;
    }
    return kWinogradSide;
  }
  [[nodiscard]] int64_t tile_floats(int64_t row_parts) const {
    return winograd_share_floats(kWinogradSide / row_parts, shape_.src_channels, columns_);
  }
  [[nodiscard]] int64_t tiles_at_once() const {
    return std::min(shape_.tiles(), std::clamp(kShareFloats / tile_floats(row_parts_),
                                               kLeastOfShare, kMostOfShare));
  }
  [[nodiscard]] int64_t part_floats() const { return tiles_at_once() * tile_floats(row_parts_); }
  [[nodiscard]] int64_t zero_count() const {
    return std::max(shape_.src_channels, shape_.dst_channels);
  }
  [[nodiscard]] int64_t rows_at() const { return slice_floats(shape_) + zero_count(); }

  Convolution convolution_;
  WinogradShape shape_;
  int threads_;
  int64_t width_;
  int64_t columns_;    // of a slice
  int64_t row_parts_;  // 1, 2 or 4
  WinogradLoops loops_;
};

std::string accepts(const NodeSpec& spec, const CpuContext&) {
  const Convolution c = convolution_of(spec);
  const Conv2dDims& d = c.dims;
  const auto is_three = [](const WindowAxis& axis) {
    return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1 && axis.padding <= 2;
  };
  if (!is_three(d.height) || !is_three(d.width) || d.groups > 1)
    return "it is for windows of 3 x 3, stride 1 and one group";
  const WinogradShape shape = shape_of(c);
  if (shape.src_channels % kGrain != 0 || shape.dst_channels % panel_columns() != 0)
    return "channels do not fill its vectors";
  if (shape.src_channels * shape.dst_channels * shape.tiles() == 0)
    return "there is nothing to multiply";
  return {};
}

template <class Kernel>
CpuKernelDef definition(const char* op, const char* kernel) {
  return {op,
          kernel,
          op == std::string_view("conv2d") ? "f32 f32 f32 -> f32" : "f32 f32 -> f32",
          accepts,
          [](const NodeSpec& spec, const CpuContext& context) {
            return Kernel(convolution_of(spec), context.threads).scratch_bytes();
          },
          [](const NodeSpec& spec, const CpuContext& context) -> std::unique_ptr<snug::Kernel> {
            return std::make_unique<Kernel>(convolution_of(spec), context.threads);
          },
          "tiles"};
}

}  // namespace

CpuKernelDef winograd_convolution(const char* op, const char* kernel) {
  return op == std::string_view("conv2d_grad_weight") ? definition<WinogradGradWeight>(op, kernel)
                                                      : definition<WinogradConvolution>(op, kernel);
}

}  // namespace snug
