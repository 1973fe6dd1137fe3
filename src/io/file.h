// SPDX-License-Identifier: Apache-2.0
// Files as RAII values, and one uniform error for everything that the operating system refuses:
// Error{io} with the path, the operation, the system's reason and a fix. Reads and writes loop
// until done; EINTR is not an error. Paths are plain strings, relative ones from the working
// directory. Nothing here maps memory: mapped pages count in the resident set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug::io {

/// Throws Error{io} "[path] cannot <operation>: <reason of error_number>" with a hint that fits the
/// reason. `needed_bytes` (>= 0) is named when the disk or a quota is full.
[[noreturn]] void throw_system_error(const std::string& path, std::string_view operation,
                                     int error_number, int64_t needed_bytes = -1);

/// An open file descriptor. Move-only; the destructor closes it and ignores errors, close() reports
/// them.
class File {
 public:
  File() = default;
  /// Takes over an open descriptor; `path` is for errors.
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// Opens a regular file for reading.
  [[nodiscard]] static File open_read(const std::string& path);
  /// Creates or empties a file for writing.
  [[nodiscard]] static File create(const std::string& path);
  /// Opens for reading and writing, keeps what is there; creates an empty file if there is none.
  [[nodiscard]] static File open_or_create(const std::string& path);
  /// Opens or creates a file whose writes go to its end.
  [[nodiscard]] static File append(const std::string& path);

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size_bytes() const;

  /// Reads exactly `bytes` at `offset`, or throws (a file that ends early is Error{bad_data}).
  void read_at(int64_t offset, std::byte* dst, int64_t bytes) const;
  /// Reads up to `bytes` at `offset`; less only at the end of the file.
  [[nodiscard]] int64_t read_some_at(int64_t offset, std::byte* dst, int64_t bytes) const;
  /// Writes all of it, or throws; the error names the bytes that did not fit. At most 4 MiB of what
  /// was written wait for the disk: such pages count in a cgroup's limit and cannot be given back.
  void write_all(const void* src, int64_t bytes);
  void write_all(std::string_view text);
  /// Writes all of it at `offset`.
  void write_at(int64_t offset, const void* src, int64_t bytes);
  void truncate(int64_t bytes);
  /// Forces data and metadata to the disk.
  void sync();
  /// Drops the file's clean pages from the page cache (they count in a cgroup's limit). Advice
  /// only, never fails.
  void release_cache(int64_t offset = 0, int64_t bytes = 0) const noexcept;
  /// Says that reads will not follow one another: reading ahead would waste the disk.
  void expect_random_reads() const noexcept;
  void close();

 private:
  /// Begins to write what came last to the disk, and waits for what came before.
  void bound_waiting_pages();

  int fd_ = -1;
  std::string path_;
  int64_t new_bytes_ = 0;                           // written, and not yet on their way
  int64_t waiting_offset_ = 0, waiting_bytes_ = 0;  // on their way to the disk
};

/// Returns the whole file; one larger than `max_bytes` is Error{bad_data}.
[[nodiscard]] std::string read_all(const std::string& path, int64_t max_bytes);
/// The same of a file that may be absent or unreadable: empty then.
[[nodiscard]] std::string read_all_if_any(const std::string& path, int64_t max_bytes);
/// Creates the file with this text and forces it to the disk. Not atomic: see replace_file and
/// AtomicFolder.
void write_file(const std::string& path, std::string_view text);
/// Replaces the file whole or not at all: temporary sibling, fsync, rename, fsync of the folder.
/// What is no plain file is written through.
void replace_file(const std::string& path, std::string_view text);
/// False of a device, a pipe and a link (/dev/stdout is one): a rename would put a file in its
/// place.
[[nodiscard]] bool is_replaceable(const std::string& path);
/// Copies in bounded chunks and forces the copy to the disk. Returns the SHA-256 of what was
/// written.
std::string copy_file(const std::string& from, const std::string& to);
/// Forces the folder's entries (creations, renames) to the disk.
void sync_folder(const std::string& path);

[[nodiscard]] int64_t bytes_of_file(const std::string& path);
/// False where nothing is there; any other failure (a disk's, a permission's) is Error{io}.
[[nodiscard]] bool file_exists(const std::string& path);
/// Whether a folder has this file, which may be absent. What stands at the name and is no file, nor
/// a link to one, is Error{io} that says what it is: it was meant to be read.
[[nodiscard]] bool has_file(const std::string& path);
[[nodiscard]] bool is_folder(const std::string& path);
/// A symbolic link whose target does not exist, or that leads back to itself.
[[nodiscard]] bool is_dangling(const std::string& path);
[[noreturn]] void throw_dangling(const std::string& path);
/// A symbolic link, wherever it leads.
[[nodiscard]] bool is_link(const std::string& path);
/// Links are not followed.
[[nodiscard]] bool anything_at(const std::string& path);
/// Creates the folder and its parents; one that exists is fine.
void make_folders(const std::string& path);
/// Throws Error{io} where this process may make no files in the folder.
void require_writable_folder(const std::string& path);
/// Creates a folder with a name of its own in $TMPDIR, or in /tmp.
[[nodiscard]] std::string make_temporary_folder();
/// A folder that belongs to this user, where nobody else may write: its files are what we wrote.
[[nodiscard]] bool is_own_folder(const std::string& path);
/// The path of a folder of this user's in $TMPDIR, or in /tmp, that need not be there.
[[nodiscard]] std::string own_temporary_folder();
/// Makes such a folder, or throws Error{io}; one that exists is fine if it is one.
void make_own_folder(const std::string& path);
/// Names in a folder, sorted, without "." and "..".
[[nodiscard]] std::vector<std::string> list_folder(const std::string& path);
/// Removes a file or a whole folder; nothing there is fine. Links are removed, never followed.
void remove_all(const std::string& path);
/// Whether what is written there stays in memory (tmpfs, ramfs): it counts in the control group.
[[nodiscard]] bool lies_in_memory(const std::string& path);
/// Bytes that an ordinary user can still write on the path's file system.
[[nodiscard]] int64_t free_disk_bytes(const std::string& path);
/// Throws Error{io} for `target` where its folder's disk has less free space.
void require_free_disk(const std::string& target, int64_t bytes);
/// The path from the root, with the working directory in front of a relative one.
[[nodiscard]] std::string absolute_path(const std::string& path);
/// "a/b" of "a/b/c" and "." of "c"; trailing slashes do not count.
[[nodiscard]] std::string parent_folder(const std::string& path);

}  // namespace snug::io
