// SPDX-License-Identifier: Apache-2.0
// The loop of an optimizer's step over elements, compiled once a Highway target. Destinations may
// be sources.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_
#undef SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_
#else
#define SNUG_OPS_OPTIMIZER_STEP_RANGE_INL_H_
#endif

#include "backend/cpu/simd-inl.h"
#include "hwy/cache_control.h"
#include "ops/optimizer/codec_cpu-inl.h"
#include "ops/optimizer/step_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// The body runs on whole vectors; at the end of the range loads and stores are partial.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* src, int64_t n, int64_t step) {
  return n >= step ? hn::LoadU(d, src) : load_tail(d, src, n);
}
template <class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, float* dst, int64_t n, int64_t step) {
  if (n >= step) {
    hn::StoreU(v, d, dst);
  } else {
    store_tail(v, d, dst, n);
  }
}

/// A block of a state in codes, before and after the step.
template <bool kIsSquare>
class CodedBlock {
 public:
  /// `values` has room for the numbers after the step, which wait there for their scale.
  HWY_INLINE CodedBlock(const CodedStates::State& state, int64_t block, float* values)
      : state_(state),
        block_(block),
        values_(values),
        // Whatever the scale is, the code 0 means 0.
        codes_(has_numbers() ? state.codes + block * kStateBlock : kCodesOfZero.data()),
        decoder_(adaptive_format(kIsSquare, has_numbers() ? state.scales[block] : 1.0F)) {}

  HWY_INLINE V32 read(int64_t i) const {
    hwy::Prefetch(state_.codes + block_ * kStateBlock + i + kStepAhead);
    return decoder_(codes_ + i);
  }
  HWY_INLINE void keep(V32 value, int64_t i) {
    spread_.add(value);
    hn::StoreU(value, F32(), values_ + i);
  }
  HWY_INLINE void write() const {
    const int64_t at = block_ * kStateBlock;
    const float scale = spread_.scale(kIsSquare, values_);
    state_.scales_after[block_] = scale;
    encode_adaptive_values<kIsSquare>(scale, values_,
                                      state_.dither + static_cast<uint32_t>(at) * kDitherElement,
                                      state_.codes_after + at);
  }

 private:
  [[nodiscard]] HWY_INLINE bool has_numbers() const { return state_.scales[block_] != 0; }

  const CodedStates::State& state_;
  int64_t block_;
  float* values_;
  const uint8_t* codes_;
  StateDecoder<kIsSquare> decoder_;
  StateSpread spread_;
};

template <bool kFirst, bool... kSecond>
constexpr bool last_of() {
  bool last = kFirst;
  ((last = kSecond), ...);
  return last;
}

/// The step over whole blocks whose states are codes: they are numbers in registers and the first
/// cache only.
template <bool kFirst, bool... kSecond, class Formula>
HWY_INLINE void step_coded_blocks(const StepOperands& operands, Formula formula) {
  constexpr bool kHasTwo = sizeof...(kSecond) > 0;
  const F32 d;
  const CodedStates& coded = *operands.coded;
  HWY_ALIGN float values[kMostStates * kStateBlock];
  for (int64_t block = 0; block < coded.blocks; ++block) {
    CodedBlock<kFirst> first(coded.states[0], block, values);
    CodedBlock<last_of<kFirst, kSecond...>()> last(coded.states[kHasTwo ? 1 : 0], block,
                                                   values + kStateBlock);
    const float* const weights = operands.src[0] + block * kStateBlock;
    const float* const gradients = operands.src[1] + block * kStateBlock;
    float* const weights_after = operands.dst[0] + block * kStateBlock;
    for (int64_t i = 0; i < kStateBlock; i += lanes_f32()) {
      hwy::Prefetch(weights + i + kStepAhead);
      hwy::Prefetch(gradients + i + kStepAhead);
      V32 w = hn::LoadU(d, weights + i);
      V32 a = first.read(i);
      V32 b = hn::Zero(d);
      if constexpr (kHasTwo) b = last.read(i);
      formula(w, hn::LoadU(d, gradients + i), a, b);
      hn::StoreU(w, d, weights_after + i);
      first.keep(a, i);
      if constexpr (kHasTwo) last.keep(b, i);
    }
    first.write();
    if constexpr (kHasTwo) last.write();
  }
}

/// formula(w, g, a, b) changes w and the states a, b in place; g is not yet clipped. There are as
/// many states as kSquares, which say whether a state is of squares (StateForm).
template <bool... kSquares, class Formula>
HWY_INLINE void step_range(const StepOperands& operands, int64_t begin, int64_t end,
                           Formula formula) {
  constexpr size_t kStates = sizeof...(kSquares);
  if constexpr (kStates > 0) {
    if (operands.coded != nullptr) return step_coded_blocks<kSquares...>(operands, formula);
  }
  const F32 d;
  const int64_t step = lanes_f32();
  for (int64_t i = begin; i < end; i += step) {
    const int64_t n = end - i;
    V32 w = load_some(d, operands.src[0] + i, n, step);
    const V32 g = load_some(d, operands.src[1] + i, n, step);
    V32 a = hn::Zero(d);
    V32 b = hn::Zero(d);
    if constexpr (kStates > 0) a = load_some(d, operands.src[2] + i, n, step);
    if constexpr (kStates > 1) b = load_some(d, operands.src[3] + i, n, step);
    formula(w, g, a, b);
    store_some(w, d, operands.dst[0] + i, n, step);
    if constexpr (kStates > 0) store_some(a, d, operands.dst[1] + i, n, step);
    if constexpr (kStates > 1) store_some(b, d, operands.dst[2] + i, n, step);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif
