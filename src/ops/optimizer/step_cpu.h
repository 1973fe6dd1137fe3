// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels of optimizers' steps have in common: their inputs, the skipped update, how
// weights and states are stored, and the kernel of a step whose elements do not know one another.
// Its loop is in step_range-inl.h.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "backend/cpu/kernel.h"
#include "backend/cpu/reduction.h"
#include "backend/cpu/weight_rows.h"
#include "base/check.h"
#include "base/threads.h"
#include "ops/optimizer/codec_cpu.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {

inline constexpr size_t kMostStates = 2;
inline constexpr int64_t kStepGrain = 8192;  // elements; whole blocks of states

/// Whole blocks of states as codes, for a loop that decodes and codes them itself. Every scale is
/// finite.
struct CodedStates {
  struct State {
    const uint8_t* codes = nullptr;
    const float* scales = nullptr;
    uint8_t* codes_after = nullptr;
    float* scales_after = nullptr;
    uint32_t dither = 0;  // of the first element
  };
  std::array<State, kMostStates> states = {};
  int64_t blocks = 0;  // at least 1
};
inline constexpr std::array<uint8_t, kStateBlock> kCodesOfZero = {};
alignas(64) inline constexpr std::array<float, kStateBlock> kNoGradient = {};
// While a block is coded nothing is loaded, and the processor's own prefetching falls behind.
inline constexpr int64_t kStepAhead = 2 * kStateBlock;  // elements

/// w, g and the states; w and the states after the step. Null where there is no such state, and
/// where it is stored in fewer bits.
struct StepOperands {
  std::array<const float*, kMostStates + 2> src = {};
  std::array<float*, kMostStates + 1> dst = {};
  const float* hyper = nullptr;
  float gradient_scale = 1;  // the clipping coefficient
  // Where there are, src and dst hold no states, and the range is their blocks.
  const CodedStates* coded = nullptr;
};

/// Brings w and the states of a step to a loop over its elements, whatever they are stored as.
class StepStorage {
 public:
  explicit StepStorage(const NodeSpec& spec)
      : inputs_(spec.inputs.size()),
        width_(spec.inputs.has(index(StepInput::row_of)) ? spec.inputs[0].shape[1] : 0),
        weights_(spec.inputs[0]),
        stream_(static_cast<uint32_t>(spec.attrs.int64(kStreamAttr))) {
    SNUG_CHECK(spec.outputs.size() <= kMostOutputs, "a step with more states than kMostStates");
    for (size_t i = 0; i < spec.outputs.size(); ++i) bytes_[i] = byte_count(spec.outputs[i]);
    if (spec.outputs.size() < 2 || spec.outputs[1].dtype != DType::u8) {
      states_ = spec.outputs.size() - 1;
      return;
    }
    states_ = (spec.outputs.size() - 1) / 2;
    const StateCodec codec = find_codec(spec.attrs.text(kCodecAttr)).value();
    const std::vector<int64_t>& squares = spec.attrs.ints(kSquaresAttr);
    for (size_t s = 0; s < states_; ++s)
      coders_[s] = state_coder({.codec = codec, .is_square = squares[s] != 0});
    has_codes_ = true;
  }
  /// Whether the states that a pass forms and does not write are lost with its part.
  [[nodiscard]] bool has_codes() const { return has_codes_; }
  [[nodiscard]] bool is_coded() const { return has_codes_ || weights_.is_coded(); }
  /// The columns of a row-sparse gradient; 0 where it is whole.
  [[nodiscard]] int64_t sparse_width() const { return width_; }
  /// By row of w: which of the gradient's, or negative. Of a row-sparse one.
  [[nodiscard]] const int32_t* row_of(const Launch& launch) const {
    return input<int32_t>(launch, index(StepInput::row_of));
  }

  /// w and the states as they were before.
  void keep_all(const Launch& launch) const {
    for (size_t i = 0; i < launch.outputs.size(); ++i)
      copy_overwritten(launch, i, i == 0 ? 0 : i + 1, bytes_[i]);
  }

