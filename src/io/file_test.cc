// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "io/file_hash.h"
#include "io/lock.h"
#include "io/nearest.h"
#include "io/sha256.h"
#include "io/test_folder.h"

namespace snug::io {
namespace {

TEST(File, text_round_trips_and_replaces_whole) {
  const TestFolder folder;
  write_file(folder / "a", "one");
  EXPECT_EQ(read_all(folder / "a", 3), "one");
  replace_file(folder / "a", std::string("t\0o", 3));
  EXPECT_EQ(read_all(folder / "a", 100), std::string("t\0o", 3));
  copy_file(folder / "a", folder / "b");
  EXPECT_EQ(read_all(folder / "b", 100), std::string("t\0o", 3));
  EXPECT_EQ(list_folder(folder.path()), (std::vector<std::string>{"a", "b"}));
}

TEST(File, what_waits_for_the_disk_is_bounded) {
  const TestFolder folder;
  struct statfs system {};
  ASSERT_EQ(::statfs(folder.path().c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "a file system in memory keeps all pages";
  const size_t bytes = 32 << 20;
  const std::string text(bytes, 'x');
  File file = File::create(folder / "large");
  file.write_all(text);
  file.close();
  const File written = File::open_read(folder / "large");
  void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, written.fd(), 0);
  ASSERT_NE(map, MAP_FAILED);
  std::vector<unsigned char> pages(bytes / 4096);
  ASSERT_EQ(::mincore(map, bytes, pages.data()), 0);
  const auto is_there = [](unsigned char page) { return (page & 1) != 0; };
  EXPECT_LE(std::count_if(pages.begin(), pages.end(), is_there) * 4096, 8 << 20);
  ::munmap(map, bytes);
  const std::string whole = read_all(folder / "large", 64 << 20);
  EXPECT_EQ(whole, text);
  EXPECT_LE(whole.capacity(), text.size() + 4096);  // whoever budgets for it counts it once
}

TEST(File, positions_append_and_truncate) {
  const TestFolder folder;
  {
    File file = File::create(folder / "a");
    file.write_all("abcdef");
    file.write_at(2, "XY", 2);
    file.truncate(5);
    file.close();
  }
  File more = File::append(folder / "a");
  more.write_all("!");
  more.close();
  EXPECT_EQ(read_all(folder / "a", 100), "abXYe!");
  std::byte two[2];
  File::open_read(folder / "a").read_at(2, two, 2);
  EXPECT_EQ(static_cast<char>(two[1]), 'Y');
  EXPECT_ERROR(File::open_read(folder / "a").read_at(5, two, 2),
               "bad_data: [" + folder.path() + "/a] the file ends 1 bytes too early");
}

TEST(File, errors_name_path_operation_and_reason) {
  const TestFolder folder;
  EXPECT_ERROR((void)File::open_read(folder / "none"),
               "io: [" + folder.path() + "/none] cannot read: No such file");
  EXPECT_ERROR((void)File::open_read(folder.path()),
               "Is a directory\nhint: this is a folder: give a file");
  EXPECT_ERROR((void)File::open_read("/dev/null"), "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR((void)File::open_read(folder / "pipe"), "not a regular file");
  EXPECT_ERROR(write_file(folder / "no/such", "x"), "cannot create: No such file");
  EXPECT_ERROR((void)read_all(folder / "none", 9), "cannot read");
  write_file(folder / "ten", "0123456789");
  EXPECT_ERROR((void)read_all(folder / "ten", 9), "bad_data");
  EXPECT_ERROR(make_folders(folder / "ten/x"), "io: ");
}

TEST(File, a_link_to_nothing_is_called_that) {
  const TestFolder folder;
  const std::string link = folder / "link";
  ASSERT_EQ(::symlink("nowhere", link.c_str()), 0);
  const char* text = "is a symbolic link to 'nowhere', which does not exist\nhint: create what";
  EXPECT_ERROR(make_folders(link), text);
  EXPECT_ERROR(make_folders(link + "/below"), text);
  EXPECT_ERROR((void)read_all(link, 10), text);
}

TEST(File, links_that_lead_back_to_one_another_are_called_that) {
  const TestFolder folder;
  const std::string link = folder / "link";
  const std::string other = folder / "other";
  ASSERT_EQ(::symlink("other", link.c_str()), 0);
  ASSERT_EQ(::symlink("link", other.c_str()), 0);
  const char* text =
      "is a symbolic link to 'other', from where links lead back to it\nhint: remove";
  EXPECT_ERROR(make_folders(link), text);
  EXPECT_ERROR((void)read_all(link, 10), text);
  EXPECT_ERROR(make_folders(link + "/below"), "hint: links of the path lead back to one another");
}

TEST(File, a_file_that_may_be_absent_is_a_file_where_it_is_there) {
  const TestFolder folder;
  EXPECT_FALSE(has_file(folder / "absent"));
  EXPECT_FALSE(has_file(folder / "absent/below"));
  write_file(folder / "file", "text");
  ASSERT_EQ(::symlink("file", (folder / "link").c_str()), 0);
  EXPECT_TRUE(has_file(folder / "file"));
  EXPECT_TRUE(has_file(folder / "link"));
  ASSERT_EQ(::symlink("nowhere", (folder / "dangling").c_str()), 0);
  ASSERT_EQ(::symlink("loop", (folder / "loop").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR((void)has_file(folder / "dangling"), "'nowhere', which does not exist");
  EXPECT_ERROR((void)has_file(folder / "loop"), "links lead back to it");
  EXPECT_ERROR((void)has_file(folder / "pipe"), "is not a regular file");
  EXPECT_ERROR((void)has_file(folder.path()), "is a folder, not a file");
}

TEST(File, a_full_disk_names_the_bytes_that_do_not_fit) {
  File full = File::append("/dev/full");
  EXPECT_ERROR(full.write_all("12345"),
               "cannot write: No space left on device (5 bytes more are needed here)\nhint: free "
               "some space");
}

TEST(File, proc_files_without_a_size_are_read_whole) {
  EXPECT_NE(read_all("/proc/self/status", 1 << 20).find("VmRSS"), std::string::npos);
  EXPECT_ERROR((void)read_all("/proc/self/status", 10), "bad_data");
}

TEST(Paths, parents_and_nested_folders) {
  EXPECT_EQ(parent_folder("a/b/c"), "a/b");
  EXPECT_EQ(parent_folder("a/b/"), "a");
  EXPECT_EQ(parent_folder("c"), ".");
  EXPECT_EQ(parent_folder("/c"), "/");
  EXPECT_EQ(parent_folder("/"), "/");
  EXPECT_EQ(parent_folder(""), ".");
  const TestFolder folder;
  make_folders(folder / "x/y/z");
  make_folders(folder / "x/y/z");
  EXPECT_TRUE(is_folder(folder / "x/y/z"));
  ASSERT_EQ(::symlink(folder.path().c_str(), (folder / "x/link").c_str()), 0);
  write_file(folder / "kept", "");
  remove_all(folder / "x");
  EXPECT_FALSE(is_folder(folder / "x"));
  EXPECT_TRUE(file_exists(folder / "kept"));  // the link was removed, not followed
  remove_all(folder / "x");
  EXPECT_GT(free_disk_bytes(folder.path()), 0);
}

// FIPS 180-2 examples.
TEST(Sha256, known_answers_match) {
  EXPECT_EQ(sha256_of_bytes("abc", 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_bytes("", 0),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const TestFolder folder;
  const std::string million(1'000'000, 'a');
  write_file(folder / "a", million);
  EXPECT_EQ(sha256_of_file(folder / "a"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Sha256 parts;
  parts.update("a", 1);
  parts.update("bc", 2);
  EXPECT_EQ(parts.finish(), sha256_of_bytes("abc", 3));
  EXPECT_EQ(parts.finish(), sha256_of_bytes("", 0));
}

TEST(Nearest, finds_slips_and_nothing_far) {
  const std::vector<std::string> names = {"train_file", "seed", "learning_rate"};
  EXPECT_EQ(nearest_name("trian_file", names), "train_file");
  EXPECT_EQ(nearest_name("learningrate", names), "learning_rate");
  EXPECT_EQ(nearest_name("sed", names), "seed");
  EXPECT_EQ(nearest_name("momentum", names), "");
  EXPECT_EQ(nearest_name("", names), "");
}

TEST(File, a_folder_of_ones_own_is_one_that_nobody_else_may_write_to) {
  const TestFolder folder;
  const std::string own = folder / "own";
  EXPECT_FALSE(is_own_folder(own));
  make_own_folder(own);
  make_own_folder(own);
  EXPECT_TRUE(is_own_folder(own));
  ASSERT_EQ(::chmod(own.c_str(), 0777), 0);
  EXPECT_ERROR(make_own_folder(own), "io: [" + own + "] it is no folder that this user alone");
  ASSERT_EQ(::symlink(folder.path().c_str(), (folder / "link").c_str()), 0);
  EXPECT_FALSE(is_own_folder(folder / "link"));
  require_writable_folder(folder.path());
  EXPECT_EQ(list_folder(folder.path()), (std::vector<std::string>{"link", "own"}));
  EXPECT_ERROR(require_writable_folder("/proc"), "io: [/proc] cannot write there: ");
}

TEST(FolderLock, without_flock_a_file_names_the_owner_and_goes_with_it) {
  const TestFolder folder;
  const std::string owner_file = folder / kLockFileName + ".owner";
  const auto locked = [&] { return FolderLock(folder.path(), false); };
  std::string own;
  {
    const FolderLock lock = locked();
    EXPECT_TRUE(lock.is_held());
    EXPECT_NE(lock.notice().find(owner_file + " keeps other runs out"), std::string::npos);
    own = read_all(owner_file, 1000);
    EXPECT_TRUE(own.starts_with(std::to_string(::getpid()) + " ")) << own;
    EXPECT_ERROR(locked(), "bad_config: [" + folder.path() +
                               "] the folder is in use by another run (process " +
                               std::to_string(::getpid()) + " on ");
  }
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{kLockFileName});
  EXPECT_EQ(FolderLock(folder.path()).notice(), "");
  // A number that another process has by now; then what cannot be told.
  const size_t start = own.find(' ') + 1;
  const size_t rest = own.find(' ', start);
  write_file(owner_file, own.substr(0, start) + "1" + own.substr(rest));
  EXPECT_TRUE(locked().is_held());
  for (const std::string& other : {std::string("1 1 another-boot pid:[1] far"), std::string()}) {
    write_file(owner_file, other);
    EXPECT_ERROR(locked(), "in use by another run (");
    EXPECT_ERROR(locked(), "remove " + owner_file);
    EXPECT_EQ(read_all(owner_file, 1000), other);
  }
  EXPECT_EQ(list_folder(folder.path()).size(), 2U);
}

// Both ways of locking: a process that is forked meanwhile, and lives on, has no part in it.
void a_forked_process_keeps_no_lock(bool uses_flock) {
  const TestFolder folder;
  std::optional<FolderLock> lock(std::in_place, folder.path(), uses_flock);
  int wait[2];
  ASSERT_EQ(::pipe(wait), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char end = 0;
    ::close(wait[1]);
    (void)!::read(wait[0], &end, 1);
    lock.reset();  // it is not the child's to give back
    ::_exit(0);
  }
  ::close(wait[0]);
  EXPECT_ERROR(FolderLock(folder.path(), uses_flock), "in use by another run");
  lock.reset();
  lock.emplace(folder.path(), uses_flock);
  EXPECT_TRUE(lock->is_held());
  ::close(wait[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_ERROR(FolderLock(folder.path(), uses_flock), "in use by another run");
}

TEST(FolderLock, a_forked_process_keeps_none) {
  a_forked_process_keeps_no_lock(true);
  a_forked_process_keeps_no_lock(false);
}

// Both ways of locking: what a killed owner held is free.
void second_owner_is_refused_until_the_first_is_killed(bool uses_flock) {
  const TestFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path(), uses_flock);
    const char done = lock.is_held() ? 'y' : 'n';
    if (::write(ready[1], &done, 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  ASSERT_EQ(done, 'y');
  EXPECT_ERROR(FolderLock(folder.path(), uses_flock),
               "bad_config: [" + folder.path() + "] the folder is in use by another run (process " +
                   std::to_string(child) + (uses_flock ? ")" : " on "));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  {
    const FolderLock lock(folder.path(), uses_flock);
    EXPECT_TRUE(lock.is_held());
    EXPECT_EQ(read_all(folder / kLockFileName, 100), std::to_string(::getpid()) + "\n");
    // also within one process
    EXPECT_ERROR(FolderLock(folder.path(), uses_flock), "in use by another run");
  }
  EXPECT_TRUE(FolderLock(folder.path(), uses_flock).is_held());
  EXPECT_ERROR(FolderLock(folder / "none", uses_flock), "io: ");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FolderLock, a_second_owner_is_refused_by_pid_until_the_first_is_killed) {
  second_owner_is_refused_until_the_first_is_killed(true);
  second_owner_is_refused_until_the_first_is_killed(false);
}

}  // namespace
}  // namespace snug::io
