// SPDX-License-Identifier: Apache-2.0
#include "data/arrow_column.h"

#include <algorithm>
#include <cstring>

#include "io/flat_table.h"

namespace snug::data {
namespace {

constexpr size_t kSmallWindowBytes = size_t{4} << 10;
constexpr size_t kTextWindowBytes = size_t{64} << 10;

}  // namespace

void ArrowWindow::open(const io::File& file, io::ArrowBuffer buffer) {
  file_ = &file;
  buffer_ = buffer;
  begin_ = held_ = 0;
}

void ArrowWindow::read(int64_t at, std::span<std::byte> out) {
  const auto bytes = static_cast<int64_t>(out.size());
  if (at < 0 || at > buffer_.bytes || bytes > buffer_.bytes - at)
    io::throw_bad_arrow(file_->path(), "a column is shorter than its rows");
  if (bytes > static_cast<int64_t>(window_.size())) {
    file_->read_at(buffer_.offset + at, out.data(), bytes);
    return;
  }
  if (at < begin_ || at + bytes > begin_ + held_) {
    begin_ = at;
    held_ = std::min<int64_t>(static_cast<int64_t>(window_.size()), buffer_.bytes - at);
    file_->read_at(buffer_.offset + at, window_.data(), held_);
  }
  std::copy_n(window_.begin() + (at - begin_), bytes, out.begin());
}

ArrowColumn::ArrowColumn(const io::ArrowField& field)
    : field_(field),
      validity_(kSmallWindowBytes),
      values_(kSmallWindowBytes),
      bytes_(field.kind == io::ArrowKind::text ? kTextWindowBytes : 0) {
  if (field.kind == io::ArrowKind::list) items_ = std::make_unique<ArrowColumn>(field.children[0]);
}

bool ArrowColumn::is_number() const {
  return field_.kind == io::ArrowKind::integer || field_.kind == io::ArrowKind::real;
}

void ArrowColumn::open(const io::File& file, const io::ArrowArray& array) {
  path_ = file.path();
  rows_ = array.rows;
  nulls_ = field_.kind == io::ArrowKind::null ? array.rows : array.nulls;
  ArrowWindow* const windows[] = {&validity_, &values_, &bytes_};
  for (size_t i = 0; i < array.buffers.size() && i < std::size(windows); ++i)
    windows[i]->open(file, array.buffers[i]);
  if (items_) items_->open(file, array.children.at(0));
  // With a place for every row there are no more rows than bytes.
  int64_t least = 0;
  switch (field_.kind) {
    case io::ArrowKind::boolean:
      least = (rows_ + 7) / 8;
      break;
    case io::ArrowKind::integer:
    case io::ArrowKind::real:
      least = rows_ * (field_.bits / 8);
      break;
    case io::ArrowKind::text:
    case io::ArrowKind::list:
      if (rows_ > 0 && field_.list_size < 0) least = (rows_ + 1) * (field_.bits / 8);
      break;
    default:
      break;
  }
  const bool has_items = field_.list_size < 0 || rows_ <= items_->rows_ / field_.list_size;
  const bool has_places = array.buffers.size() < 2 || array.buffers[1].bytes >= least;
  if (!has_items || !has_places)
    io::throw_bad_arrow(path_, "the column '" + field_.name + "' is shorter than its rows");
}

void ArrowColumn::require(int64_t row, int64_t rows) const {
  if (row < 0 || row >= rows) io::throw_bad_arrow(path_, "a list has items that are not there");
}

bool ArrowColumn::is_null(int64_t row) {
  require(row, rows_);
  if (nulls_ == 0) return false;
  if (nulls_ == rows_) return true;
  std::byte bits{};
  validity_.read(row / 8, {&bits, 1});
  return (std::to_integer<int>(bits) >> (row % 8) & 1) == 0;
}

template <class T>
T ArrowColumn::value(int64_t row) {
  T found;
  values_.read(row * static_cast<int64_t>(sizeof(T)),
               {reinterpret_cast<std::byte*>(&found), sizeof(T)});
  return found;
}

ArrowColumn::Range ArrowColumn::range(int64_t row) {
  require(row, rows_);
  Range found;
  if (field_.list_size >= 0) {
    found = {row * field_.list_size, (row + 1) * field_.list_size};
  } else if (field_.bits == 64) {
    found = {value<int64_t>(row), value<int64_t>(row + 1)};
  } else {
    found = {value<int32_t>(row), value<int32_t>(row + 1)};
  }
  if (found.begin < 0 || found.end < found.begin)
    io::throw_bad_arrow(path_, "the column '" + field_.name + "' has a row of a negative length");
  return found;
}

void ArrowColumn::read_text(Range bytes, std::string& out) {
  out.resize(static_cast<size_t>(bytes.end - bytes.begin));
  bytes_.read(bytes.begin, std::as_writable_bytes(std::span(out)));
}

double ArrowColumn::real(int64_t row) {
  require(row, rows_);
  return field_.bits == 64 ? value<double>(row) : static_cast<double>(value<float>(row));
}

std::string ArrowColumn::word(int64_t row) {
  require(row, rows_);
  if (field_.kind == io::ArrowKind::boolean) {
    std::byte bits{};
    values_.read(row / 8, {&bits, 1});
    return (std::to_integer<int>(bits) >> (row % 8) & 1) != 0 ? "true" : "false";
  }
  switch (field_.bits) {
    case 8:
      return std::to_string(field_.is_signed ? value<int8_t>(row) : int{value<uint8_t>(row)});
    case 16:
      return std::to_string(field_.is_signed ? value<int16_t>(row) : int{value<uint16_t>(row)});
    case 32:
      return field_.is_signed ? std::to_string(value<int32_t>(row))
                              : std::to_string(value<uint32_t>(row));
    default:
      return field_.is_signed ? std::to_string(value<int64_t>(row))
                              : std::to_string(value<uint64_t>(row));
  }
}

}  // namespace snug::data
