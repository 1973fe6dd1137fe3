// SPDX-License-Identifier: Apache-2.0
// Runs every reader over its seeds, SEEDS/READER/*, with any compiler and any sanitizer.
//
//   fuzz_replay SEEDS [READER]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

namespace snug::fuzz {
#define SNUG_FUZZ_READER(name) void read_##name(std::string_view input);
#include "fuzz_readers.inc"
#undef SNUG_FUZZ_READER

namespace {

constexpr double kLongestSeconds = 5;  // 1 s for libFuzzer; machines that run tests are busy

struct Reader {
  const char* name;
  void (*read)(std::string_view);
};
constexpr Reader kReaders[] = {
#define SNUG_FUZZ_READER(name) {#name, read_##name},
#include "fuzz_readers.inc"
#undef SNUG_FUZZ_READER
};

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The number of inputs; 0 is a failure.
size_t replay(const Reader& reader, const std::filesystem::path& seeds) {
  const auto files = files_in(seeds / reader.name);
  for (const auto& path : files) {
    std::fprintf(stderr, "%s/%s\n", reader.name, path.filename().c_str());
    std::ifstream file(path, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    const auto start = std::chrono::steady_clock::now();
    accept(reader.read, input);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (taken.count() <= kLongestSeconds) continue;
    std::fprintf(stderr, "took %.1f s\n", taken.count());
    return 0;
  }
  if (files.empty()) std::fprintf(stderr, "%s has no seeds\n", reader.name);
  return files.size();
}

}  // namespace
}  // namespace snug::fuzz

int main(int count, char** words) {
  using snug::fuzz::kReaders;
  if (count < 2 || count > 3) return 2;
  size_t total = 0;
  for (const auto& reader : kReaders) {
    if (count == 3 && std::string(words[2]) != reader.name) continue;
    const size_t inputs = snug::fuzz::replay(reader, words[1]);
    if (inputs == 0) return 1;
    total += inputs;
  }
  std::printf("%zu readers, %zu inputs\n", std::size(kReaders), total);
  return total > 0 ? 0 : 1;
}
