// SPDX-License-Identifier: Apache-2.0
// CPU kernels of conv2d and its gradients, best first:
//   winograd:conv2d windows of 3 x 3 in 16 products a tile in place of 36 (conv2d_winograd_cpu.h)
//   onednn:conv2d   oneDNN's direct kernels. Weights change between PyTorch's layout and the
//                   kernel's own in scratch; activations stay channels-last. Operands of bf16
//                   where the processor multiplies them; sums are f32.
//   simd:conv2d     products of our own over the pixels under the windows (conv2d_simd_cpu.cc):
//                   what oneDNN has no direct kernel for, and gradients of weights over images so
//                   narrow that its kernels of AVX2 have little to do at a time
//   plain:conv2d    groups of few channels that oneDNN has only a reference for; empty operands
#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "backend/cpu/kernel.h"
#include "backend/cpu/onednn.h"
#include "base/threads.h"
#include "base/units.h"
#include "ops/conv2d/conv2d_cpu.h"

namespace snug {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;
constexpr int64_t kScratchAlignment = 64;

using Part = ConvolutionPart;

// ---- onednn:conv2d ----

Type type_of(DType dtype) { return dtype == DType::bf16 ? Type::bf16 : Type::f32; }
// The type of the weights in `part`.
Type weight_type(const Convolution& c, Part part) {
  return part == Part::grad_weight ? Type::f32 : type_of(c.operands);
}
Desc channels_last(Type type, int64_t batch, int64_t channels, int64_t height, int64_t width) {
  return {{batch, channels, height, width}, type, dnnl::memory::format_tag::nhwc};
}
Dims weight_dims(const Conv2dDims& d) {
  Dims dims = {d.out_per_group(), d.in_per_group(), d.height.kernel, d.width.kernel};
  if (d.groups > 1) dims.insert(dims.begin(), d.groups);
  return dims;
}
// Weights as they lie in PyTorch's files.
Desc file_weights(const Convolution& c) {
  const Conv2dDims& d = c.dims;
  return {weight_dims(d), weight_type(c, c.part),
          d.groups > 1 ? dnnl::memory::format_tag::goihw : dnnl::memory::format_tag::oihw};
}

struct Described {
  std::function<dnnl::primitive()> make;
  Desc src;
  Desc weights;  // in the layout that the implementation wants
  Desc dst;
  Desc scratchpad;
};

// oneDNN's descriptor, or nothing where it has only a reference or a kernel that allocates its own
// buffers ("gemm").
std::optional<Described> describe(const Convolution& c, const Onednn& onednn) {
  const Conv2dDims& d = c.dims;
  if (d.batch * d.in_channels * d.out_channels == 0) return std::nullopt;
  const Type type = type_of(c.operands);
  const Desc src = channels_last(type, d.batch, d.in_channels, d.height.size, d.width.size);
  const Desc dst = channels_last(type, d.batch, d.out_channels, d.height.count(), d.width.count());
  const auto any_weights = [&](Part part) {
    return Desc(weight_dims(d), weight_type(c, part), dnnl::memory::format_tag::any);
  };
  const Desc any = any_weights(Part::forward);
  const Desc bias = {{d.out_channels}, Type::f32, dnnl::memory::format_tag::x};
  const Dims strides = {d.height.stride, d.width.stride};
  const Dims dilates = {d.height.dilation - 1, d.width.dilation - 1};
  const Dims padding = {d.height.padding, d.width.padding};
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const auto finish = [](const auto& pd, auto make) -> std::optional<Described> {
    const std::string_view name = pd.impl_info_str();
    if (name.find("ref") != name.npos || name.find("gemm") != name.npos) return std::nullopt;
    Described result;
    result.make = std::move(make);
    result.scratchpad = pd.scratchpad_desc();
    return result;
  };
  try {
    using Forward = dnnl::convolution_forward;
    const auto kind = dnnl::prop_kind::forward_training;
    const Forward::desc forward_desc =
        c.has_bias
            ? Forward::desc(kind, kDirect, src, any, bias, dst, strides, dilates, padding, padding)
            : Forward::desc(kind, kDirect, src, any, dst, strides, dilates, padding, padding);
    const Forward::primitive_desc forward(forward_desc, onednn_attributes(), onednn.engine);
    std::optional<Described> result;
    if (c.part == Part::forward) {
      result = finish(forward, [forward] { return Forward(forward); });
      if (result) result->weights = forward.weights_desc();
    } else if (c.part == Part::grad_input) {
      using Backward = dnnl::convolution_backward_data;
      const Backward::primitive_desc pd(
          Backward::desc(kDirect, src, any, dst, strides, dilates, padding, padding),
          onednn_attributes(), onednn.engine, forward);
      result = finish(pd, [pd] { return Backward(pd); });
      if (result) result->weights = pd.weights_desc();
    } else {
      using Backward = dnnl::convolution_backward_weights;
      const Backward::primitive_desc pd(Backward::desc(kDirect, src, any_weights(c.part), dst,
                                                       strides, dilates, padding, padding),
                                        onednn_attributes(), onednn.engine, forward);
      result = finish(pd, [pd] { return Backward(pd); });
      if (result) result->weights = pd.diff_weights_desc();
    }
    if (result) {
      result->src = src;
      result->dst = dst;
    }
    return result;
  } catch (const dnnl::error&) {
    return std::nullopt;  // No implementation: the list's next kernel takes the node.
  }
}

// The change of the weights' layout; nothing where the kernel takes the file's.
std::optional<dnnl::reorder::primitive_desc> describe_packing(const Convolution& c,
                                                              const Described& described,
                                                              const Onednn& onednn) {
  const Desc file = file_weights(c);
  if (described.weights == file) return std::nullopt;
  const bool packs = c.part != Part::grad_weight;
  return dnnl::reorder::primitive_desc(onednn.engine, packs ? file : described.weights,
                                       onednn.engine, packs ? described.weights : file,
                                       onednn_attributes());
}

// Scratch is [scratchpad of either primitive | weights in the kernel's layout].
struct ScratchLayout {
  int64_t weights_offset = 0;
  int64_t bytes = 0;
};
ScratchLayout scratch_layout(const Described& described,
                             const std::optional<dnnl::reorder::primitive_desc>& packing) {
  size_t scratchpad = described.scratchpad.get_size();
  if (packing) scratchpad = std::max(scratchpad, packing->scratchpad_desc().get_size());
  ScratchLayout layout;
  layout.weights_offset = round_up(static_cast<int64_t>(scratchpad), kScratchAlignment);
  layout.bytes = layout.weights_offset;
  if (packing) layout.bytes += static_cast<int64_t>(described.weights.get_size());
  return layout;
}

class OnednnConvolution final : public Kernel {
 public:
  OnednnConvolution(const Convolution& convolution, const CpuContext& context)
      : convolution_(convolution), threads_(context.threads) {
    const Described described = *describe(convolution, *context.onednn);
    const auto packing = describe_packing(convolution, described, *context.onednn);
    weights_offset_ = scratch_layout(described, packing).weights_offset;
    const Part part = convolution.part;
    main_ = BoundPrimitive(context.onednn, described.make());
    x_ = main_.add(part == Part::grad_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, described.src);
    w_ = main_.add(part == Part::grad_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                   described.weights);
    y_ = main_.add(part == Part::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, described.dst);
    scratchpad_ = main_.add(DNNL_ARG_SCRATCHPAD, described.scratchpad);
    if (convolution.has_bias) {
      bias_ = main_.add(DNNL_ARG_BIAS,
                        {{convolution.dims.out_channels}, Type::f32, dnnl::memory::format_tag::x});
    }
    if (!packing) return;
    packs_ = true;
    pack_ = BoundPrimitive(context.onednn, dnnl::reorder(*packing));
    pack_from_ = pack_.add(DNNL_ARG_FROM, packing->src_desc());
    pack_to_ = pack_.add(DNNL_ARG_TO, packing->dst_desc());
    pack_scratchpad_ = pack_.add(DNNL_ARG_SCRATCHPAD, packing->scratchpad_desc());
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    set_library_threads(threads_);
    const ConvolutionTensors t = tensors_of<std::byte>(convolution_, launch);
    const bool writes_weights = convolution_.part == Part::grad_weight;
    const auto* packed = scratch_at<std::byte>(launch, weights_offset_);
    if (packs_ && !writes_weights) {
      if (const ErrorCode code = pack(launch, t.w, packed); code != ErrorCode::ok) return code;
    }
    main_.set(x_, t.x);
    main_.set(w_, packs_ ? packed : t.w);
    main_.set(y_, t.y);
    main_.set(scratchpad_, launch.scratch);
    if (convolution_.has_bias) main_.set(bias_, t.bias);
    if (const ErrorCode code = main_.execute(); code != ErrorCode::ok) return code;
    return packs_ && writes_weights ? pack(launch, packed, t.w) : ErrorCode::ok;
  }

