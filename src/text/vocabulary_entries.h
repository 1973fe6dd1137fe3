// SPDX-License-Identifier: Apache-2.0
// The tokens and ids of a JSON object, in any order, on their way into a vocabulary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "snug/error.h"
#include "text/tokenizer_spec.h"

namespace snug {

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
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.id < b.id; });
    for (size_t i = 0; i < entries_.size(); ++i) {
      const auto id = static_cast<int64_t>(i);
      if (entries_[i].id != id) {
        const bool is_twice = entries_[i].id < id;
        throw Error(ErrorCode::bad_data, file_,
                    is_twice ? name_ + " gives id " + std::to_string(entries_[i].id) + " to '" +
                                   entries_[i - 1].token + "' and '" + entries_[i].token + "'"
                             : name_ + " has no token with id " + std::to_string(id),
                    "ids must count from 0 without gaps");
      }
      add_vocabulary_token(spec, entries_[i].token, "id " + std::to_string(id));
    }
  }

 private:
  struct Entry {
    int64_t id;
    std::string token;
  };
  std::string file_, name_;
  std::vector<Entry> entries_;
};

}  // namespace snug
