// SPDX-License-Identifier: Apache-2.0
// sentencepiece's normalisation: the longest rule of the charsmap, then spaces.
#pragma once

#include <memory>

#include "text/normalizer.h"
#include "text/tokenizer_spec.h"

namespace snug::text {

[[nodiscard]] Normalizer make_sentencepiece_normalizer(const TokenizerSpec& spec);

}  // namespace snug::text
