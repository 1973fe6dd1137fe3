// SPDX-License-Identifier: Apache-2.0
// Ids of words met before, in a fixed number of places: a word takes the place of another that
// falls on it. What is found is what the model would give, so results do not depend on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace snug::text {

class WordCache {
 public:
  /// Forgets all words where another tokenizer asks. The owner is kept alive, so that no other one
  /// can be taken for it.
  void serve(const std::shared_ptr<const int>& owner) {
    if (owner == owner_) return;
    owner_ = owner;
    places_.assign(kPlaces, {});
  }
  /// Appends the ids of a word; false where it is not known.
  [[nodiscard]] bool append(std::string_view word, std::vector<int32_t>& ids) {
    at_ = nullptr;
    if (word.size() > kMostBytes) return false;
    Place& place = places_[hash_of(word) & (kPlaces - 1)];
    at_ = &place;
    if (place.bytes != word.size() || std::memcmp(place.word, word.data(), word.size()) != 0)
      return false;
    ids.insert(ids.end(), place.ids, place.ids + place.count);
    return true;
  }
  /// Keeps the ids of the word that was asked for last.
  void keep(std::string_view word, std::span<const int32_t> ids) {
    if (at_ == nullptr || ids.size() > kMostIds) return;
    at_->bytes = static_cast<uint8_t>(word.size());
    at_->count = static_cast<uint8_t>(ids.size());
    std::memcpy(at_->word, word.data(), word.size());
    std::copy(ids.begin(), ids.end(), at_->ids);
  }

 private:
  static constexpr size_t kPlaces = 8192;
  static constexpr size_t kMostBytes = 30;
  static constexpr size_t kMostIds = 8;
  struct Place {  // one cache line
    uint8_t bytes = 0, count = 0;
    char word[kMostBytes];
    int32_t ids[kMostIds];
  };
  [[nodiscard]] static size_t hash_of(std::string_view word) {
    uint64_t hash = word.size();
    size_t at = 0;
    for (; at + 8 <= word.size(); at += 8) {
      uint64_t part;
      std::memcpy(&part, word.data() + at, 8);
      hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    uint64_t rest = 0;
    std::memcpy(&rest, word.data() + at, word.size() - at);
    hash = (hash ^ rest) * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(hash ^ hash >> 32);
  }

  std::shared_ptr<const int> owner_;
  std::vector<Place> places_;
  Place* at_ = nullptr;
};

}  // namespace snug::text
