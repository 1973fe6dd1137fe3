// SPDX-License-Identifier: Apache-2.0
// One oneDNN engine and stream a backend object, and primitives bound so that a run allocates
// nothing of ours. Only kernel files of the CPU backend include this header. oneDNN's own lists
// cost about ten small blocks a call.
#pragma once

#include <array>
#include <dnnl.hpp>
#include <memory>
#include <optional>

#include "snug/error.h"

namespace snug {

struct Onednn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// Holds oneDNN to the instruction set of this process. Turns oneDNN's process-wide primitive cache
/// off: equal nodes share one Kernel here, and a cache would keep code and descriptors of shapes
/// that are no longer used.
[[nodiscard]] std::shared_ptr<const Onednn> make_onednn();

/// Scratchpad in the caller's memory.
[[nodiscard]] dnnl::primitive_attr onednn_attributes();

/// oneDNN's blocked ("brgemm") implementation of a product; nothing where only one that allocates
/// its own packing buffers, or the reference loop, would take it.
[[nodiscard]] std::optional<dnnl::matmul::primitive_desc> find_blocked_product(
    const dnnl::matmul::desc& product, const dnnl::primitive_attr& attributes,
    const Onednn& onednn);

/// Whether oneDNN has blocked products of f32: its 2.6 has them for AVX-512 only.
[[nodiscard]] bool has_blocked_products();
/// Whether products of bf16 run on instructions for them; emulated ones are slower than f32.
[[nodiscard]] bool has_bf16_products();
/// Whether they run on tiles (AMX), several times as fast as on vectors.
[[nodiscard]] bool has_bf16_tiles();

/// A primitive with its arguments. The memory objects are made once without memory; set() gives
/// them an address.
class BoundPrimitive {
 public:
  BoundPrimitive() = default;
  BoundPrimitive(std::shared_ptr<const Onednn> onednn, dnnl::primitive primitive)
      : onednn_(std::move(onednn)), primitive_(std::move(primitive)) {}

  /// Adds an argument (at most six) and returns its slot.
  size_t add(int argument, const dnnl::memory::desc& desc);
  /// Null data is legal for an empty desc only.
  void set(size_t slot, const void* data) const noexcept;
  [[nodiscard]] ErrorCode execute() const noexcept;

 private:
  std::shared_ptr<const Onednn> onednn_;
  dnnl::primitive primitive_;
  std::array<dnnl::memory, 6> memories_;
  std::array<dnnl_exec_arg_t, 6> arguments_{};
  size_t count_ = 0;
};

}  // namespace snug
