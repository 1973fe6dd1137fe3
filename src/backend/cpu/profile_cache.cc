// SPDX-License-Identifier: Apache-2.0
// The cache file of a machine profile: JSON, written to a temporary file and renamed, so that a
// reader sees the old or the new one. A file that is damaged or of another machine is measured
// anew; one that cannot be written is no error, the next run measures again.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "backend/cpu/measure_profile.h"

namespace snug {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

std::string read_text(const std::string& path) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  if (failed || bytes > static_cast<uintmax_t>(kMaxFileBytes)) return {};
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool write_text(const std::string& path, const std::string& text) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  const bool is_complete = done == text.size() && ::fsync(file) == 0;
  ::close(file);
  if (is_complete && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

}  // namespace

MachineProfile load_or_measure_profile(const std::string& cache_file, int threads) {
  MachineProfile profile;
  if (!cache_file.empty() && read_profile(read_text(cache_file), machine_key(threads), profile))
    return profile;
  MachineProfile measured = measure_profile(threads);
  if (cache_file.empty()) return measured;
  // Another process may have been first while this one measured: all go on with the same rates.
  if (read_profile(read_text(cache_file), machine_key(threads), profile)) return profile;
  (void)write_text(cache_file, write_profile(measured));
  return measured;
}

}  // namespace snug
