// SPDX-License-Identifier: Apache-2.0
#include "io/arrow_file.h"

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "io/flat_table.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr std::string_view kFileMark = "ARROW1";
constexpr int64_t kFileHeadBytes = 8;
constexpr uint32_t kContinuation = 0xFFFFFFFF;
constexpr int64_t kMaxMetadataBytes = int64_t{4} << 20;
constexpr int64_t kMaxBatchRows = int64_t{1} << 40;
constexpr int kMaxDepth = 32;
constexpr size_t kMaxFieldsInAll = 16384;
constexpr size_t kMaxPairs = 1024;

// From Arrow's Message.fbs and Schema.fbs: the places of fields, and the numbers of types.
constexpr size_t kMessageHeaderType = 1, kMessageHeader = 2, kMessageBodyLength = 3;
constexpr size_t kSchemaEndianness = 0, kSchemaFields = 1, kSchemaMetadata = 2;
constexpr size_t kPairKey = 0, kPairValue = 1;
constexpr size_t kFieldName = 0, kFieldTypeType = 2, kFieldType = 3, kFieldDictionary = 4,
                 kFieldChildren = 5;
constexpr size_t kBatchLength = 0, kBatchNodes = 1, kBatchBuffers = 2, kBatchCompression = 3,
                 kBatchVariadicCounts = 4;
constexpr uint8_t kSchemaMessage = 1, kDictionaryMessage = 2, kBatchMessage = 3;

struct TypeForm {
  const char* name;
  ArrowKind kind = ArrowKind::other;
  size_t buffers = 2;  // validity, and values
};
constexpr size_t kInt = 2, kFloat = 3, kUnion = 14, kFixedSizeList = 16, kBinaryView = 23,
                 kTextView = 24;
constexpr std::array<TypeForm, 27> kTypes = {{
    {"nothing"},
    {"null", ArrowKind::null, 0},
    {"int", ArrowKind::integer},
    {"float", ArrowKind::real},
    {"binary", ArrowKind::other, 3},
    {"string", ArrowKind::text, 3},
    {"bool", ArrowKind::boolean},
    {"decimal"},
    {"date"},
    {"time"},
    {"timestamp"},
    {"interval"},
    {"list", ArrowKind::list},
    {"struct", ArrowKind::other, 1},
    {"union", ArrowKind::other, 1},
    {"fixed_size_binary"},
    {"fixed_size_list", ArrowKind::list, 1},
    {"map"},
    {"duration"},
    {"large_binary", ArrowKind::other, 3},
    {"large_string", ArrowKind::text, 3},
    {"large_list", ArrowKind::list},
    {"run_end_encoded", ArrowKind::other, 0},
    {"binary_view"},
    {"string_view"},
    {"list_view", ArrowKind::other, 3},
    {"large_list_view", ArrowKind::other, 3},
}};

void take_number(const std::optional<FlatTable>& type, ArrowField& field) {
  if (field.kind == ArrowKind::integer) {
    field.bits = type ? type->number<int32_t>(0, 0) : 0;
    field.is_signed = type && type->number<uint8_t>(1, 0) != 0;
    field.type = (field.is_signed ? "int" : "uint") + std::to_string(field.bits);
    if (field.bits != 8 && field.bits != 16 && field.bits != 32 && field.bits != 64)
      field.kind = ArrowKind::other;
    return;
  }
  const int precision = type ? type->number<int16_t>(0, 0) : 0;
  field.bits = precision == 2 ? 64 : precision == 1 ? 32 : 16;
  field.type = "float" + std::to_string(field.bits);
  if (field.bits == 16) field.kind = ArrowKind::other;
}

class FieldReader {
 public:
  explicit FieldReader(const std::string& path) : path_(path) {}

