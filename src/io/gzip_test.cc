// SPDX-License-Identifier: Apache-2.0
#include "io/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "io/test_folder.h"
#include "io/text_file.h"

namespace snug::io {
namespace {

std::string packed(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string unpacked(const std::string& path) {
  const File file = File::open_read(path);
  GzipReader reader;
  std::string text;
  std::string piece(1000, '\0');
  for (;;) {
    const int64_t got = reader.read(file, reinterpret_cast<std::byte*>(piece.data()), 1000);
    text.append(piece, 0, static_cast<size_t>(got));
    if (got < 1000) return text;
  }
}

// 200 kB that hardly shrink, so that there are several buffers of either kind.
std::string noise() {
  std::string text;
  uint32_t state = 1;
  while (text.size() < 200'000) {
    state = state * 1664525 + 1013904223;
    text.push_back(static_cast<char>(state >> 24));
  }
  return text;
}

TEST(Gzip, members_follow_one_another_and_zeros_behind_them_are_nothing) {
  const TestFolder folder;
  const std::string path = folder / "a.gz";
  write_file(path, packed(noise()) + packed("") + packed("end") + std::string(100'000, '\0'));
  EXPECT_EQ(unpacked(path), noise() + "end");
}

TEST(Gzip, a_cut_end_and_damage_are_named_by_their_offset) {
  const TestFolder folder;
  const std::string path = folder / "a.gz";
  const std::string whole = packed(noise());
  for (const size_t bytes : {size_t{5}, size_t{12}, whole.size() / 2, whole.size() - 1}) {
    write_file(path, whole.substr(0, bytes));
    EXPECT_ERROR((void)unpacked(path), "bad_data: [" + path +
                                           "] the archive is cut off: it ends at byte " +
                                           std::to_string(bytes));
  }
  std::string damaged = whole;
  damaged[whole.size() - 6] = static_cast<char>(damaged[whole.size() - 6] ^ 1);  // of the checksum
  write_file(path, damaged);
  EXPECT_ERROR((void)unpacked(path), "the archive is damaged at byte");
  write_file(path, whole + "and more");
  EXPECT_ERROR((void)unpacked(path),
               "the archive is damaged at byte " + std::to_string(whole.size() + 2));
}

TEST(Gzip, a_text_file_unpacks_it_only_where_it_is_asked_to) {
  const TestFolder folder;
  const std::string path = folder / "rows";
  write_file(path, packed("\xEF\xBB\xBFone\r\ntwo"));
  TextFile file(path, Gzip::is_unpacked);
  file.begin_text();
  std::string line;
  EXPECT_EQ(file.read_line(line, 100), TextFile::Line::ok);
  EXPECT_EQ(line, "one");
  EXPECT_EQ(file.read_line(line, 100), TextFile::Line::ok);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(file.read_line(line, 100), TextFile::Line::end);
  EXPECT_EQ(file.position(), file.total_bytes());
  TextFile other(path);
  EXPECT_ERROR(other.begin_text(), "the file is compressed");
}

}  // namespace
}  // namespace snug::io
