// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fuzz/fuzz.h"
#include "snug/error.h"

namespace snug::fuzz {
namespace {

constexpr size_t kLongestMessage = 64 << 10;

[[noreturn]] void refuse(const char* why, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", why, text.c_str());
  std::abort();
}

// A foreign byte must not reach the user's terminal as a command.
bool is_printable(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) return false;
  }
  return true;
}

class Folder {
 public:
  Folder() {
    const char* given = std::getenv("SNUG_FUZZ_FOLDER");
    std::string path = given != nullptr ? given : "/dev/shm/snug-fuzz-XXXXXX";
    is_ours_ = given == nullptr;
    if (is_ours_ && ::mkdtemp(path.data()) == nullptr) refuse("no folder can be made", path);
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (is_ours_) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_ours_ = false;
};

const std::string& folder() {
  static const Folder made;
  return made.path();
}

}  // namespace

void accept(const std::function<void(std::string_view)>& reader, std::string_view input) {
  try {
    reader(input);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() == ErrorCode::internal || error.code() == ErrorCode::ok)
      refuse("an error of Snug's own", text);
    if (!is_printable(text)) refuse("a message holds control characters", text);
    if (text.size() > kLongestMessage) refuse("a message is too long", text.substr(0, 200));
  }
}

void require(bool holds, const char* property) {
  if (!holds) refuse("does not hold", property);
}

std::string write_file(const std::string& name, std::string_view bytes) {
  std::string path = folder() + "/" + name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) refuse("cannot write", path);
  return path;
}

std::vector<std::string_view> parts_of(std::string_view input, size_t count) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const size_t end = std::min(input.find('\0'), input.size());
    parts.push_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  parts.push_back(input);
  return parts;
}

unsigned char take_byte(std::string_view& input) {
  if (input.empty()) return 0;
  const auto byte = static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  return byte;
}

std::string replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace snug::fuzz
