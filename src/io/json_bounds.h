// SPDX-License-Identifier: Apache-2.0
// What reading a JSON document may take, and what of it goes to the caller as it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace snug::io {

/// What a document may hold; more is refused before memory and stack are spent on it.
struct JsonBounds {
  int64_t max_depth = 64;
  int64_t max_values = 1'000'000;
};

/// Entries of one object that go to the caller, in the file's order, instead of into the document
/// (they count in no bound, and may stand twice): for objects too large to be kept.
struct JsonEntries {
  std::vector<std::string> path = {};  // the keys that lead to the object
  /// A value that is no integer is none, and ends the reading.
  std::function<void(const std::string& key, std::optional<int64_t> value)> take = {};
};

/// Items of one list that go to the caller in the same way: texts and numbers, or rows of them.
struct JsonRows {
  std::vector<std::string> path = {};
  struct Cell {
    bool is_number = false;
    std::string text;  // of a number, too: as it stands in the file
  };
  /// A false answer ends the reading: the row is not of the form that the caller knows.
  std::function<bool(std::span<const Cell> row)> take = {};
};

/// What goes to the caller and not into the document.
struct JsonTaken {
  JsonEntries entries = {};
  std::vector<JsonRows> rows = {};
};

}  // namespace snug::io
