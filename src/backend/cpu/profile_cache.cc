// SPDX-License-Identifier: Apache-2.0
// The cache file of a machine profile: JSON, written to a temporary file and renamed, so that a
// reader sees the old or the new one. A file that is damaged or of another machine is measured
// anew, and so is one that other work disturbed. Where its folder cannot be written, a folder of
// the user's in $TMPDIR has it, which is said by whoever measures; where that cannot be written,
// either, the next run measures again.
#include <cmath>
#include <optional>

#include "backend/cpu/measure_profile.h"
#include "base/threads.h"
#include "base/units.h"
#include "io/buffered_file.h"
#include "io/file.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

std::string reason_of(const Error& error) { return error.where() + ": " + error.message(); }

// Why files cannot be kept there; empty where they can.
std::string why_not(const ProfilePlace& place) try {
  if (place.folder.empty()) return "neither XDG_CACHE_HOME nor HOME is set";
  io::make_folders(place.folder);
  io::require_writable_folder(place.folder);
  return {};
} catch (const Error& error) {
  return reason_of(error);
}

// Writes the file whole or not at all. Where another run is writing it just now, that run's file is
// as good.
std::string write_text(const std::string& path, const std::string& text) try {
  io::TemporaryFile temporary(path, {.what = "another run is writing it", .hint = "wait for it"});
  io::File file = temporary.duplicate();
  file.write_all(text);
  file.sync();
  temporary.commit();
  return {};
} catch (const Error& error) {
  return reason_of(error);
}

std::string write_elsewhere(const std::string& folder, const std::string& file,
                            const std::string& text) try {
  io::make_own_folder(folder);
  return write_text(folder + "/" + file, text);
} catch (const Error& error) {
  return reason_of(error);
}

std::optional<MachineProfile> read_cache(const std::string& cache_file, int threads) {
  MachineProfile profile;
  const std::string text = io::read_all_if_any(cache_file, kMaxFileBytes);
  if (!read_profile(text, machine_key(threads), profile)) return std::nullopt;
  return profile;
}

// The less disturbed of both, which counts both.
MachineProfile better_of(const std::optional<MachineProfile>& before, MachineProfile now) {
  if (!before) return now;
  const int64_t measurements = before->measurements + 1;
  if (before->waited_share < now.waited_share) now = *before;
  now.measurements = measurements;
  return now;
}

}  // namespace

MachineProfile load_or_measure_profile(const ProfilePlace& place, int threads) {
  const std::string usual = place.folder + "/" + place.file;
  const auto is_disturbed = [&](const MachineProfile& profile) {
    return !place.shares_processors && has_threads(threads) && is_measured_again(profile);
  };
  std::optional<MachineProfile> kept;
  if (!place.folder.empty()) kept = read_cache(usual, threads);
  if (kept && !is_disturbed(*kept)) return *kept;
  const std::string reason = why_not(place);
  const std::string other = io::own_temporary_folder();
  const bool reads_other = !reason.empty() && io::is_own_folder(other);
  const std::string file = reason.empty() ? usual : other + "/" + place.file;
  if (reads_other) {
    const std::optional<MachineProfile> own = read_cache(file, threads);
    if (own && (!kept || own->measurements > kept->measurements)) kept = own;
    if (kept && !is_disturbed(*kept)) return *kept;
  }
  if (place.room_bytes < kMeasuringBytes) {
    if (kept) return *kept;
    if (place.on_message)
      place.on_message("the budget has no room to measure this machine's speeds, which takes " +
                       format_bytes(kMeasuringBytes) +
                       " once: seconds are predicted as for an ordinary machine until a plan, or a "
                       "run in a larger budget, measures them");
    return default_profile();
  }
  if (place.before_measuring) place.before_measuring();
  const MachineProfile measured =
      better_of(kept, place.measure ? place.measure(threads) : measure_profile(threads));
  // Another process may have been first while this one measured: all go on with the same rates.
  if (reason.empty() || reads_other) {
    const std::optional<MachineProfile> now = read_cache(file, threads);
    if (now && (!kept || now->measurements != kept->measurements)) return *now;
  }
  if (place.on_message && is_disturbed(measured))
    place.on_message("other work had the processors for " +
                     std::to_string(std::lround(100 * measured.waited_share)) +
                     " % of the time in which this machine's speeds were measured: seconds may be "
                     "predicted too high, and the next start measures again");
  if (reason.empty()) {
    (void)write_text(file, write_profile(measured));
    return measured;
  }
  const std::string reason_of_other = write_elsewhere(other, place.file, write_profile(measured));
  if (!place.on_message) return measured;
  place.on_message("the machine's speeds cannot be kept where they belong (" + reason + "), " +
                   (reason_of_other.empty()
                        ? "and are kept in " + other
                        : "nor in TMPDIR (" + reason_of_other +
                              "), so the next start measures again; let XDG_CACHE_HOME name a "
                              "folder that can be written"));
  return measured;
}

}  // namespace snug