  [[nodiscard]] StepOperands operands_of(const Launch& launch) const {
    StepOperands operands;
    if (!weights_.is_coded()) {
      operands.src[0] = input<float>(launch, 0);
      operands.dst[0] = output<float>(launch, 0);
    }
    operands.src[1] = input<float>(launch, 1);
    for (size_t s = 0; s < states_ && !has_codes_; ++s) {
      operands.src[s + 2] = input<float>(launch, s + 2);
      operands.dst[s + 1] = output<float>(launch, s + 1);
    }
    operands.hyper = input<float>(launch, index(StepInput::hyper));
    const auto* coefficient = input<float>(launch, index(StepInput::coefficient));
    if (coefficient != nullptr) operands.gradient_scale = *coefficient;
    return operands;
  }

  /// Calls run(part, begin, count) for parts of [first, last), which begins with a whole block.
  /// Operands of a part begin at its first element. What is stored in fewer bits is decoded for
  /// it, and coded again behind it if `writes`.
  template <class Run>
  void for_each_part(const StepOperands& whole, const Launch& launch, int64_t first, int64_t last,
                     bool writes, Run run) const {
    StepOperands part = whole;
    const auto move_to = [&](int64_t begin) {
      if (!weights_.is_coded()) {
        part.src[0] = whole.src[0] + begin;
        part.dst[0] = whole.dst[0] + begin;
      }
      for (size_t s = 0; s < states_ && !has_codes_; ++s) {
        part.src[s + 2] = whole.src[s + 2] + begin;
        part.dst[s + 1] = whole.dst[s + 1] + begin;
      }
    };
    if (!is_coded() && width_ == 0) {
      move_to(first);
      part.src[1] += first;
      return run(part, first, last - first);
    }
    alignas(64) std::array<std::array<float, kStateBlock>, kMostStates> values;
    alignas(64) std::array<float, kStateBlock> weights;
    alignas(64) std::array<float, kStateBlock> gradients;
    if (weights_.is_coded()) part.src[0] = part.dst[0] = weights.data();
    for (size_t s = 0; s < states_ && has_codes_; ++s)
      part.src[s + 2] = part.dst[s + 1] = values[s].data();
    for (int64_t begin = first; begin < last; begin += kStateBlock) {
      const int64_t count = std::min(kStateBlock, last - begin);
      move_to(begin);
      part.src[1] = gradient_at(whole, launch, begin, count, gradients.data());
      (void)weights_.read(launch.inputs[0], begin, count, weights.data());
      if (has_codes_) decode_states_of(launch, begin, count, values);
      run(part, begin, count);
      if (!writes) continue;
      weights_.round(weights.data(), key_of(launch), launch.outputs[0], begin, count);
      if (has_codes_) encode_states_of(launch, begin, count, values);
    }
  }

  /// The same for a step whose loop knows states in codes (step_range-inl.h), and writes.
  template <class Run>
  void for_each_range(const StepOperands& whole, const Launch& launch, int64_t first, int64_t last,
                      Run run) const {
    const bool is_by_block = weights_.is_coded() || width_ > 0;
    const int64_t at_once = is_by_block ? kStateBlock : (last - first) / kStateBlock * kStateBlock;
    alignas(64) std::array<float, kStateBlock> weights;
    alignas(64) std::array<float, kStateBlock> gradients;
    CodedStates coded;
    int64_t begin = first;
    while (last - begin >= kStateBlock && find_codes(launch, begin, at_once, coded)) {
      StepOperands part = whole;
      part.coded = &coded;
      part.src[1] = gradient_at(whole, launch, begin, at_once, gradients.data());
      if (weights_.is_coded()) {
        part.src[0] = part.dst[0] = weights.data();
        (void)weights_.read(launch.inputs[0], begin, at_once, weights.data());
      } else {
        part.src[0] += begin;
        part.dst[0] += begin;
      }
      run(part, begin, at_once);
      weights_.round(weights.data(), key_of(launch), launch.outputs[0], begin, at_once);
      begin += at_once;
    }
    for_each_part(whole, launch, begin, last, true, run);
  }

