// SPDX-License-Identifier: Apache-2.0
#include "io/flat_table.h"

#include "snug/error.h"

namespace snug::io {

void throw_bad_arrow(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::bad_data, path, "is a damaged Arrow file: " + what,
              "write it again: pyarrow.ipc.new_stream, or save_to_disk of Hugging Face's datasets");
}

FlatTable::FlatTable(std::span<const std::byte> bytes, size_t at, const std::string& path)
    : bytes_(bytes), at_(at), path_(&path) {
  const auto back = int64_t{read<int32_t>(at)};
  const int64_t vtable = static_cast<int64_t>(at) - back;
  if (vtable < 0) fail();
  vtable_ = static_cast<size_t>(vtable);
  vtable_bytes_ = read<uint16_t>(vtable_);
  require(vtable_, vtable_bytes_);
}

FlatTable FlatTable::root(std::span<const std::byte> bytes, const std::string& path) {
  uint32_t at = 0;
  if (bytes.size() < sizeof(at)) throw_bad_arrow(path, "a message has no metadata");
  std::memcpy(&at, bytes.data(), sizeof(at));
  return {bytes, at, path};
}

std::optional<FlatTable> FlatTable::table(size_t field) const {
  const std::optional<size_t> at = place_of(field, sizeof(uint32_t));
  if (!at) return std::nullopt;
  return FlatTable(bytes_, target_of(*at), *path_);
}

std::string FlatTable::text(size_t field) const {
  const std::span<const std::byte> found = elements(field, 1);
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

std::vector<FlatTable> FlatTable::tables(size_t field, size_t most) const {
  std::vector<FlatTable> found;
  const std::span<const std::byte> offsets = elements(field, sizeof(uint32_t));
  if (offsets.size() / sizeof(uint32_t) > most)
    throw_bad_arrow(*path_, "it has more columns than " + std::to_string(most));
  const auto first = static_cast<size_t>(offsets.data() - bytes_.data());
  for (size_t i = 0; i < offsets.size(); i += sizeof(uint32_t))
    found.push_back(FlatTable(bytes_, target_of(first + i), *path_));
  return found;
}

std::span<const std::byte> FlatTable::elements(size_t field, size_t element_bytes) const {
  const std::optional<size_t> at = place_of(field, sizeof(uint32_t));
  if (!at) return {};
  const size_t vector = target_of(*at);
  const size_t bytes = size_t{read<uint32_t>(vector)} * element_bytes;
  require(vector + sizeof(uint32_t), bytes);
  return bytes_.subspan(vector + sizeof(uint32_t), bytes);
}

std::optional<size_t> FlatTable::place_of(size_t field, size_t bytes) const {
  constexpr size_t kHead = 2 * sizeof(uint16_t);  // the sizes of the vtable and of the table
  const size_t entry = kHead + field * sizeof(uint16_t);
  if (entry + sizeof(uint16_t) > vtable_bytes_) return std::nullopt;
  const size_t offset = read<uint16_t>(vtable_ + entry);
  if (offset == 0) return std::nullopt;
  require(at_ + offset, bytes);
  return at_ + offset;
}

size_t FlatTable::target_of(size_t at) const { return at + read<uint32_t>(at); }

void FlatTable::require(size_t at, size_t count) const {
  if (at > bytes_.size() || count > bytes_.size() - at) fail();
}

void FlatTable::fail() const {
  throw_bad_arrow(*path_, "its metadata refers to what is not there");
}

}  // namespace snug::io
