// SPDX-License-Identifier: Apache-2.0
#include "io/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace snug::io {
namespace {

// ---- framing ----

constexpr uint32_t kCastagnoli = 0x82F63B78;  // reflected
constexpr uint32_t kMaskDelta = 0xA282EAD8;

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kCastagnoli : 0);
    table[i] = rest;
  }
  return table;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

// As TFRecord stores it: a CRC of bytes that hold a CRC would be weak.
std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + kMaskDelta);
}

// ---- protobuf: fields by number, as event.proto, summary.proto and tensor.proto say ----

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(uint32_t field, Wire wire) {
  return varint(field << 3 | static_cast<uint32_t>(wire));
}

std::string integer(uint32_t field, int64_t value) {
  return key(field, Wire::varint) + varint(static_cast<uint64_t>(value));
}
std::string real64(uint32_t field, double value) {
  return key(field, Wire::fixed64) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string real32(uint32_t field, float value) {
  return key(field, Wire::fixed32) + little_endian(std::bit_cast<uint32_t>(value));
}
std::string bytes(uint32_t field, std::string_view value) {
  return key(field, Wire::bytes) + varint(value.size()) + std::string(value);
}

std::string event(const EventTime& time) {
  return real64(1, time.wall_time) + (time.step != 0 ? integer(2, time.step) : std::string());
}
std::string file_version() { return bytes(3, "brain.Event:2"); }
std::string session_start() { return bytes(7, integer(1, 1)); }

std::string scalar_value(const Scalar& scalar) {
  return bytes(1, bytes(1, scalar.tag) + real32(2, static_cast<float>(scalar.value)));
}

// A list of one string, which the plugin "text" shows.
std::string text_value(std::string_view tag, std::string_view text) {
  constexpr int64_t kString = 7;  // DT_STRING
  const std::string shape = bytes(2, bytes(2, integer(1, 1)));
  const std::string tensor = integer(1, kString) + shape + bytes(8, text);
  const std::string metadata = bytes(1, bytes(1, "text"));
  return bytes(1, bytes(1, tag) + bytes(8, tensor) + bytes(9, metadata));
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0U;
  for (const char c : bytes)
    crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const std::string& path, const EventTime& begin) : file_(File::create(path)) {
  write_record(event({begin.wall_time, 0}) + file_version());
  write_record(event(begin) + session_start());
}

void EventFile::write(const EventTime& time, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    if (std::isfinite(scalar.value)) summary += scalar_value(scalar);
  }
  write_record(event(time) + bytes(5, summary));
}

void EventFile::write(const EventTime& time, std::string_view tag, std::string_view markdown) {
  write_record(event(time) + bytes(5, text_value(tag, markdown)));
}

void EventFile::write_record(std::string_view event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  file_.write_all(length + masked_crc(length) + std::string(event) + masked_crc(event));
}

std::string next_event_file(const std::string& folder, int64_t wall_seconds) {
  make_folders(folder);
  int64_t seconds = wall_seconds;
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t taken = 0;
    const char* digits = name.data() + kPrefix.size();
    const auto [end, status] = std::from_chars(digits, name.data() + name.size(), taken);
    if (status == std::errc() && taken < wall_seconds + (int64_t{1} << 32))
      seconds = std::max(seconds, taken + 1);
  }
  return folder + "/" + std::string(kPrefix) + std::to_string(seconds) + ".snug";
}

}  // namespace snug::io
