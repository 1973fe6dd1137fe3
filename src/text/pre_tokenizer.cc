// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

namespace snug::text {

void PreTokenizer::split_from(size_t step, const TextPiece& piece,
                              std::vector<StepBuffers>& buffers, PieceSink out) const {
  if (step == steps_.size()) return out(piece);
  auto next = [&](const TextPiece& part) { split_from(step + 1, part, buffers, out); };
  steps_[step]->split(piece, buffers[step], PieceSink(next));
}

int64_t PreTokenizer::heap_bytes() const {
  auto bytes = static_cast<int64_t>(steps_.capacity() * sizeof(steps_[0]));
  for (const auto& step : steps_) bytes += step->heap_bytes();
  return bytes;
}

}  // namespace snug::text
