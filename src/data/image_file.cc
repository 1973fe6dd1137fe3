// SPDX-License-Identifier: Apache-2.0
#include "data/image_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/index_vector.h"
#include "base/pieces.h"
#include "base/utf8.h"
#include "data/cache_format.h"
#include "io/file.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr int64_t kMaxNamesBytes = 64 << 10;
constexpr size_t kPixels = static_cast<size_t>(kCifarSide * kCifarSide);
constexpr size_t kImageBytes = kPixels * static_cast<size_t>(kCifarChannels);
using Channels = std::array<float, static_cast<size_t>(kCifarChannels)>;

Channels floats_of(const std::array<double, 3>& values) {
  return {static_cast<float>(values[0]), static_cast<float>(values[1]),
          static_cast<float>(values[2])};
}

struct ImageKind {
  size_t label_bytes;
  int32_t classes;
  const char* names_file;
};
constexpr ImageKind kCifar10 = {1, 10, "batches.meta.txt"};
constexpr ImageKind kCifar100 = {2, 100, "fine_label_names.txt"};

struct Piece {
  io::File file;
  int64_t first_row = 0;
};

std::vector<std::string> files_of(const std::string& path) {
  if (!io::is_folder(path)) return {path};
  std::vector<std::string> files;
  for (const std::string& name : io::list_folder(path)) {
    const bool is_batch = name.starts_with("data_batch") && name.ends_with(".bin");
    if (is_batch || name == "train.bin") files.push_back(path + "/" + name);
  }
  if (files.empty()) {
    throw Error(ErrorCode::bad_data, path, "the folder has no data_batch_*.bin and no train.bin",
                "give the folder of CIFAR's binary version, or one of its .bin files");
  }
  return files;
}

void read_at(const io::File& file, int64_t offset, std::span<std::byte> bytes) {
  const auto wanted = static_cast<int64_t>(bytes.size());
  if (file.read_some_at(offset, bytes.data(), wanted) != wanted)
    throw Error(ErrorCode::bad_data, file.path(), "the file became shorter");
}

