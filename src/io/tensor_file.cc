// SPDX-License-Identifier: Apache-2.0
// Reading one file, and converting to float or double in bounded chunks on the way.
#include "io/tensor_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/half.h"
#include "io/json_tree.h"
#include "io/nearest.h"
#include "snug/error.h"

namespace snug::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr size_t kChunkBytes = 32768;  // on the stack

struct TypeRow {
  StoredType type;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeRow, 15> kTypes = {{{StoredType::f64, "F64", 8},
                                             {StoredType::f32, "F32", 4},
                                             {StoredType::f16, "F16", 2},
                                             {StoredType::bf16, "BF16", 2},
                                             {StoredType::f8_e4m3, "F8_E4M3", 1},
                                             {StoredType::f8_e5m2, "F8_E5M2", 1},
                                             {StoredType::i64, "I64", 8},
                                             {StoredType::i32, "I32", 4},
                                             {StoredType::i16, "I16", 2},
                                             {StoredType::i8, "I8", 1},
                                             {StoredType::u64, "U64", 8},
                                             {StoredType::u32, "U32", 4},
                                             {StoredType::u16, "U16", 2},
                                             {StoredType::u8, "U8", 1},
                                             {StoredType::boolean, "BOOL", 1}}};

const TypeRow& row_of(StoredType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row;
  }
  SNUG_CHECK(false, "a type of the table");
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
      return static_cast<T>(to_f32(load<F16>(src)));
    default:
      return static_cast<T>(to_f32(load<Bf16>(src)));
  }
}

/// Elements of the innermost dimensions that lie one behind the other.
int64_t run_of(const StoredTensor& tensor) {
  if (tensor.strides.empty()) return tensor.elements();
  int64_t run = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != run) break;
    run *= tensor.shape[i];
  }
  return run;
}

/// Where an element of a tensor with strides lies, counted from its first one.
int64_t place_of(const StoredTensor& tensor, int64_t element) {
  int64_t place = 0;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    place += element % tensor.shape[i] * tensor.strides[i];
    element /= tensor.shape[i];
  }
  return place;
}

}  // namespace

std::string_view to_string(StoredType type) { return row_of(type).name; }
int64_t bytes_of(StoredType type) { return row_of(type).bytes; }

bool is_real(StoredType type) {
  return type == StoredType::f64 || type == StoredType::f32 || type == StoredType::f16 ||
         type == StoredType::bf16;
}

bool parse_stored_type(std::string_view word, StoredType& type) {
  const auto* row = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeRow& each) { return each.name == word; });
  if (row == kTypes.end()) return false;
  type = row->type;
  return true;
}

bool tensor_bytes(StoredType type, std::span<const int64_t> shape, int64_t& bytes) {
  bytes = bytes_of(type);
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) return false;
  }
  return true;
}

void refuse_lfs_pointer(const File& file) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  char head[kBegin.size()] = {};
  const int64_t bytes =
      file.read_some_at(0, reinterpret_cast<std::byte*>(head), std::ssize(kBegin));
  if (std::string_view(head, static_cast<size_t>(bytes)) != kBegin) return;
  throw Error(ErrorCode::bad_data, file.path(),
              "it is no weights but the name of a file in git-lfs", "run git lfs pull");
}

TensorFile::TensorFile(File file, TensorTable table)
    : file_(std::move(file)), table_(std::move(table)) {
  for (size_t i = 0; i < table_.tensors.size(); ++i) by_name_.emplace(table_.tensors[i].name, i);
}

const StoredTensor* TensorFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &table_.tensors[found->second];
}

const StoredTensor& TensorFile::require(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  names.reserve(table_.tensors.size());
  for (const StoredTensor& tensor : table_.tensors) names.push_back(tensor.name);
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorCode::bad_data, path(), "there is no tensor " + quote_json(name),
              nearest.empty() ? "check that the file belongs to this model"
                              : "there is " + quote_json(nearest));
}

void TensorFile::read(std::string_view name, std::byte* dst, int64_t bytes) const {
  const StoredTensor& tensor = require(name);
  if (bytes != tensor.size_bytes()) {
    throw Error(ErrorCode::bad_data, path(),
                "tensor " + quote_json(name) + " has " + std::to_string(tensor.size_bytes()) +
                    " bytes; " + std::to_string(bytes) + " are wanted",
                "check that the file belongs to this model");
  }
  read(tensor, 0, tensor.elements(), dst);
}

// Strides are rare (a weight that was saved transposed): a read for each run will do.
void TensorFile::read(const StoredTensor& tensor, int64_t first, int64_t count,
                      std::byte* dst) const {
  const int64_t size = bytes_of(tensor.dtype);
  const int64_t run = run_of(tensor);
  for (int64_t done = 0; done < count;) {
    const int64_t element = first + done;
    const int64_t here = std::min(count - done, run - element % run);
    const int64_t place = tensor.strides.empty() ? element : place_of(tensor, element);
    file_.read_at(table_.data_begin + tensor.begin + place * size, dst + done * size, here * size);
    done += here;
  }
}

template <class T>
void TensorFile::read_as(std::string_view name, int64_t first, std::span<T> dst) const {
  const StoredTensor& tensor = require(name);
  const std::string_view type_name = to_string(tensor.dtype);
  if (!is_real(tensor.dtype)) {
    throw Error(
        ErrorCode::bad_data, path(),
        "tensor " + quote_json(name) + " is " + std::string(type_name) +
            "; F32, F16, BF16 or F64 is wanted",
        "take the model's weights in float32, float16 or bfloat16: quantized ones mean nothing "
        "without their scales");
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
  if (tensor.dtype == own) {
    read(tensor, first, wanted, reinterpret_cast<std::byte*>(dst.data()));
    return;
  }
  std::array<std::byte, kChunkBytes> chunk;
  const size_t chunk_elements = kChunkBytes / element_bytes;
  for (size_t begin = 0; begin < dst.size(); begin += chunk_elements) {
    const size_t count = std::min(chunk_elements, dst.size() - begin);
    read(tensor, first + static_cast<int64_t>(begin), static_cast<int64_t>(count), chunk.data());
    for (size_t i = 0; i < count; ++i) {
      dst[begin + i] = convert<T>(tensor.dtype, chunk.data() + i * element_bytes);
    }
  }
}

void TensorFile::require_elements(std::string_view name, size_t wanted) const {
  const StoredTensor& tensor = require(name);
  const int64_t elements = tensor.elements();
  if (!is_real(tensor.dtype) || std::cmp_equal(wanted, elements)) return;  // read_as refuses it
  throw Error(ErrorCode::bad_data, path(),
              "tensor " + quote_json(name) + " has " + std::to_string(elements) + " elements; " +
                  std::to_string(wanted) + " are wanted",
              "check that the file belongs to this model");
}

void TensorFile::read_f32(std::string_view name, std::span<float> dst) const {
  require_elements(name, dst.size());
  read_as<float>(name, 0, dst);
}
void TensorFile::read_f32(std::string_view name, int64_t first, std::span<float> dst) const {
  read_as<float>(name, first, dst);
}
void TensorFile::read_f64(std::string_view name, std::span<double> dst) const {
  require_elements(name, dst.size());
  read_as<double>(name, 0, dst);
}

}  // namespace snug::io
