// SPDX-License-Identifier: Apache-2.0
#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

#include "snug/error.h"

namespace snug::io {
namespace {

constexpr size_t kInputBytes = size_t{64} << 10;
constexpr int kGzipOnly = 15 + 16;  // the largest window; neither zlib's own format nor none

}  // namespace

bool is_gzip(const File& file) {
  std::array<std::byte, 2> head{};
  return file.read_some_at(0, head.data(), 2) == 2 && head[0] == std::byte{0x1F} &&
         head[1] == std::byte{0x8B};
}

struct GzipReader::State {
  State() {
    if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~State() { inflateEnd(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const File* file = nullptr;  // of the call
  z_stream stream{};
  int64_t offset = 0;  // in the file, of the end of `input`
  bool is_between_members = false;
  std::array<std::byte, kInputBytes> input;

  [[nodiscard]] int64_t position() const { return offset - int64_t{stream.avail_in}; }

  /// False at the end of the file.
  bool fill() {
    if (stream.avail_in > 0) return true;
    const int64_t got = file->read_some_at(offset, input.data(), static_cast<int64_t>(kInputBytes));
    file->release_cache(offset, got);
    offset += got;
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw Error(ErrorCode::bad_data, file->path(), what, hint);
  }

  /// Skips zeros, which tapes and blocks are filled with; false where nothing follows.
  bool begin_next_member() {
    while (fill()) {
      if (*stream.next_in != 0) {
        if (inflateReset(&stream) != Z_OK) throw std::bad_alloc();
        is_between_members = false;
        return true;
      }
      ++stream.next_in;
      --stream.avail_in;
    }
    return false;
  }

  void inflate_some() {
    const int64_t before = position();
    if (!fill())
      fail("the archive is cut off: it ends at byte " + std::to_string(before) +
               ", inside of a member",
           "copy or download it again (gzip -t checks it)");
    const int status = inflate(&stream, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_STREAM_END) {
      is_between_members = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail("the archive is damaged at byte " + std::to_string(position()),
           "copy or download it again (gzip -t checks it)");
    }
  }
};

GzipReader::GzipReader() : state_(std::make_unique<State>()) {}
GzipReader::~GzipReader() = default;
GzipReader::GzipReader(GzipReader&&) noexcept = default;
GzipReader& GzipReader::operator=(GzipReader&&) noexcept = default;

int64_t GzipReader::position() const { return state_->position(); }

int64_t GzipReader::read(const File& file, std::byte* dst, int64_t bytes) {
  State& state = *state_;
  state.file = &file;
  state.stream.next_out = reinterpret_cast<Bytef*>(dst);
  state.stream.avail_out = static_cast<uInt>(bytes);
  while (state.stream.avail_out > 0) {
    if (state.is_between_members && !state.begin_next_member()) break;
    state.inflate_some();
  }
  return bytes - int64_t{state.stream.avail_out};
}

}  // namespace snug::io
