// SPDX-License-Identifier: Apache-2.0
// The fields of a protocol buffer's message, one after the other; nothing is copied.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "snug/error.h"

namespace snug::text {

class ProtobufFields {
 public:
  ProtobufFields(std::string_view message, const std::string& where)
      : rest_(message), where_(where) {}

  /// Goes to the next field; false at the end. Throws Error{bad_data} for what is no message.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number = key >> 3;
    kind_ = static_cast<int>(key & 7);
    bytes = {};
    value = 0;
    if (kind_ == 0) {
      value = varint();
    } else if (kind_ == 1 || kind_ == 2 || kind_ == 5) {
      bytes = take(kind_ == 1 ? 8 : kind_ == 5 ? 4 : varint());
    } else {
      fail();
    }
    return true;
  }
  uint64_t number = 0;
  uint64_t value = 0;      // of a whole number
  std::string_view bytes;  // of everything else

  [[nodiscard]] std::string_view text() const {
    is_of(2);
    return bytes;
  }
  [[nodiscard]] bool flag() const { return is_of(0), value != 0; }
  [[nodiscard]] float number32() const {
    is_of(5);
    float read = 0;
    std::memcpy(&read, bytes.data(), sizeof read);
    return read;
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::bad_data, where_, "the file is no sentencepiece model",
                "get the file again");
  }

 private:
  void is_of(int kind) const {
    if (kind_ != kind) fail();
  }
  uint64_t varint() {
    uint64_t read = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      read |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return read;
    }
    fail();
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) fail();
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
  int kind_ = 0;
};

}  // namespace snug::text
