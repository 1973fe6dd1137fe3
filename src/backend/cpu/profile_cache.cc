// SPDX-License-Identifier: Apache-2.0
// The cache file of a machine profile: JSON, written to a temporary file and renamed, so that a
// reader sees the old or the new one. A file that is damaged or of another machine is measured
// anew; one that cannot be written is no error, the next run measures again.
#include "backend/cpu/measure_profile.h"
#include "io/buffered_file.h"
#include "io/file.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

void write_text(const std::string& path, const std::string& text) try {
  io::make_folders(io::parent_folder(path));
  io::TemporaryFile temporary(path, {.what = "another run is writing it", .hint = "wait for it"});
  io::File file = temporary.duplicate();
  file.write_all(text);
  file.sync();
  temporary.commit();
} catch (const Error&) {
  // The next run measures again.
}

bool read_cache(const std::string& cache_file, int threads, MachineProfile& profile) {
  return read_profile(io::read_all_if_any(cache_file, kMaxFileBytes), machine_key(threads),
                      profile);
}

}  // namespace

MachineProfile load_or_measure_profile(const std::string& cache_file, int threads,
                                       const std::function<void()>& before_measuring) {
  MachineProfile profile;
  if (!cache_file.empty() && read_cache(cache_file, threads, profile)) return profile;
  if (before_measuring) before_measuring();
  MachineProfile measured = measure_profile(threads);
  if (cache_file.empty()) return measured;
  // Another process may have been first while this one measured: all go on with the same rates.
  if (read_cache(cache_file, threads, profile)) return profile;
  write_text(cache_file, write_profile(measured));
  return measured;
}

}  // namespace snug
