// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

namespace snug::text {

Normalizer::Result Normalizer::apply(std::string_view text, NormalizeScratch& scratch) const {
  Result result{.text = text};
  std::string* to = &scratch.one;
  std::string* other = &scratch.other;
  for (const auto& step : steps_) {
    to->clear();
    result.begins_elsewhere |= step->apply(result.text, scratch, *to);
    result.text = *to;
    std::swap(to, other);
  }
  return result;
}

int64_t Normalizer::heap_bytes() const {
  auto bytes = static_cast<int64_t>(steps_.capacity() * sizeof(steps_[0]));
  for (const auto& step : steps_) bytes += step->heap_bytes();
  return bytes;
}

}  // namespace snug::text
