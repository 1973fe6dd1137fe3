// SPDX-License-Identifier: Apache-2.0
#include "io/zip.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "io/json_tree.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr int64_t kMaxDirectoryBytes = int64_t{16} << 20;

// Sizes and signatures of APPNOTE.TXT.
constexpr int64_t kEndBytes = 22;
constexpr int64_t kEnd64LocatorBytes = 20;
constexpr int64_t kEnd64Bytes = 56;
constexpr int64_t kCentralBytes = 46;
constexpr int64_t kLocalBytes = 30;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kCentral = 0x02014b50;
constexpr uint32_t kLocal = 0x04034b50;
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kIsEncrypted = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // "the field stands in the 64-bit record"

[[noreturn]] void refuse(const File& file, const std::string& what) {
  throw Error(ErrorCode::bad_data, file.path(), "not a readable archive of torch.save: " + what,
              "the file is truncated, damaged or of another kind: get or save it again");
}

/// The entry, as errors call it.
std::string shown(const std::string& name) { return "entry " + quote_json(clip_text(name, 200)); }

/// A number of a record, lowest byte first.
template <class T>
T field(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string bytes_at(const File& file, int64_t offset, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  file.read_at(offset, reinterpret_cast<std::byte*>(text.data()), bytes);
  return text;
}

struct Place {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

/// Where the directory lies: it ends where the record that says so begins.
Place place_of_directory(const File& file) {
  const int64_t end = file.size_bytes() - kEndBytes;
  if (end < 0) refuse(file, "it has only " + std::to_string(end + kEndBytes) + " bytes");
  const std::string record = bytes_at(file, end, kEndBytes);
  if (field<uint32_t>(record, 0) != kEnd)
    refuse(file, "its last " + std::to_string(kEndBytes) + " bytes are no end of a directory");
  Place place{.begin = field<uint32_t>(record, 16),
              .bytes = field<uint32_t>(record, 12),
              .entries = field<uint16_t>(record, 10)};
  bool is_on_one_disk = field<uint16_t>(record, 4) == 0 && field<uint16_t>(record, 6) == 0;
  auto own_begin = static_cast<uint64_t>(end);
  const int64_t locator_begin = end - kEnd64LocatorBytes;
  const std::string locator =
      locator_begin < 0 ? "" : bytes_at(file, locator_begin, kEnd64LocatorBytes);
  if (!locator.empty() && field<uint32_t>(locator, 0) == kEnd64Locator) {
    const auto begin = field<uint64_t>(locator, 8);
    if (locator_begin < kEnd64Bytes || begin != static_cast<uint64_t>(locator_begin - kEnd64Bytes))
      refuse(file, "its 64-bit end is not where its locator says");
    const std::string wide = bytes_at(file, static_cast<int64_t>(begin), kEnd64Bytes);
    if (field<uint32_t>(wide, 0) != kEnd64) refuse(file, "its 64-bit end has another signature");
    is_on_one_disk &= field<uint32_t>(wide, 16) == 0 && field<uint32_t>(wide, 20) == 0;
    place = {.begin = field<uint64_t>(wide, 48),
             .bytes = field<uint64_t>(wide, 40),
             .entries = field<uint64_t>(wide, 32)};
    own_begin = begin;
  }
  if (!is_on_one_disk) refuse(file, "it is one of several disks");
  if (place.bytes > kMaxDirectoryBytes)
    refuse(file, "its directory has " + std::to_string(place.bytes) + " bytes, more than " +
                     std::to_string(kMaxDirectoryBytes));
  if (place.begin > own_begin || place.begin + place.bytes != own_begin)
    refuse(file, "its directory does not end where its end begins");
  return place;
}

/// One entry of the directory, and where its local header lies.
struct Central {
  std::string name;
  uint64_t header = 0;
  uint64_t bytes = 0;
};

/// The 64-bit values of an entry, in this order, of those fields that have no room for theirs.
void widen(const std::string& extra, uint64_t& full, uint64_t& packed, uint64_t& header) {
  for (size_t at = 0; at + 4 <= extra.size();) {
    const size_t begin = at + 4;
    const size_t end = begin + field<uint16_t>(extra, at + 2);
    if (end > extra.size()) return;
    if (field<uint16_t>(extra, at) == kExtra64) {
      size_t next = begin;
      for (uint64_t* value : {&full, &packed, &header}) {
        if (*value != kIn64 || next + 8 > end) continue;
        *value = field<uint64_t>(extra, next);
        next += 8;
      }
      return;
    }
    at = end;
  }
}

Central read_central(const File& file, const std::string& directory, size_t& at) {
  if (at + kCentralBytes > directory.size() || field<uint32_t>(directory, at) != kCentral)
    refuse(file, "entry at byte " + std::to_string(at) + " of its directory is broken");
  const size_t name_begin = at + kCentralBytes;
  const size_t name_bytes = field<uint16_t>(directory, at + 28);
  const size_t extra_bytes = field<uint16_t>(directory, at + 30);
  const size_t end = name_begin + name_bytes + extra_bytes + field<uint16_t>(directory, at + 32);
  if (end > directory.size()) refuse(file, "its directory ends within an entry");
  Central entry{.name = directory.substr(name_begin, name_bytes),
                .header = field<uint32_t>(directory, at + 42),
                .bytes = field<uint32_t>(directory, at + 24)};
  const std::string name = shown(entry.name);
  if (first_invalid_utf8(entry.name)) refuse(file, name + " has a name that is no UTF-8");
  if ((field<uint16_t>(directory, at + 8) & kIsEncrypted) != 0)
    refuse(file, name + " is encrypted");
  if (const auto method = field<uint16_t>(directory, at + 10); method != 0)
    refuse(file, name + " is compressed (method " + std::to_string(method) +
                     "); torch.save stores what it writes");
  uint64_t packed = field<uint32_t>(directory, at + 20);
  widen(directory.substr(name_begin + name_bytes, extra_bytes), entry.bytes, packed, entry.header);
  if (packed != entry.bytes) refuse(file, name + " is stored with two sizes");
  at = end;
  return entry;
}

/// The bytes of an entry begin behind its local header, whose names and padding have their own
/// lengths.
ZipEntry locate(const File& file, const Central& entry, uint64_t limit) {
  const std::string name = shown(entry.name);
  const uint64_t head = kLocalBytes + entry.name.size();
  if (entry.header > limit || head > limit - entry.header)
    refuse(file, name + " begins outside of the archive");
  const std::string local =
      bytes_at(file, static_cast<int64_t>(entry.header), static_cast<int64_t>(head));
  if (field<uint32_t>(local, 0) != kLocal || field<uint16_t>(local, 8) != 0 ||
      field<uint16_t>(local, 26) != entry.name.size() ||
      local.compare(kLocalBytes, std::string::npos, entry.name) != 0)
    refuse(file, name + " has another header than the directory says");
  const uint64_t begin = entry.header + head + field<uint16_t>(local, 28);
  if (begin > limit || entry.bytes > limit - begin)
    refuse(file, name + " ends outside of the archive");
  return {.name = entry.name,
          .begin = static_cast<int64_t>(begin),
          .bytes = static_cast<int64_t>(entry.bytes)};
}

void check_overlaps(const File& file, std::vector<ZipEntry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].begin < entries[i - 1].begin + entries[i - 1].bytes)
      refuse(file, shown(entries[i - 1].name) + " and " + shown(entries[i].name) + " overlap");
  }
}

}  // namespace

ZipDirectory read_zip_directory(const File& file) {
  const Place place = place_of_directory(file);
  const std::string text =
      bytes_at(file, static_cast<int64_t>(place.begin), static_cast<int64_t>(place.bytes));
  ZipDirectory directory{.entries = {}, .bytes = static_cast<int64_t>(place.bytes)};
  for (size_t at = 0; at < text.size();)
    directory.entries.push_back(locate(file, read_central(file, text, at), place.begin));
  if (directory.entries.size() != place.entries)
    refuse(file, "its directory has " + std::to_string(directory.entries.size()) +
                     " entries, not " + std::to_string(place.entries));
  check_overlaps(file, directory.entries);
  std::sort(directory.entries.begin(), directory.entries.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  for (size_t i = 1; i < directory.entries.size(); ++i) {
    if (directory.entries[i].name == directory.entries[i - 1].name)
      refuse(file, shown(directory.entries[i].name) + " stands twice");
  }
  return directory;
}

const ZipEntry* ZipDirectory::find(const std::string& name) const {
  const auto found = std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const ZipEntry& entry, const std::string& key) { return entry.name < key; });
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

}  // namespace snug::io
