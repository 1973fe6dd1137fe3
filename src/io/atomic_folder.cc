// SPDX-License-Identifier: Apache-2.0
// The steps of a commit and, for every instant between two of them, the way back to one complete
// folder.
//
//   state on the disk (T target, N ".snug-new", O ".snug-old")      recovery
//   T old, N without marker                                         remove N
//   T old, N complete (before the exchange, or after: then N is     remove N
//     the former one)
//   no T, N complete (first commit, or between the two renames)     N becomes T, remove O
//   no T, N without marker, O complete (cannot come from a commit,  O becomes T, remove N
//     but costs one line)
//   T complete, O (after the two renames)                           remove O
//   no T, O complete (a removal that was cut short)                 O becomes T
//   no T, O without marker (the same, a little later)               remove O
#include "io/atomic_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "io/file.h"
#include "io/file_hash.h"
#include "io/sha256.h"
#include "snug/error.h"

namespace snug::io {
namespace {

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string new_name(const std::string& target) { return target + ".snug-new"; }
std::string old_name(const std::string& target) { return target + ".snug-old"; }

void rename_or_throw(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw_system_error(to, "move " + from + " there", errno);
}

// The marker goes first, so a removal that is cut short cannot look complete. What a link leads to
// is somebody else's.
void remove_folder(const std::string& path) {
  if (!anything_at(path)) return;
  if (!is_link(path)) remove_all(path + "/" + kCompleteMarkerName);
  remove_all(path);
}

bool is_ours(const std::string& folder) { return !is_link(folder) && is_complete(folder); }

// Forces every file below `folder` to the disk, then the folders, and lists the files; those whose
// hash is not known yet are read.
void sync_tree(const std::string& folder, const std::string& prefix,
               const std::map<std::string, std::string, std::less<>>& hashes, FolderFiles& files) {
  for (const std::string& name : list_folder(folder)) {
    const std::string path = folder + "/" + name;
    if (is_folder(path)) {
      sync_tree(path, prefix + name + "/", hashes, files);
    } else {
      File file = File::open_read(path);
      file.sync();
      const auto known = hashes.find(prefix + name);
      files[prefix + name] = {
          .bytes = file.size_bytes(),
          .sha256 = known != hashes.end() ? known->second : sha256_of_file(path)};
      file.release_cache();
    }
  }
  sync_folder(folder);
}

// Swaps two folders in one step. False where the kernel or the file system cannot.
bool exchange_folders(const std::string& a, const std::string& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  throw_system_error(b, "exchange it with " + a, errno);
}

}  // namespace

bool is_complete(const std::string& folder) {
  return is_folder(folder) && has_file(folder + "/" + kCompleteMarkerName);
}

bool recover_folder(const std::string& target) {
  const std::string place = without_trailing_slashes(target);
  const std::string fresh = new_name(place);
  const std::string former = old_name(place);
  if (!anything_at(place)) {
    if (is_ours(fresh)) {
      rename_or_throw(fresh, place);
      sync_folder(parent_folder(place));
    } else if (is_ours(former)) {
      rename_or_throw(former, place);
      sync_folder(parent_folder(place));
    }
  }
  remove_folder(fresh);
  remove_folder(former);
  return is_complete(place);
}

void remove_complete_folder(const std::string& folder) {
  const std::string place = without_trailing_slashes(folder);
  remove_folder(old_name(place));  // of an earlier removal that was cut short
  rename_or_throw(place, old_name(place));
  remove_folder(old_name(place));
}

void require_place(const std::string& target) {
  if (is_link(target))
    throw Error(ErrorCode::bad_config, target,
                "a folder would be written here, and a symbolic link stands in its place: on "
                "another disk the folder could not appear whole or not at all",
                "put the folder itself here, or let the folder around it, such as output_dir, be "
                "on the other disk (that may be a link)");
  if (is_complete(target) || !anything_at(target)) return;
  if (is_folder(target) && list_folder(target).empty()) return;
  throw Error(ErrorCode::bad_config, target,
              "this place is taken by something that Snug did not complete (it has no " +
                  std::string(kCompleteMarkerName) + ")",
              "move it away or choose another place");
}

AtomicFolder::AtomicFolder(std::string target, AtomicFolderOptions options)
    : target_(without_trailing_slashes(std::move(target))),
      temporary_(new_name(target_)),
      options_(std::move(options)) {
  (void)recover_folder(target_);
  require_place(target_);
  const std::string parent = parent_folder(target_);
  make_folders(parent);
  require_free_disk(target_, options_.expected_bytes);
  make_folders(temporary_);
}

AtomicFolder::~AtomicFolder() {
  if (is_committed_) return;
  try {
    remove_folder(temporary_);
  } catch (const Error&) {
    // Nothing can be reported from here; the next recover_folder removes it.
  }
}

std::string AtomicFolder::file(std::string_view name) const {
  return temporary_ + "/" + std::string(name);
}

void AtomicFolder::record(std::string_view name, std::string sha256) {
  hashes_[std::string(name)] = std::move(sha256);
}

void AtomicFolder::write(std::string_view name, std::string_view text) {
  write_file(file(name), text);
  record(name, sha256_of_bytes(text.data(), static_cast<int64_t>(text.size())));
}

void AtomicFolder::step(std::string_view name) const {
  if (options_.on_step) options_.on_step(name);
}

void AtomicFolder::commit() {
  SNUG_CHECK(!is_committed_, "commit() runs once");
  step("sync files");
  FolderFiles files;
  sync_tree(temporary_, "", hashes_, files);
  step("write marker");
  replace_file(file(kCompleteMarkerName), marker_text(files));
  step("sync folder");
  sync_folder(temporary_);
  sync_folder(parent_folder(target_));
  swap_into_place();
}

void AtomicFolder::swap_into_place() {
  const std::string parent = parent_folder(target_);
  if (!is_complete(target_)) {
    step("move into place");
    rename_or_throw(temporary_, target_);  // replaces nothing, or an empty folder
    is_committed_ = true;
    step("sync parent");
    sync_folder(parent);
    step("done");
    return;
  }
  step("exchange");
  if (options_.use_exchange && exchange_folders(temporary_, target_)) {
    is_committed_ = true;
    step("sync parent");
    sync_folder(parent);
    step("remove former");
    remove_folder(temporary_);
    step("done");
    return;
  }
  const std::string former = old_name(target_);
  step("move former aside");
  rename_or_throw(target_, former);
  step("move into place");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error_number = errno;
    rename_or_throw(former, target_);
    throw_system_error(target_, "move " + temporary_ + " there", error_number);
  }
  is_committed_ = true;
  step("sync parent");
  sync_folder(parent);
  step("remove former");
  remove_folder(former);
  step("done");
}

}  // namespace snug::io
