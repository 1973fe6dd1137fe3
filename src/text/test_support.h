// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: files, a temporary folder, and a count of the heap (operator
// new is replaced in test_support.cc).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "snug/error.h"

namespace snug::text::test {

[[nodiscard]] std::string data_file(const std::string& name);
[[nodiscard]] std::string read_file(const std::filesystem::path& file);
void write_file(const std::filesystem::path& file, const std::string& text);

[[nodiscard]] int64_t live_heap_bytes();
[[nodiscard]] int64_t heap_allocations();

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Code and text of the Error that `act` throws; "no error" where it throws none.
template <class F>
std::string error_of(F&& act) {
  try {
    act();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + " " + error.what();
  }
  return "no error";
}

}  // namespace snug::text::test
