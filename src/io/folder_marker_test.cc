// SPDX-License-Identifier: Apache-2.0
#include "io/folder_marker.h"

#include <gtest/gtest.h>

#include "io/atomic_folder.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace snug::io {
namespace {

std::string make_folder(const TestFolder& root) {
  const std::string target = root / "last";
  AtomicFolder folder(target);
  folder.write("state", "step 3");
  write_file(folder.file("weights"), "0123456789");
  folder.commit();
  return target;
}

TEST(FolderMarker, text_reads_back) {
  const FolderFiles files{{"a", {.bytes = 3, .sha256 = std::string(64, 'e')}},
                          {"sub/b", {.bytes = 0, .sha256 = std::string(64, '0')}}};
  EXPECT_EQ(parse_marker(marker_text(files), "m"), files);
}

TEST(FolderMarker, a_changed_byte_a_cut_and_a_lost_file_are_named) {
  const TestFolder root;
  const std::string target = make_folder(root);
  EXPECT_EQ(check_folder(target), FolderCheck::by_hash);
  write_file(target + "/weights", "0123x56789");
  EXPECT_ERROR((void)check_folder(target), target + "/weights");
  EXPECT_ERROR(check_file_of_folder(target, "weights"), "remove " + target);
  EXPECT_NO_THROW(check_file_of_folder(target, "state"));
  EXPECT_NO_THROW(check_file_of_folder(target, "added by others"));
  write_file(target + "/weights", "012345678");
  EXPECT_ERROR((void)check_folder(target), "has 9 bytes, 10 were written");
  remove_all(target + "/weights");
  EXPECT_ERROR((void)check_folder(target), "is gone");
}

TEST(FolderMarker, what_would_be_read_must_be_named_and_what_others_put_there_need_not) {
  const TestFolder root;
  const std::string target = make_folder(root);
  for (const char* name : {".DS_Store", "README.md", "notes", "chart.png"})
    write_file(target + "/" + name, "x");
  make_folders(target + "/a.bin");
  EXPECT_EQ(check_folder(target), FolderCheck::by_hash);
  for (const char* name : {"model.safetensors", "config.json", "pytorch_model.bin", "vocab.txt",
                           "sentencepiece.bpe.model"}) {
    const std::string path = target + "/" + name;
    EXPECT_NO_THROW(check_file_of_folder(target, name));  // there is none
    write_file(path, "x");
    EXPECT_ERROR((void)check_folder(target), path);
    EXPECT_ERROR(check_file_of_folder(target, name), "remove " + target);
    remove_all(path);
  }
  EXPECT_EQ(check_folder(target), FolderCheck::by_hash);
}

TEST(FolderMarker, the_older_format_is_checked_by_size) {
  const TestFolder root;
  const std::string target = make_folder(root);
  write_file(target + "/" + kCompleteMarkerName, "6 state\n10 weights\n");
  EXPECT_EQ(check_folder(target), FolderCheck::by_size);
  write_file(target + "/weights", "01234567");
  EXPECT_ERROR((void)check_folder(target), "has 8 bytes");
  write_file(target + "/weights", "0123456789");
  write_file(target + "/config.json", "{}");
  EXPECT_ERROR((void)check_folder(target), target + "/config.json");
}

TEST(FolderMarker, what_is_no_marker_is_refused) {
  const std::string hash(64, 'a');
  const auto marker = [&](const std::string& format, const std::string& name,
                          const std::string& bytes, const std::string& sha256) {
    return R"({"format": )" + format + R"(, "files": {")" + name + R"(": {"bytes": )" + bytes +
           R"(, "sha256": ")" + sha256 + R"("}}})";
  };
  EXPECT_EQ(parse_marker(marker("2", "a", "1", hash), "m").size(), 1u);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("6 state"), std::string("6\n"),
        std::string("6 ../state\n"), std::string("99999999999999999999 a\n"),
        marker("3", "a", "1", hash), marker("2", "../a", "1", hash), marker("2", "/a", "1", hash),
        marker("2", "a", "-1", hash), marker("2", "a", "1", "abc"),
        marker("2", "a", "1", std::string(64, 'G'))}) {
    EXPECT_ERROR((void)parse_marker(text, "m"), "bad_data: [m");
  }
}

}  // namespace
}  // namespace snug::io
