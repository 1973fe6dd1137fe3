// SPDX-License-Identifier: Apache-2.0
#include "base/finite.h"

#include <algorithm>
#include <bit>

#include "base/numbers.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr size_t kBlock = 4096;

uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }
uint64_t magnitude(double value) { return std::bit_cast<uint64_t>(value) & 0x7fffffffffffffffu; }
uint32_t magnitude(Bf16 value) { return value.bits & 0x7fffu; }
uint32_t magnitude(F16 value) { return value.bits & 0x7fffu; }

// As large as `infinity`, without the sign: not finite.
template <class T, class Bits>
int64_t first_not_below(Bits infinity, std::span<const T> values) {
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    Bits largest = 0;  // a maximum of integers: a loop that becomes vector code
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, magnitude(values[i]));
    if (largest < infinity) continue;
    for (size_t i = begin; i < end; ++i) {
      if (magnitude(values[i]) >= infinity) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace

int64_t first_not_finite(std::span<const float> values) {
  return first_not_below(uint32_t{0x7f800000}, values);
}
int64_t first_not_finite(std::span<const double> values) {
  return first_not_below(uint64_t{0x7ff0000000000000}, values);
}
int64_t first_not_finite(std::span<const Bf16> values) {
  return first_not_below(uint32_t{0x7f80}, values);
}
int64_t first_not_finite(std::span<const F16> values) {
  return first_not_below(uint32_t{0x7c00}, values);
}

std::string NotFinite::text() const {
  return "'" + name + "' is " + number_text(value) + " at element " + std::to_string(element);
}

void refuse_not_finite(const std::string& where, const NotFinite& found) {
  throw Error(ErrorCode::numeric, where, "the weights are not finite: " + found.text(),
              "take weights from before that, such as best/ or a checkpoint-N/");
}

void require_finite(const std::string& where, const std::string& name,
                    std::span<const float> values, int64_t first) {
  const int64_t at = first_not_finite(values);
  if (at < 0) return;
  refuse_not_finite(where, {.name = name,
                            .element = first + at,
                            .value = static_cast<double>(values[static_cast<size_t>(at)])});
}

}  // namespace snug
