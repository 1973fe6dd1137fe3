// SPDX-License-Identifier: Apache-2.0
// For tests: an empty folder that goes away with its object, and what an error said.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "io/file.h"
#include "snug/error.h"

namespace snug::io {

class TestFolder {
 public:
  TestFolder() {
    const char* place = std::getenv("TMPDIR");
    path_ = std::string(place != nullptr ? place : "/tmp") + "/snug-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw_system_error(path_, "create", errno);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    try {
      remove_all(path_);
    } catch (const Error&) {  // a left-over in /tmp fails no test
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// "bad_data: [file] text..." of the Error that `call` throws; "" if it throws none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return {};
}

}  // namespace snug::io

/// The call throws an Error whose "code: text" contains the words.
#define EXPECT_ERROR(call, words)                                                                  \
  do {                                                                                             \
    const std::string said = ::snug::io::error_of([&] { call; });                                  \
    EXPECT_NE(said.find(words), std::string::npos) << "wanted: " << (words) << "\nsaid: " << said; \
  } while (false)