  [[nodiscard]] ArrowField read(const FlatTable& table, int depth) {
    if (depth > kMaxDepth || ++count_ > kMaxFieldsInAll)
      throw_bad_arrow(path_, "it has too many columns, or columns within columns");
    ArrowField field;
    field.name = table.text(kFieldName);
    const size_t number = table.number<uint8_t>(kFieldTypeType, 0);
    if (number == 0 || number >= kTypes.size())
      throw_bad_arrow(path_, "a column is of the unknown type " + std::to_string(number));
    const TypeForm& form = kTypes.at(number);
    field.kind = form.kind;
    field.type = form.name;
    field.buffers = form.buffers;
    const std::optional<FlatTable> type = table.table(kFieldType);
    if (table.has(kFieldDictionary)) {  // a batch has the places of the values
      field.kind = ArrowKind::other;
      field.type = "dictionary of " + field.type;
      field.buffers = 2;
      return field;
    }
    if (number == kInt || number == kFloat) take_number(type, field);
    const bool is_large = field.type.starts_with("large");
    if (field.kind == ArrowKind::text || field.kind == ArrowKind::list)
      field.bits = is_large ? 64 : 32;
    if (number == kFixedSizeList) field.list_size = type ? type->number<int32_t>(0, 0) : 0;
    const bool is_dense = number == kUnion && type && type->number<int16_t>(0, 0) == 1;
    if (is_dense) field.buffers = 2;
    field.has_more_buffers = number == kBinaryView || number == kTextView;
    for (const FlatTable& child : table.tables(kFieldChildren, kMaxFieldsInAll))
      field.children.push_back(read(child, depth + 1));
    if (field.kind != ArrowKind::list) return field;
    if (field.children.size() != 1)
      throw_bad_arrow(path_, "the list '" + field.name + "' is of no one thing");
    field.type += " of " + field.children[0].type;
    // Lists of nothing: rows without end in no bytes.
    if (number == kFixedSizeList && field.list_size < 1) field.kind = ArrowKind::other;
    return field;
  }

 private:
  const std::string& path_;
  size_t count_ = 0;
};

// Hands out what a batch has, in the order of the fields.
class BatchReader {
 public:
  BatchReader(const FlatTable& batch, int64_t body, int64_t body_bytes, const std::string& path)
      : path_(path),
        nodes_(batch.elements(kBatchNodes, sizeof(Pair))),
        buffers_(batch.elements(kBatchBuffers, sizeof(Pair))),
        variadic_(batch.elements(kBatchVariadicCounts, sizeof(int64_t))),
        body_(body),
        body_bytes_(body_bytes) {}

  [[nodiscard]] ArrowArray read(const ArrowField& field) {
    const Pair node = take<Pair>(nodes_);
    if (node.first < 0 || node.first > kMaxBatchRows || node.second < 0 || node.second > node.first)
      throw_bad_arrow(path_, "a batch has rows that cannot be");
    ArrowArray array{.rows = node.first, .nulls = node.second, .buffers = {}, .children = {}};
    int64_t count = static_cast<int64_t>(field.buffers);
    if (field.has_more_buffers) count += take<int64_t>(variadic_);
    for (int64_t i = 0; i < count; ++i) array.buffers.push_back(read_buffer());
    for (const ArrowField& child : field.children) array.children.push_back(read(child));
    return array;
  }

 private:
  struct Pair {
    int64_t first = 0;
    int64_t second = 0;
  };

  template <class T>
  [[nodiscard]] T take(std::span<const std::byte>& from) {
    if (from.size() < sizeof(T)) throw_bad_arrow(path_, "a batch lacks columns");
    T value;
    std::memcpy(&value, from.data(), sizeof(T));
    from = from.subspan(sizeof(T));
    return value;
  }
  [[nodiscard]] ArrowBuffer read_buffer() {
    const Pair at = take<Pair>(buffers_);
    if (at.first < 0 || at.second < 0 || at.first > body_bytes_ ||
        at.second > body_bytes_ - at.first)
      throw_bad_arrow(path_, "a column lies outside of its batch");
    return {.offset = body_ + at.first, .bytes = at.second};
  }

  const std::string& path_;
  std::span<const std::byte> nodes_, buffers_, variadic_;
  int64_t body_;
  int64_t body_bytes_;
};

}  // namespace

struct ArrowFile::Message {
  std::vector<std::byte> metadata;
  uint8_t kind = 0;
  int64_t body = 0;  // where it lies in the file
  int64_t body_bytes = 0;
  [[nodiscard]] FlatTable root(const std::string& path) const {
    return FlatTable::root(metadata, path);
  }
};

bool begins_as_arrow(const File& file) {
  std::array<char, kFileHeadBytes> head{};
  const int64_t found =
      file.read_some_at(0, reinterpret_cast<std::byte*>(head.data()), kFileHeadBytes);
  const std::string_view bytes(head.data(), static_cast<size_t>(found));
  return bytes.starts_with(kFileMark) || bytes.starts_with("\xFF\xFF\xFF\xFF");
}