  static int64_t scratch_bytes(const Convolution& convolution, const CpuContext& context) {
    const Described described = *describe(convolution, *context.onednn);
    return scratch_layout(described, describe_packing(convolution, described, *context.onednn))
        .bytes;
  }

 private:
  [[nodiscard]] ErrorCode pack(const Launch& launch, const std::byte* from,
                               const std::byte* to) const noexcept {
    pack_.set(pack_from_, from);
    pack_.set(pack_to_, to);
    pack_.set(pack_scratchpad_, launch.scratch);
    return pack_.execute();
  }

  Convolution convolution_;
  int threads_;
  int64_t weights_offset_ = 0;
  BoundPrimitive main_;
  size_t x_ = 0, w_ = 0, y_ = 0, scratchpad_ = 0, bias_ = 0;
  bool packs_ = false;
  BoundPrimitive pack_;
  size_t pack_from_ = 0, pack_to_ = 0, pack_scratchpad_ = 0;
};

// Measured with AVX2 (snug_bench_kernels --benchmark_filter=conv2d_grad_weight).
constexpr int64_t kNarrowImage = 4;
bool is_too_narrow(const Convolution& c) {
  return c.part == Part::grad_weight && c.dims.groups == 1 && c.operands == DType::f32 &&
         c.dims.width.count() <= kNarrowImage && !has_blocked_products();
}

std::string onednn_accepts(const NodeSpec& spec, const CpuContext& context) {
  const Convolution c = convolution_of(spec);
  if (c.operands == DType::bf16 && !has_bf16_products()) return "no bf16 instructions here";
  if (is_too_narrow(c)) return "a product of our own is faster over images so narrow";
  if (!describe(c, *context.onednn)) return "oneDNN has no direct implementation for it";
  return {};
}
int64_t onednn_scratch(const NodeSpec& spec, const CpuContext& context) {
  return OnednnConvolution::scratch_bytes(convolution_of(spec), context);
}
std::unique_ptr<Kernel> onednn_create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<OnednnConvolution>(convolution_of(spec), context);
}