std::vector<std::string> lines_of(const std::string& path) {
  const std::string text = io::read_all(path, kMaxNamesBytes);
  std::vector<std::string> lines;
  for (std::string_view line : lines_in(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

// A name is written into config.json, so it is text as labels of rows are.
void check_name(const std::vector<std::string>& names, size_t i, const std::string& file) {
  const std::string where = file + ":" + std::to_string(i + 1);
  if (first_invalid_utf8(names[i]) || names[i].find('\0') != std::string::npos)
    throw Error(ErrorCode::bad_data, where, "the name of a class is not UTF-8 without NUL",
                std::string(kToUtf8) + ", or remove the file: classes are numbers then");
  const auto first = std::find(names.begin(), names.end(), names[i]);
  if (static_cast<size_t>(first - names.begin()) != i)
    throw Error(ErrorCode::bad_data, where, "the class '" + names[i] + "' stands twice",
                "give each class a name of its own, or remove the file: classes are numbers then");
}

// Numbers where there is no file of names.
Labels read_names(const std::string& data_file, const ImageKind& kind) {
  const std::string beside = io::parent_folder(data_file) + "/" + kind.names_file;
  std::vector<std::string> names;
  if (io::has_file(beside)) {
    names = lines_of(beside);
    for (size_t i = 0; i < names.size(); ++i) check_name(names, i, beside);
    if (names.size() != static_cast<size_t>(kind.classes)) {
      throw Error(ErrorCode::bad_data, beside,
                  "it has " + std::to_string(names.size()) + " names for " +
                      std::to_string(kind.classes) + " classes",
                  "write one name a line, or remove the file: classes are numbers then");
    }
  } else {
    for (int32_t i = 0; i < kind.classes; ++i) names.push_back(std::to_string(i));
  }
  return Labels::from_names(std::move(names));
}

}  // namespace

struct ImageFile::State {
  std::vector<Piece> pieces;
  std::vector<std::string> files;
  ImageKind kind = kCifar10;
  int64_t rows = 0;
  LabelMap map;
  IndexVector<int64_t> label_counts;
  uint64_t content_hash = 0;
  float divisor = 1;
  Channels mean{}, deviation{};

  [[nodiscard]] size_t record_bytes() const { return kind.label_bytes + kImageBytes; }

  void open(const std::string& path, const LabelRule& rule);
  void check_content();

  [[nodiscard]] const Piece& piece_of(int64_t row) const {
    SNUG_CHECK(row >= 0 && row < rows, "row out of range");
    const auto after = std::upper_bound(pieces.begin(), pieces.end(), row,
                                        [](int64_t r, const Piece& p) { return r < p.first_row; });
    return *std::prev(after);
  }
  // Reads the first `bytes.size()` bytes of a record and returns the model's id of its label.
  [[nodiscard]] int32_t read_record(int64_t row, std::span<std::byte> bytes) const {
    const Piece& piece = piece_of(row);
    read_at(piece.file, (row - piece.first_row) * static_cast<int64_t>(record_bytes()), bytes);
    const auto label = static_cast<int32_t>(bytes[kind.label_bytes - 1]);
    if (label >= kind.classes) {
      throw Error(ErrorCode::bad_data, piece.file.path(),
                  "image " + std::to_string(row - piece.first_row) + " has the label " +
                      std::to_string(label) + " of " + std::to_string(kind.classes),
                  "give CIFAR's binary version, and nothing else under that name");
    }
    return map.id_of[label];
  }
};

void ImageFile::State::open(const std::string& path, const LabelRule& rule) {
  files = files_of(path);
  for (const std::string& file : files) {
    io::File opened = io::File::open_read(file);
    const int64_t bytes = opened.size_bytes();
    const auto holds = [bytes](const ImageKind& k) {
      return bytes > 0 && bytes % static_cast<int64_t>(k.label_bytes + kImageBytes) == 0;
    };
    if (pieces.empty()) kind = holds(kCifar10) ? kCifar10 : kCifar100;
    if (!holds(kind)) {
      throw Error(ErrorCode::bad_data, file,
                  "its " + std::to_string(bytes) + " bytes are no whole number of CIFAR records (" +
                      std::to_string(kCifar10.label_bytes + kImageBytes) + " or " +
                      std::to_string(kCifar100.label_bytes + kImageBytes) + " bytes each)",
                  "give CIFAR's binary version");
    }
    pieces.push_back({.file = std::move(opened), .first_row = rows});
    rows += bytes / static_cast<int64_t>(record_bytes());
  }
  DataLabels given{.names = read_names(files.front(), kind).names(), .ids = {}};
  for (int64_t id = 0; id < kind.classes; ++id) given.ids.push_back(id);
  map = map_labels(rule, given, path);
}

void ImageFile::State::check_content() {
  std::array<std::byte, kCifar100.label_bytes + kImageBytes> buffer{};
  const std::span<std::byte> record = std::span(buffer).first(record_bytes());
  label_counts.assign(map.labels.size(), 0);
  Checksum checksum;
  for (int64_t row = 0; row < rows; ++row) {
    ++label_counts[read_record(row, record)];
    checksum.add(buffer);  // whole words: what is behind the record is zero
  }
  for (int32_t id = 0; id < kind.classes; ++id) {
    const int32_t mapped = map.id_of[id];
    if (mapped != id) checksum.add(bytes_of((int64_t{id} << 32) + mapped));
  }
  content_hash = checksum.value();
}

ImageFile::ImageFile(const std::string& path, const LabelRule& rule,
                     const ImageNormalization& normalization)
    : state_(std::make_unique<State>()) {
  state_->divisor = static_cast<float>(normalization.divisor);
  state_->mean = floats_of(normalization.mean);
  state_->deviation = floats_of(normalization.deviation);
  state_->open(path, rule);
  state_->check_content();
}
ImageFile::~ImageFile() = default;

int64_t ImageFile::rows() const { return state_->rows; }
const Labels& ImageFile::labels() const { return state_->map.labels; }
LabelSource ImageFile::label_source() const { return state_->map.source; }
uint64_t ImageFile::content_hash() const { return state_->content_hash; }
const std::vector<int64_t>& ImageFile::label_counts() const { return state_->label_counts; }
const std::vector<std::string>& ImageFile::files() const { return state_->files; }

void ImageFile::read_columns(int64_t row, RowColumns& out) const {
  std::array<std::byte, kCifar100.label_bytes> head{};
  out.clear();
  out.add_integers(1)[0] =
      state_->read_record(row, std::span(head).first(state_->kind.label_bytes));
}

void ImageFile::read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const {
  SNUG_CHECK(rows.size() == lengths.size(), "one length a row");
  std::fill(lengths.begin(), lengths.end(), 1);
}

void ImageFile::fill(const MicroBatch& batch, const BatchBuffers& buffers) const {
  const auto size = static_cast<size_t>(batch.size);
  SNUG_CHECK(buffers.pixel_values.empty() || buffers.pixel_values.size() >= size * kImageBytes,
             "a batch buffer is too small");
  std::array<std::byte, kCifar100.label_bytes + kImageBytes> buffer{};
  const std::span<std::byte> record = std::span(buffer).first(state_->record_bytes());
  for (size_t i = 0; i < size; ++i) {
    const size_t slot = static_cast<size_t>(batch.first_slot) + i;
    const bool is_there = slot < batch.rows.size();
    if (is_there) (void)state_->read_record(batch.rows[slot], record);
    if (buffers.pixel_values.empty()) continue;
    const std::span<float> image = buffers.pixel_values.subspan(i * kImageBytes, kImageBytes);
    if (!is_there) {
      std::fill(image.begin(), image.end(), 0.0F);
      continue;
    }
    const State& state = *state_;
    const std::byte* planes = record.data() + state_->kind.label_bytes;
    for (size_t pixel = 0; pixel < kPixels; ++pixel) {
      for (size_t c = 0; c < state.mean.size(); ++c) {
        const auto value = static_cast<float>(planes[c * kPixels + pixel]) / state.divisor;
        image[pixel * state.mean.size() + c] = (value - state.mean[c]) / state.deviation[c];
      }
    }
  }
}

}  // namespace snug::data
