// SPDX-License-Identifier: Apache-2.0
#include "io/stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "io/file_pattern.h"
#include "io/test_folder.h"

namespace snug::io {
namespace {

std::string copied(const std::string& path, const std::string& folder) {
  return copy_stream(
      path, folder, [](const std::string&) { return ".rows"; }, [](int64_t) {});
}

TEST(Stream, a_pipe_is_copied_to_its_end_and_equal_ones_are_one_file) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(is_stream(pipe));
  std::string names[2];
  const std::string text(1'000'000, 'x');
  for (std::string& name : names) {
    std::thread writer([&] {
      File out(::open(pipe.c_str(), O_WRONLY), pipe);
      out.write_all(text);
    });
    name = copied(pipe, folder.path());
    writer.join();
    EXPECT_EQ(read_all(name, 2'000'000), text);
  }
  EXPECT_EQ(names[0], names[1]);
  EXPECT_TRUE(names[0].ends_with(".rows"));
  EXPECT_EQ(list_folder(folder.path()).size(), 2u);
}

TEST(Stream, without_a_byte_or_a_writer_it_is_no_rows) {
  const TestFolder folder;
  EXPECT_TRUE(is_stream("/dev/null"));
  EXPECT_FALSE(is_stream(folder.path()));
  EXPECT_FALSE(is_stream(folder / "absent"));
  EXPECT_ERROR((void)copied("/dev/null", folder.path()), "bad_data: [/dev/null] not a byte came");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  int heard = 0;
  const auto stop = [&](int64_t) {
    if (++heard == 3) throw Error(ErrorCode::cancelled, pipe, "stopped on request");
  };
  EXPECT_ERROR((void)copy_stream(
                   pipe, folder.path(), [](const std::string&) { return ""; }, stop),
               "cancelled");
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{"pipe"});
}

TEST(FilePattern, names_match_as_in_a_shell) {
  EXPECT_TRUE(matches_pattern("part-10.jsonl", "part-*.jsonl"));
  EXPECT_TRUE(matches_pattern("aXbXc", "a*b*c"));
  EXPECT_FALSE(matches_pattern("aXbXd", "a*b*c"));
  EXPECT_TRUE(matches_pattern("a7", "a[0-9]"));
  EXPECT_FALSE(matches_pattern("ax", "a[0-9]"));
  EXPECT_TRUE(matches_pattern("ax", "a[!0-9]"));
  EXPECT_TRUE(matches_pattern("a]", "a[]]"));
  EXPECT_TRUE(matches_pattern("a[", "a["));
  EXPECT_TRUE(matches_pattern("ab", "a?"));
  EXPECT_FALSE(matches_pattern("a", "a?"));
  EXPECT_FALSE(matches_pattern(".a", "*"));
  EXPECT_TRUE(matches_pattern(".a", ".*"));
  EXPECT_FALSE(matches_pattern(std::string(5000, 'a'), std::string(50, '*') + "b"));
}

TEST(FilePattern, files_come_by_their_bytes_and_folders_are_none) {
  const TestFolder folder;
  make_folders(folder / "a.x/deep");
  make_folders(folder / "b.x");
  for (const char* name : {"a.x/10.t", "a.x/9.t", "b.x/B.t", "b.x/a.t", "b.x/c.u"})
    write_file(folder / name, "");
  EXPECT_EQ(files_like(folder / "*.x/*.t"),
            (std::vector<std::string>{folder / "a.x/10.t", folder / "a.x/9.t", folder / "b.x/B.t",
                                      folder / "b.x/a.t"}));
  EXPECT_TRUE(files_like(folder / "a.x/d*").empty());
  EXPECT_TRUE(files_like(folder / "none/*.t").empty());
}

}  // namespace
}  // namespace snug::io
