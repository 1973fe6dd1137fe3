// SPDX-License-Identifier: Apache-2.0
// Reading one file, and converting to float or double in bounded chunks on the way.
#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "io/json_tree.h"
#include "io/nearest.h"
#include "io/safetensors_header.h"
#include "snug/error.h"

namespace snug::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kPrefixBytes = 8;
constexpr size_t kChunkBytes = 32768;  // on the stack

float float_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float float_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class Stored>
Stored load(const std::byte* src) {
  Stored value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

template <class T>
T convert(StoredType type, const std::byte* src) {
  switch (type) {
    case StoredType::f64:
      return static_cast<T>(load<double>(src));
    case StoredType::f32:
      return static_cast<T>(load<float>(src));
    case StoredType::f16:
      return static_cast<T>(float_of_f16(load<uint16_t>(src)));
    default:
      return static_cast<T>(float_of_bf16(load<uint16_t>(src)));
  }
}

bool is_float(StoredType type) {
  return type == StoredType::f64 || type == StoredType::f32 || type == StoredType::f16 ||
         type == StoredType::bf16;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(File::open_read(path)) {
  const int64_t file_bytes = file_.size_bytes();
  if (file_bytes < kPrefixBytes) {
    throw_bad_safetensors(path, "it has only " + std::to_string(file_bytes) + " bytes");
  }
  std::array<std::byte, kPrefixBytes> prefix{};
  file_.read_at(0, prefix.data(), kPrefixBytes);
  const auto header_bytes = load<uint64_t>(prefix.data());
  if (header_bytes > static_cast<uint64_t>(kMaxHeaderBytes) ||
      header_bytes > static_cast<uint64_t>(file_bytes - kPrefixBytes)) {
    throw_bad_safetensors(path, "it claims a header of " + std::to_string(header_bytes) +
                                    " bytes in a file of " + std::to_string(file_bytes) + " bytes");
  }
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file_.read_at(kPrefixBytes, reinterpret_cast<std::byte*>(text.data()),
                static_cast<int64_t>(header_bytes));
  data_begin_ = kPrefixBytes + static_cast<int64_t>(header_bytes);
  SafetensorsHeader header = parse_safetensors_header(text, file_bytes - data_begin_, path);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

int64_t SafetensorsFile::header_bytes(const std::string& path) {
  const File file = File::open_read(path);
  std::array<std::byte, kPrefixBytes> prefix{};
  if (file.read_some_at(0, prefix.data(), kPrefixBytes) < kPrefixBytes) return 0;
  const auto claimed = load<uint64_t>(prefix.data());
  const auto most = std::min(kMaxHeaderBytes, file.size_bytes() - kPrefixBytes);
  return claimed > static_cast<uint64_t>(most) ? 0 : static_cast<int64_t>(claimed);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const TensorInfo& SafetensorsFile::require(std::string_view name) const {
  if (const TensorInfo* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const TensorInfo& tensor : tensors_) names.push_back(tensor.name);
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorCode::bad_data, path(), "there is no tensor " + quote_json(name),
              nearest.empty() ? "check that the file belongs to this model"
                              : "there is " + quote_json(nearest));
}

void SafetensorsFile::read(std::string_view name, std::byte* dst, int64_t bytes) const {
  const TensorInfo& tensor = require(name);
  if (bytes != tensor.size_bytes()) {
    throw Error(ErrorCode::bad_data, path(),
                "tensor " + quote_json(name) + " has " + std::to_string(tensor.size_bytes()) +
                    " bytes; " + std::to_string(bytes) + " are wanted",
                "check that the file belongs to this model");
  }
  file_.read_at(data_begin_ + tensor.begin, dst, bytes);
}

template <class T>
void SafetensorsFile::read_as(std::string_view name, int64_t first, std::span<T> dst) const {
  const TensorInfo& tensor = require(name);
  const std::string_view type_name = to_string(tensor.dtype);
  if (!is_float(tensor.dtype)) {
    throw Error(ErrorCode::bad_data, path(),
                "tensor " + quote_json(name) + " is " + std::string(type_name) +
                    "; F32, F16, BF16 or F64 is wanted",
                "convert the file to float32");
  }
  const auto wanted = static_cast<int64_t>(dst.size());
  if (first < 0 || first + wanted > tensor.elements()) {
    throw Error(ErrorCode::bad_data, path(),
                "tensor " + quote_json(name) + " has " + std::to_string(tensor.elements()) +
                    " elements; " + std::to_string(wanted) + " from element " +
                    std::to_string(first) + " are wanted",
                "check that the file belongs to this model");
  }
  const StoredType own = std::is_same_v<T, float> ? StoredType::f32 : StoredType::f64;
  const auto element_bytes = static_cast<size_t>(bytes_of(tensor.dtype));
  const int64_t data = data_begin_ + tensor.begin + first * bytes_of(tensor.dtype);
  if (tensor.dtype == own) {
    file_.read_at(data, reinterpret_cast<std::byte*>(dst.data()), wanted * bytes_of(tensor.dtype));
    return;
  }
  std::array<std::byte, kChunkBytes> chunk;
  const size_t chunk_elements = kChunkBytes / element_bytes;
  for (size_t begin = 0; begin < dst.size(); begin += chunk_elements) {
    const size_t count = std::min(chunk_elements, dst.size() - begin);
    file_.read_at(data + static_cast<int64_t>(begin * element_bytes), chunk.data(),
                  static_cast<int64_t>(count * element_bytes));
    for (size_t i = 0; i < count; ++i) {
      dst[begin + i] = convert<T>(tensor.dtype, chunk.data() + i * element_bytes);
    }
  }
}

void SafetensorsFile::require_elements(std::string_view name, size_t wanted) const {
  const TensorInfo& tensor = require(name);
  const int64_t elements = tensor.elements();
  if (!is_float(tensor.dtype) || std::cmp_equal(wanted, elements)) return;  // read_as refuses it
  throw Error(ErrorCode::bad_data, path(),
              "tensor " + quote_json(name) + " has " + std::to_string(elements) + " elements; " +
                  std::to_string(wanted) + " are wanted",
              "check that the file belongs to this model");
}

void SafetensorsFile::read_f32(std::string_view name, std::span<float> dst) const {
  require_elements(name, dst.size());
  read_as<float>(name, 0, dst);
}
void SafetensorsFile::read_f32(std::string_view name, int64_t first, std::span<float> dst) const {
  read_as<float>(name, first, dst);
}
void SafetensorsFile::read_f64(std::string_view name, std::span<double> dst) const {
  require_elements(name, dst.size());
  read_as<double>(name, 0, dst);
}

}  // namespace snug::io
