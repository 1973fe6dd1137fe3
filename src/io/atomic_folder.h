// SPDX-License-Identifier: Apache-2.0
// A folder that appears whole or not at all. Files are written into a temporary sibling; commit()
// forces each to the disk, writes the completeness marker (bytes and SHA-256 of each) last, and
// swaps the folder into place. A
// process killed at any instant leaves either the former complete folder or the new one;
// recover_folder() puts right what it left between two steps.
//
// Names of a target "out/last": "out/last.snug-new" (being written) and "out/last.snug-old" (about
// to be removed). One writer at a time: hold the FolderLock of the parent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "io/folder_marker.h"

namespace snug::io {

struct AtomicFolderOptions {
  /// Refuses at once if the disk has less free space than this.
  int64_t expected_bytes = 0;
  /// Called with the name of each step of commit() just before it; for tests that kill the process
  /// there.
  std::function<void(std::string_view step)> on_step = {};
  /// False: never use the atomic exchange of two folders, as on file systems that lack it.
  bool use_exchange = true;
};

class AtomicFolder {
 public:
  /// Recovers the target, then opens an empty temporary folder beside it. A target that exists, is
  /// not empty and carries no completeness marker is somebody else's: Error{bad_config}.
  explicit AtomicFolder(std::string target, AtomicFolderOptions options = {});
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  /// Without commit() the temporary folder is removed and the target stays as it was.
  ~AtomicFolder();

  [[nodiscard]] const std::string& target() const { return target_; }
  /// The temporary folder; valid until commit().
  [[nodiscard]] const std::string& path() const { return temporary_; }
  /// Where to write the file `name` of this folder.
  [[nodiscard]] std::string file(std::string_view name) const;
  /// Says the SHA-256 of a file that was hashed while it was written; commit() reads all others.
  void record(std::string_view name, std::string sha256);
  /// Writes a small file of this folder.
  void write(std::string_view name, std::string_view text);

  /// Makes the folder appear. On Error{io} (a full disk, say) the target is still what it was.
  void commit();

 private:
  void step(std::string_view name) const;
  void swap_into_place();

  std::string target_;
  std::string temporary_;
  std::map<std::string, std::string, std::less<>> hashes_;  // by name
  AtomicFolderOptions options_;
  bool is_committed_ = false;
};

/// Throws Error{bad_config} where something stands at the place that no commit made: it would be in
/// the way of the next one. An empty folder is not; a link is, even one to a complete folder, since
/// what it leads to may be on another disk, where nothing is exchanged with this one, and where no
/// lock of this run counts.
void require_place(const std::string& target);

/// True if the folder was committed: it exists and carries the completeness marker.
[[nodiscard]] bool is_complete(const std::string& folder);

/// Removes a committed folder. Killed at any instant it leaves the whole folder, or what
/// recover_folder() puts right: never half of one under its name.
void remove_complete_folder(const std::string& folder);

/// Puts right what a killed commit left: finishes the swap if the target is missing, restores the
/// former folder if that is the complete one, and removes temporaries. Returns is_complete(target).
bool recover_folder(const std::string& target);

}  // namespace snug::io