ArrowFile::ArrowFile(const std::string& path)
    : file_(File::open_read(path)), total_bytes_(file_.size_bytes()) {
  if (!begins_as_arrow(file_))
    throw Error(ErrorCode::bad_data, path, "is no Arrow file: it does not begin as one",
                "name the file by what is in it: .jsonl, .json, .tsv or .csv; Arrow's columns are "
                "written by pyarrow.ipc.new_stream or save_to_disk of Hugging Face's datasets");
  std::array<std::byte, 1> first{};
  file_.read_at(0, first.data(), 1);
  if (first[0] == static_cast<std::byte>(kFileMark[0])) position_ = kFileHeadBytes;
  read_schema();
}

bool ArrowFile::read_message(Message& message) {
  struct {
    uint32_t mark;
    int32_t bytes;
  } head{};
  if (position_ == total_bytes_) return false;  // a stream may end without saying so
  file_.read_at(position_, reinterpret_cast<std::byte*>(&head), sizeof(head));
  if (head.mark != kContinuation) throw_bad_arrow(file_.path(), "a message does not begin as one");
  if (head.bytes == 0) return false;
  if (head.bytes < 0 || head.bytes > kMaxMetadataBytes)
    throw_bad_arrow(file_.path(), "the metadata of a message has " + std::to_string(head.bytes) +
                                      " bytes; it may have " + std::to_string(kMaxMetadataBytes));
  const int64_t begin = position_ + static_cast<int64_t>(sizeof(head));
  if (head.bytes > total_bytes_ - begin) throw_bad_arrow(file_.path(), "it ends early");
  message.metadata.resize(static_cast<size_t>(head.bytes));
  file_.read_at(begin, message.metadata.data(), head.bytes);
  const FlatTable root = message.root(file_.path());
  message.kind = root.number<uint8_t>(kMessageHeaderType, 0);
  message.body = begin + head.bytes;
  message.body_bytes = root.number<int64_t>(kMessageBodyLength, 0);
  if (message.body_bytes < 0 || message.body_bytes > total_bytes_ - message.body)
    throw_bad_arrow(file_.path(), "it ends early");
  position_ = message.body + message.body_bytes;
  return true;
}

void ArrowFile::read_schema() {
  Message message;
  if (!read_message(message) || message.kind != kSchemaMessage)
    throw_bad_arrow(file_.path(), "it does not say which columns it has");
  const std::optional<FlatTable> schema = message.root(file_.path()).table(kMessageHeader);
  if (!schema) throw_bad_arrow(file_.path(), "it does not say which columns it has");
  if (schema->number<int16_t>(kSchemaEndianness, 0) != 0)
    throw Error(ErrorCode::unsupported, file_.path(), "its numbers are big-endian",
                "write it on a little-endian machine");
  FieldReader reader(file_.path());
  for (const FlatTable& field : schema->tables(kSchemaFields, kMaxFieldsInAll))
    fields_.push_back(reader.read(field, 1));
  for (const FlatTable& pair : schema->tables(kSchemaMetadata, kMaxPairs))
    metadata_.emplace_back(pair.text(kPairKey), pair.text(kPairValue));
}

std::string ArrowFile::metadata(std::string_view key) const {
  for (const auto& [name, value] : metadata_) {
    if (name == key) return value;
  }
  return {};
}

bool ArrowFile::next(ArrowBatch& batch) {
  Message message;
  do {
    if (!read_message(message)) return false;
  } while (message.kind == kDictionaryMessage);
  const std::optional<FlatTable> table = message.root(file_.path()).table(kMessageHeader);
  if (message.kind != kBatchMessage || !table)
    throw_bad_arrow(file_.path(), "it has a message that is no batch of rows");
  if (table->has(kBatchCompression))
    throw Error(ErrorCode::unsupported, file_.path(), "its columns are compressed",
                "write it without compression: pyarrow.feather.write_feather(table, file, "
                "compression=\"uncompressed\")");
  batch.rows = table->number<int64_t>(kBatchLength, 0);
  batch.columns.clear();
  BatchReader reader(*table, message.body, message.body_bytes, file_.path());
  for (const ArrowField& field : fields_) {
    batch.columns.push_back(reader.read(field));
    if (batch.columns.back().rows != batch.rows)
      throw_bad_arrow(file_.path(),
                      "the column '" + field.name + "' has not as many rows as others");
  }
  return true;
}

}  // namespace snug::io
