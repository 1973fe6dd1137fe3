// SPDX-License-Identifier: Apache-2.0
// For tests: an archive of stored entries around any bytes, as torch.save writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug::io {

struct ZipToMake {
  std::vector<std::pair<std::string, std::string>> entries;  // name, bytes
  bool has_64_bit_end = true;                                // as torch writes it always
  bool has_64_bit_entries = false;                           // where an entry passes 4 GiB
  uint16_t method = 0;
  uint16_t flags = 0x0808;
};

template <class T>
void put_number(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string make_zip(const ZipToMake& zip) {
  constexpr uint64_t kAlignment = 64;
  std::string out;
  std::string directory;
  for (const auto& entry : zip.entries) {
    const std::string& name = entry.first;
    const std::string& bytes = entry.second;
    const uint64_t header = out.size();
    const auto size = static_cast<uint32_t>(bytes.size());
    const uint64_t unpadded = header + 30 + name.size() + 4;
    const auto padding = static_cast<uint16_t>((kAlignment - unpadded % kAlignment) % kAlignment);
    const auto put_shared = [&](std::string& to, uint32_t stored) {
      put_number<uint16_t>(to, 0);  // version
      put_number<uint16_t>(to, zip.flags);
      put_number<uint16_t>(to, zip.method);
      put_number<uint32_t>(to, 0);  // time, date
      put_number<uint32_t>(to, 0);  // checksum: nobody compares it
      put_number<uint32_t>(to, stored);
      put_number<uint32_t>(to, stored);
      put_number<uint16_t>(to, static_cast<uint16_t>(name.size()));
    };
    out += "PK\3\4";
    put_shared(out, 0);
    put_number<uint16_t>(out, static_cast<uint16_t>(padding + 4));
    out += name + "FB";
    put_number<uint16_t>(out, padding);
    out += std::string(padding, 'Z') + bytes;
    out += "PK\7\10";
    put_number<uint32_t>(out, 0);
    put_number<uint32_t>(out, size);
    put_number<uint32_t>(out, size);

    const bool wide = zip.has_64_bit_entries;
    directory += "PK\1\2";
    put_number<uint16_t>(directory, 0);
    put_shared(directory, wide ? 0xffffffff : size);
    put_number<uint16_t>(directory, wide ? 28 : 0);
    directory += std::string(10, '\0');  // comment, disk, attributes
    put_number<uint32_t>(directory, wide ? 0xffffffff : static_cast<uint32_t>(header));
    directory += name;
    if (!wide) continue;
    put_number<uint16_t>(directory, 1);
    put_number<uint16_t>(directory, 24);
    put_number<uint64_t>(directory, size);
    put_number<uint64_t>(directory, size);
    put_number<uint64_t>(directory, header);
  }
  const uint64_t begin = out.size();
  const uint64_t bytes = directory.size();
  const uint64_t count = zip.entries.size();
  out += directory;
  if (zip.has_64_bit_end) {
    const uint64_t end = out.size();
    out += "PK\6\6";
    put_number<uint64_t>(out, 44);
    put_number<uint32_t>(out, 0x002d002d);
    put_number<uint64_t>(out, 0);  // disks
    put_number<uint64_t>(out, count);
    put_number<uint64_t>(out, count);
    put_number<uint64_t>(out, bytes);
    put_number<uint64_t>(out, begin);
    out += "PK\6\7";
    put_number<uint32_t>(out, 0);
    put_number<uint64_t>(out, end);
    put_number<uint32_t>(out, 1);
  }
  out += "PK\5\6";
  put_number<uint32_t>(out, 0);
  put_number<uint16_t>(out, static_cast<uint16_t>(count));
  put_number<uint16_t>(out, static_cast<uint16_t>(count));
  put_number<uint32_t>(out, static_cast<uint32_t>(bytes));
  put_number<uint32_t>(out, static_cast<uint32_t>(begin));
  put_number<uint16_t>(out, 0);  // comment
  return out;
}

}  // namespace snug::io
