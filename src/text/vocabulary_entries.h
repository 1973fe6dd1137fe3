// SPDX-License-Identifier: Apache-2.0
// The tokens and ids of a JSON object, in any order, on their way into a vocabulary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "snug/error.h"
#include "text/tokenizer_spec.h"

namespace snug::text {

class VocabularyEntries {
 public:
  /// `name` says which object of the file this is.
  VocabularyEntries(std::string file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  /// What takes the entries of the object at `path`. This must outlive it.
  [[nodiscard]] io::JsonEntries taken(std::vector<std::string> path) {
    return {.path = std::move(path),
            .take = [this](const std::string& token, std::optional<int64_t> id) {
              if (!id || *id < 0 || *id >= (int64_t{1} << 31)) {
                throw Error(ErrorCode::bad_data, file_,
                            name_ + " gives '" + token + "' an id that is no whole number from 0",
                            "write the file again");
              }
              entries_.push_back({*id, token});
            }};
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  void add_to(TokenizerSpec& spec) {
    if (entries_.empty()) {
      throw Error(ErrorCode::bad_data, file_, name_ + " is empty or missing",
                  "name a tokenizer with a vocabulary");
    }
    keep_last_of_each();
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.id < b.id; });
    check_ids();
    for (const Entry& entry : entries_) {
      if (entry.token.empty()) continue;
      while (spec.vocabulary.size() < entry.id) spec.vocabulary.add_spare();
      add_vocabulary_token(spec, entry.token, "id " + std::to_string(entry.id));
    }
  }

 private:
  struct Entry {
    int64_t id;
    std::string token;
  };

  // A token that stands twice has the id behind it, as every reader of JSON has it.
  void keep_last_of_each() {
    std::vector<size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return entries_[a].token < entries_[b].token; });
    std::vector<bool> is_kept(entries_.size(), true);
    for (size_t i = 1; i < order.size(); ++i)
      is_kept[order[i - 1]] = entries_[order[i - 1]].token != entries_[order[i]].token;
    size_t kept = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!is_kept[i]) continue;
      if (kept != i) entries_[kept] = std::move(entries_[i]);
      ++kept;
    }
    entries_.resize(kept);
  }

  // Ids without a token are permitted, as long as most ids have one: each takes memory.
  void check_ids() const {
    for (size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].id == entries_[i - 1].id)
        throw Error(ErrorCode::bad_data, file_,
                    name_ + " gives id " + std::to_string(entries_[i].id) + " to '" +
                        entries_[i - 1].token + "' and '" + entries_[i].token + "'",
                    kHint);
    }
    const auto spare = entries_.back().id + 1 - static_cast<int64_t>(entries_.size());
    if (spare > static_cast<int64_t>(entries_.size())) {
      throw Error(ErrorCode::bad_data, file_,
                  name_ + " has " + std::to_string(entries_.size()) + " tokens and ids to " +
                      std::to_string(entries_.back().id),
                  kHint);
    }
  }

  static constexpr const char* kHint =
      "take the file that the model was published or trained with: its weights go by these ids";
  std::string file_, name_;
  std::vector<Entry> entries_;
};

}  // namespace snug::text