// ---- plain:conv2d ----

// A share of the output channels, output rows and images.
struct Share {
  int64_t image_begin = 0, image_end = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t channel_begin = 0, channel_end = 0;
};

// Calls visit(x, w, y) for every tap of every output element: x is the first channel of the pixel
// under the tap, w the tap's weight of that channel. Further channels are 1 apart in x and one
// kernel apart in w.
template <class Visit>
void for_each_tap(const Conv2dDims& d, const Share& share, Visit visit) {
  const WindowAxis& h = d.height;
  const WindowAxis& w = d.width;
  for (int64_t n = share.image_begin; n < share.image_end; ++n) {
    for (int64_t i = share.row_begin; i < share.row_end; ++i) {
      const auto [p_begin, p_end] = h.taps(i);
      for (int64_t j = 0; j < w.count(); ++j) {
        const auto [q_begin, q_end] = w.taps(j);
        for (int64_t o = share.channel_begin; o < share.channel_end; ++o) {
          const int64_t y = ((n * h.count() + i) * w.count() + j) * d.out_channels + o;
          const int64_t channel = o / d.out_per_group() * d.in_per_group();
          for (int64_t p = p_begin; p < p_end; ++p) {
            for (int64_t q = q_begin; q < q_end; ++q) {
              const int64_t pixel = (n * h.size + h.pixel(i, p)) * w.size + w.pixel(j, q);
              visit(pixel * d.in_channels + channel,
                    (o * d.in_per_group() * h.kernel + p) * w.kernel + q, y);
            }
          }
        }
      }
    }
  }
}