  /// The sum of w^2; `scratch` is that of reduction.h.
  [[nodiscard]] double squares_of_weights(int threads, const Launch& launch, int64_t count,
                                          double* scratch) const {
    if (!weights_.is_coded())
      return sum_squares_f32(threads, input<float>(launch, 0), count, scratch);
    const int64_t blocks = (count + kSquaresBlock - 1) / kSquaresBlock;
    parallel_for(threads, blocks, 1, [&](int64_t first, int64_t last) {
      alignas(64) std::array<float, kStateBlock> buffer;
      for (int64_t block = first; block < last; ++block) {
        scratch[block] = 0;
        const int64_t end = std::min(count, (block + 1) * kSquaresBlock);
        for (int64_t at = block * kSquaresBlock; at < end; at += kStateBlock) {
          const int64_t n = std::min(kStateBlock, end - at);
          double unused = 0;
          scratch[block] +=
              sum_squares_f32(1, weights_.read(launch.inputs[0], at, n, buffer.data()), n, &unused);
        }
      }
    });
    return std::accumulate(scratch, scratch + blocks, 0.0);
  }

  /// Calls run(src, dst) for elements [begin, begin + count) of w, at most a block.
  template <class Run>
  void for_weights(const Launch& launch, int64_t begin, int64_t count, Run run) const {
    alignas(64) std::array<float, kStateBlock> buffer;
    const float* const src = weights_.read(launch.inputs[0], begin, count, buffer.data());
    run(src, weights_.place(launch.outputs[0], begin, buffer.data()));
    weights_.round(buffer.data(), key_of(launch), launch.outputs[0], begin, count);
  }

 private:
  static constexpr size_t kMostOutputs = 2 * kMostStates + 1;

  [[nodiscard]] size_t index(StepInput input) const { return index_of(input, inputs_); }

  // That of elements [begin, begin + count); of a row-sparse one at most a block, copied together
  // into `buffer` where it does not lie in one piece.
  [[nodiscard]] const float* gradient_at(const StepOperands& whole, const Launch& launch,
                                         int64_t begin, int64_t count, float* buffer) const {
    const float* const rows = whole.src[1];
    if (width_ == 0) return rows + begin;
    const int32_t* const row_of_each = row_of(launch);
    const auto at = [&](int64_t element) {
      const int64_t row = row_of_each[element / width_];
      return row == 0 ? nullptr : rows + (row - 1) * width_ + element % width_;
    };
    if (begin % width_ + count <= width_) {
      const float* const in_row = at(begin);
      return in_row == nullptr ? kNoGradient.data() : in_row;
    }
    for (int64_t done = 0; done < count;) {
      const int64_t n = std::min(count - done, width_ - (begin + done) % width_);
      const float* const in_row = at(begin + done);
      if (in_row == nullptr) {
        std::fill_n(buffer + done, n, 0.0F);
      } else {
        std::copy_n(in_row, n, buffer + done);
      }
      done += n;
    }
    return buffer;
  }

  using States = std::array<std::array<float, kStateBlock>, kMostStates>;

