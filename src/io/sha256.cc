// SPDX-License-Identifier: Apache-2.0
#include "io/sha256.h"

#include <nettle/sha2.h>

#include <array>

namespace snug::io {

struct Sha256::State {
  sha256_ctx context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { sha256_init(&state_->context); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(const void* src, int64_t bytes) {
  sha256_update(&state_->context, static_cast<size_t>(bytes), static_cast<const uint8_t*>(src));
}

std::string Sha256::finish() {
  std::array<uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&state_->context, digest.size(), digest.data());  // also starts again
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_of_bytes(const void* src, int64_t bytes) {
  Sha256 hash;
  hash.update(src, bytes);
  return hash.finish();
}

}  // namespace snug::io