// Each thread owns its outputs, and their sums are formed in one order.
std::unique_ptr<Kernel> plain_create(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([c = convolution_of(spec), threads = context.threads](const Launch& launch) {
    const Conv2dDims& d = c.dims;
    const ConvolutionTensors t = tensors_of<float>(c, launch);
    const int64_t rows = d.height.count();
    const int64_t columns = d.width.count();
    const int64_t taps = d.height.kernel * d.width.kernel;
    float* out = t.out;
    if (c.part == Part::forward) {
      parallel_for(threads, d.batch * rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          float* first = out + row * columns * d.out_channels;
          for (int64_t i = 0; i < columns * d.out_channels; ++i)
            first[i] = t.bias == nullptr ? 0 : t.bias[i % d.out_channels];
          const int64_t n = row / rows;
          for_each_tap(d, {n, n + 1, row % rows, row % rows + 1, 0, d.out_channels},
                       [&](int64_t x, int64_t w, int64_t y) {
                         float sum = 0;
                         for (int64_t k = 0; k < d.in_per_group(); ++k)
                           sum += t.x[x + k] * t.w[w + k * taps];
                         out[y] += sum;
                       });
        }
      });
    } else if (c.part == Part::grad_input) {
      parallel_for(threads, d.batch, 1, [&](int64_t begin, int64_t end) {
        const int64_t image = d.height.size * d.width.size * d.in_channels;
        std::fill(out + begin * image, out + end * image, 0.0F);
        for_each_tap(d, {begin, end, 0, rows, 0, d.out_channels},
                     [&](int64_t x, int64_t w, int64_t y) {
                       for (int64_t k = 0; k < d.in_per_group(); ++k)
                         out[x + k] += t.w[w + k * taps] * t.y[y];
                     });
      });
    } else {
      parallel_for(threads, d.out_channels, 1, [&](int64_t begin, int64_t end) {
        const int64_t filter = d.in_per_group() * taps;
        std::fill(out + begin * filter, out + end * filter, 0.0F);
        for_each_tap(d, {0, d.batch, 0, rows, begin, end}, [&](int64_t x, int64_t w, int64_t y) {
          for (int64_t k = 0; k < d.in_per_group(); ++k) out[w + k * taps] += t.x[x + k] * t.y[y];
        });
      });
    }
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> conv2d_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      winograd_convolution("conv2d", "winograd:conv2d"),
      {"conv2d", "onednn:conv2d", "f32 f32 f32 -> f32", onednn_accepts, onednn_scratch,
       onednn_create},
      {"conv2d", "onednn:conv2d", "bf16 bf16 f32 -> bf16", onednn_accepts, onednn_scratch,
       onednn_create},
      simd_convolution("conv2d", "simd:conv2d"),
      {"conv2d", "plain:conv2d", "f32 f32 f32 -> f32", always, no_scratch, plain_create},
      winograd_convolution("conv2d_grad_input", "winograd:conv2d_grad_input"),
      {"conv2d_grad_input", "onednn:conv2d_grad_input", "f32 f32 -> f32", onednn_accepts,
       onednn_scratch, onednn_create},
      {"conv2d_grad_input", "onednn:conv2d_grad_input", "bf16 bf16 -> bf16", onednn_accepts,
       onednn_scratch, onednn_create},
      simd_convolution("conv2d_grad_input", "simd:conv2d_grad_input"),
      {"conv2d_grad_input", "plain:conv2d_grad_input", "f32 f32 -> f32", always, no_scratch,
       plain_create},
      winograd_convolution("conv2d_grad_weight", "winograd:conv2d_grad_weight"),
      {"conv2d_grad_weight", "onednn:conv2d_grad_weight", "f32 f32 -> f32", onednn_accepts,
       onednn_scratch, onednn_create},
      {"conv2d_grad_weight", "onednn:conv2d_grad_weight", "bf16 bf16 -> f32", onednn_accepts,
       onednn_scratch, onednn_create},
      simd_convolution("conv2d_grad_weight", "simd:conv2d_grad_weight"),
      {"conv2d_grad_weight", "plain:conv2d_grad_weight", "f32 f32 -> f32", always, no_scratch,
       plain_create},
  };
  return kernels;
}

}  // namespace snug
