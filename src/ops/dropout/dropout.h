// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a pure function of keys, so that it is never stored: recomputation, another
// split of the batch, another padded length and a resumed run draw the same mask.
//
// dropout(x, rng i64[3] = {seed, update, first_slot}) {rate, ordinal, sample_axis=0}
//   The element with index s along sample_axis and row-major index e inside its sample draws the
//   word
//     philox4x32({e / 4, first_slot + s, update, ordinal}, seed)[e % 4]
//   and is kept, times 1 / (1 - rate), iff word >= floor(rate 2^32). sample_axis is 0 (samples are
//   slots of the global batch) or -1 (no samples: the slot is 0 and e runs over all of x). rate 0
//   is the identity. Gradient: dx = dropout(dy, rng) with the same attributes. Keeps rng alone.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "graph/builder.h"

namespace snug {

/// Takes the builder's next random ordinal.
[[nodiscard]] ValueId dropout(GraphBuilder& builder, ValueId x, ValueId rng, double rate,
                              int64_t sample_axis = 0);

/// A word below this is dropped; rate is in [0, 1).
[[nodiscard]] constexpr uint32_t dropout_threshold(double rate) {
  return static_cast<uint32_t>(rate * 4294967296.0);
}

/// The four words of elements 4 * quad ... 4 * quad + 3 of one sample; attention keys its own words
/// through the same counter.
[[nodiscard]] constexpr PhiloxCounter dropout_words(int64_t quad, int64_t slot, int64_t update,
                                                    int64_t ordinal, int64_t seed) {
  return philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(slot),
                     static_cast<uint32_t>(update), static_cast<uint32_t>(ordinal)},
                    static_cast<uint64_t>(seed));
}

}  // namespace snug
