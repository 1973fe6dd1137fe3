// SPDX-License-Identifier: Apache-2.0
// A vocabulary in three blocks of memory: all tokens in one string, their ends, and an
// open-addressing hash of ids. The hash grows byte by byte (FNV-1a), so one pass over a word yields
// the hash of each of its beginnings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug::text {

class TokenTable {
 public:
  static constexpr uint64_t kHashSeed = 0xcbf29ce484222325u;
  [[nodiscard]] static constexpr uint64_t hash_more(uint64_t hash, unsigned char byte) {
    return (hash ^ byte) * 0x100000001b3u;
  }
  [[nodiscard]] static uint64_t hash_more(uint64_t hash, std::string_view text) {
    for (char byte : text) hash = hash_more(hash, static_cast<unsigned char>(byte));
    return hash;
  }

  /// Adds a token with the next id; false where it is there already.
  [[nodiscard]] bool add(std::string_view token);
  /// Adds the token, which is there already, with the next id too: that is the one it has.
  void add_again(std::string_view token);
  /// Gives the next id to no token; the text of the id is empty.
  void add_spare() { ends_.push_back(static_cast<uint32_t>(pool_.size())); }
  /// The id, or -1.
  [[nodiscard]] int32_t find(std::string_view token) const {
    return find(hash_more(kHashSeed, token), {}, token);
  }
  /// The id of prefix + rest, whose hash the caller knows, or -1.
  [[nodiscard]] int32_t find(uint64_t hash, std::string_view prefix, std::string_view rest) const;

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  [[nodiscard]] std::string_view token(int64_t id) const;
  /// Bytes of all tokens.
  [[nodiscard]] int64_t text_bytes() const { return static_cast<int64_t>(pool_.size()); }
  /// Bytes of the longest token.
  [[nodiscard]] size_t longest_bytes() const { return longest_bytes_; }
  /// Gives back what growing left over.
  void shrink();
  /// Heap bytes held.
  [[nodiscard]] int64_t heap_bytes() const;

 private:
  [[nodiscard]] size_t slot_of(uint64_t hash) const {
    return static_cast<size_t>(hash ^ hash >> 29) & (slots_.size() - 1);
  }
  void grow();
  void append(std::string_view token);
  /// Where the token stands, or would.
  [[nodiscard]] size_t place_of(std::string_view token) const;

  std::string pool_;
  std::vector<uint32_t> ends_;  ///< end of each token in pool_
  std::vector<int32_t> slots_;  ///< a power of two, at most half full; -1 is empty
  size_t longest_bytes_ = 0;
};

}  // namespace snug::text