  void decode_states_of(const Launch& launch, int64_t begin, int64_t count, States& values) const {
    for (size_t s = 0; s < states_; ++s)
      coders_[s].decode(input<float>(launch, 3 + 2 * s)[begin / kStateBlock],
                        input<uint8_t>(launch, 2 + 2 * s) + begin, count, values[s].data());
  }
  void encode_states_of(const Launch& launch, int64_t begin, int64_t count, States& values) const {
    for (size_t s = 0; s < states_; ++s) {
      output<float>(launch, 2 + 2 * s)[begin / kStateBlock] =
          coders_[s].encode(values[s].data(), count, dither_of(launch, s, begin),
                            output<uint8_t>(launch, 1 + 2 * s) + begin);
    }
  }
  [[nodiscard]] uint32_t dither_of(const Launch& launch, size_t state, int64_t begin) const {
    return state_dither(input<int64_t>(launch, index(StepInput::rng))[1],
                        static_cast<uint32_t>(state)) +
           static_cast<uint32_t>(begin) * kDitherElement;
  }
  /// False where a loop cannot code the states of these whole blocks itself.
  bool find_codes(const Launch& launch, int64_t begin, int64_t count, CodedStates& coded) const {
    if (!has_codes_ || coders_[0].form.codec != StateCodec::adaptive) return false;
    const int64_t at = begin / kStateBlock;
    coded.blocks = count / kStateBlock;
    for (size_t s = 0; s < states_; ++s) {
      const float* const scales = input<float>(launch, 3 + 2 * s) + at;
      for (int64_t i = 0; i < coded.blocks; ++i) {
        if (!std::isfinite(scales[i])) return false;
      }
      coded.states[s] = {.codes = input<uint8_t>(launch, 2 + 2 * s) + begin,
                         .scales = scales,
                         .codes_after = output<uint8_t>(launch, 1 + 2 * s) + begin,
                         .scales_after = output<float>(launch, 2 + 2 * s) + at,
                         .dither = dither_of(launch, s, begin)};
    }
    return true;
  }
  [[nodiscard]] RoundingKey key_of(const Launch& launch) const {
    const auto* const rng = input<int64_t>(launch, index(StepInput::rng));
    if (rng == nullptr) return {};
    return {static_cast<uint64_t>(rng[0]), static_cast<uint32_t>(rng[1]), stream_};
  }

  size_t inputs_;
  int64_t width_;  // of a row-sparse gradient
  std::array<int64_t, kMostOutputs> bytes_ = {};
  WeightRows weights_;
  uint32_t stream_;
  std::array<StateCoder, kMostStates> coders_ = {};
  size_t states_ = 0;
  bool has_codes_ = false;
};

/// A kernel from `void step(const StepOperands&, const Launch&)`, which is not called where the
/// update is skipped: by `hyper`, or by the coefficient of a norm that is not finite. What is
/// stored in fewer bits is no operand: StepStorage brings it.
template <class Step>
[[nodiscard]] std::unique_ptr<Kernel> make_step_kernel(const NodeSpec& spec, Step step) {
  return make_kernel([=, storage = StepStorage(spec)](const Launch& launch) {
    const StepOperands operands = storage.operands_of(launch);
    if (operands.hyper[3] != 1 && !std::isnan(operands.gradient_scale)) {
      step(operands, launch);
      return ErrorCode::ok;
    }
    storage.keep_all(launch);
    return ErrorCode::ok;
  });
}

/// Whether a step leaves an element as it is, to the bit, where its gradient is zero.
enum class AtZero : uint8_t { moves, rests };

/// `factors(operands)` is formed once a call, in double; `range()` is the loop over elements
/// [begin, end) for this processor.
template <class MakeFactors, class Range>
[[nodiscard]] std::unique_ptr<Kernel> make_element_step(const NodeSpec& spec,
                                                        const CpuContext& context,
                                                        MakeFactors factors, Range range,
                                                        AtZero at_zero = AtZero::moves) {
  const StepStorage storage(spec);
  // Codes are rounded anew whenever they are written.
  const bool skips_rows =
      at_zero == AtZero::rests && storage.sparse_width() > 0 && !storage.is_coded();
  return make_step_kernel(spec, [=, count = element_count(spec.inputs[0]),
                                 threads = context.threads](const StepOperands& operands,
                                                            const Launch& launch) {
    const auto values = factors(operands);
    const auto run = range();
    const auto step = [&](int64_t begin, int64_t end) {
      storage.for_each_range(
          operands, launch, begin, end,
          [&](const StepOperands& part, int64_t, int64_t n) { run(values, part, 0, n); });
    };
    if (!skips_rows) return parallel_for(threads, count, kStepGrain, step);
    storage.keep_all(launch);
    const int64_t width = storage.sparse_width();
    const int32_t* const row_of = storage.row_of(launch);
    parallel_for(threads, count / width, 1 + kStepGrain / width, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        if (row_of[row] > 0) step(row * width, (row + 1) * width);
      }
    });
  });
}

}  // namespace snug
