// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a temporary folder, expected errors, a toy tokeniser,
// counted allocations.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "data/token_cache.h"

namespace snug::data {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "snug-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  [[nodiscard]] int64_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::string path_;
};

template <class Action>
void expect_error(Action action, ErrorCode code, const std::string& text) {
  try {
    action();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
        << "got:      " << error.what() << "\nexpected: " << text;
  }
}

/// The row's first column.
inline int32_t label_of(const TokenCache& cache, int64_t row) {
  RowColumns columns;
  cache.read_columns(row, columns);
  return columns.integers(0).front();
}

/// One id a byte between two specials, a pair behind a third, cut at max_length.
inline EncodeFn toy_encoder(int32_t max_length) {
  return [max_length](const RowText& row, EncodedRow& out) {
    const std::string* pair = row.pair;
    out.ids.push_back(300);
    for (const char byte : row.text) out.ids.push_back(static_cast<unsigned char>(byte));
    out.ids.push_back(301);
    out.type_ids.assign(out.ids.size(), 0);
    if (pair != nullptr) {
      for (const char byte : *pair) out.ids.push_back(static_cast<unsigned char>(byte));
      out.ids.push_back(301);
      out.type_ids.resize(out.ids.size(), 1);
    }
    if (out.ids.size() > static_cast<size_t>(max_length)) {
      out.truncated = true;
      out.ids.resize(static_cast<size_t>(max_length));
      out.type_ids.resize(static_cast<size_t>(max_length));
    }
  };
}

/// Counters of operator new in this test program (allocation_counter.cc).
struct AllocationCounter {
  [[nodiscard]] static int64_t calls();
  [[nodiscard]] static int64_t live_bytes();
  [[nodiscard]] static int64_t peak_bytes();
  static void restart_peak();
};

}  // namespace snug::data
