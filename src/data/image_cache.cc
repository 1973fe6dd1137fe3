// SPDX-License-Identifier: Apache-2.0
#include "data/image_cache.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/json_file.h"

namespace snug::data {
namespace {

constexpr size_t kCopyBytes = 16384;  // a multiple of records and of 8
constexpr int64_t kMostFactsBytes = int64_t{64} << 20;
constexpr int64_t kMostSide = 1 << 14;
constexpr int64_t kForgottenBytes = int64_t{256} << 20;

Error damaged(const std::string& path, const std::string& what) {
  return Error(ErrorCode::bad_data, path, "the cache of images is damaged: " + what,
               "delete the file; it is built again");
}

uint64_t checksum_of(const ImageCacheHeader& header) {
  Checksum checksum;
  checksum.add(bytes_of(header).first(offsetof(ImageCacheHeader, header_checksum)));
  return checksum.value();
}

uint64_t checksum_of(const std::string& text) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.value();
}

std::string text_of(const ImageFacts& facts) {
  const nlohmann::json json = {{"key", facts.key},
                               {"labels", facts.labels.names()},
                               {"label_source", static_cast<int>(facts.label_source)},
                               {"label_counts", facts.label_counts},
                               {"bad", facts.bad},
                               {"bad_examples", facts.bad_examples},
                               {"others", facts.others}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ImageFacts facts_of(const std::string& text, const std::string& path) {
  try {
    const io::JsonValue json =
        io::parse_json(text, path, {.max_depth = 4, .max_values = 3 * kMaxLabels + 100});
    ImageFacts facts;
    facts.key = json.get_string("key");
    facts.labels = Labels::from_names(json.at("labels").as_strings());
    facts.label_source = static_cast<LabelSource>(
        json.at("label_source").as_int(0, static_cast<int64_t>(LabelSource::ids)));
    const io::JsonValue counts = json.at("label_counts");
    for (int64_t i = 0; i < counts.size(); ++i)
      facts.label_counts.push_back(counts.at(i).as_int(0));
    facts.bad = json.at("bad").as_int(0);
    facts.bad_examples = json.at("bad_examples").as_strings();
    facts.others = json.at("others").as_int(0);
    if (facts.label_counts.size() == facts.labels.names().size()) return facts;
  } catch (const Error&) {
    // What is wrong with them says nothing to anybody.
  }
  throw damaged(path, "its metadata are none");
}

}  // namespace

ImageCacheWriter::ImageCacheWriter(const std::string& path, const ImageSize& size)
    : temporary_(path, {.what = "another process is writing this cache of images",
                        .hint = "wait for it, or use another output_dir"}),
      size_(size),
      file_(temporary_.duplicate(), sizeof(ImageCacheHeader)),
      records_(io::open_nameless(path)),
      names_(io::open_nameless(path)) {}

void ImageCacheWriter::add(const RgbImage& image, int32_t label, const std::string& name) {
  SNUG_CHECK(image.width == size_.width && image.height == size_.height,
             "an image of another size");
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(image.bytes)));
  file_.write(std::as_bytes(std::span(image.bytes)));
  names_.write(std::as_bytes(std::span(name)));
  const ImageRecord record{.name_end = static_cast<uint64_t>(names_.position()),
                           .label = label,
                           .checksum = checksum.folded()};
  records_.write(bytes_of(record));
  ++rows_;
}

void ImageCacheWriter::finish(const ImageFacts& facts) {
  Checksum checksum;
  std::array<std::byte, kCopyBytes> buffer;
  for (io::BufferedFile* from : {&records_, &names_}) {
    from->flush();
    const int64_t all = from->position();
    for (int64_t at = 0; at < all; at += static_cast<int64_t>(kCopyBytes)) {
      const auto piece =
          std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(kCopyBytes, all - at)));
      from->read_at(at, piece);
      checksum.add(piece);
      file_.write(piece);
    }
  }
  const std::string metadata = text_of(facts);
  ImageCacheHeader header{.rows = static_cast<uint64_t>(rows_),
                          .width = static_cast<uint32_t>(size_.width),
                          .height = static_cast<uint32_t>(size_.height),
                          .names_bytes = static_cast<uint64_t>(names_.position()),
                          .metadata_bytes = metadata.size(),
                          .index_checksum = checksum.value(),
                          .metadata_checksum = checksum_of(metadata)};
  header.header_checksum = checksum_of(header);
  file_.write(std::as_bytes(std::span(metadata)));
  file_.sync();
  file_.write_at(0, bytes_of(header));
  file_.sync();
  temporary_.commit();
}

ImageCache::ImageCache(const std::string& path) : path_(path), file_(io::File::open_read(path)) {
  file_.expect_random_reads();
  check_header();
  check_index();
  read_facts();
}

void ImageCache::read_at(int64_t offset, std::span<std::byte> bytes) const {
  const auto wanted = static_cast<int64_t>(bytes.size());
  if (file_.read_some_at(offset, bytes.data(), wanted) != wanted)
    throw damaged(path_, "it ends too early");
}

void ImageCache::check_header() {
  const ImageCacheHeader ours;
  read_at(0, std::as_writable_bytes(std::span(&header_, 1)));
  if (header_.magic != ours.magic) throw damaged(path_, "it is none, or was never completed");
  if (header_.version != ours.version) throw damaged(path_, "it is of another version");
  if (header_.complete != ours.complete || header_.header_checksum != checksum_of(header_))
    throw damaged(path_, "its header does not match its checksum");
  // Every term is bounded before they are added.
  const auto bytes = static_cast<uint64_t>(file_.size_bytes());
  const bool is_bounded = header_.width >= 1 && header_.width <= kMostSide && header_.height >= 1 &&
                          header_.height <= kMostSide &&
                          header_.rows <= bytes / static_cast<uint64_t>(image_bytes()) &&
                          header_.names_bytes <= bytes && header_.metadata_bytes <= kMostFactsBytes;
  const uint64_t pixels = is_bounded ? header_.rows * static_cast<uint64_t>(image_bytes()) : 0;
  if (!is_bounded || sizeof(ImageCacheHeader) + pixels + header_.rows * sizeof(ImageRecord) +
                             header_.names_bytes + header_.metadata_bytes !=
                         bytes)
    throw damaged(path_, "its size does not match its header");
  index_offset_ = static_cast<int64_t>(sizeof(ImageCacheHeader) + pixels);
}

// Records and names through one buffer: checksum, and names that follow one another.
void ImageCache::check_index() {
  std::array<std::byte, kCopyBytes> buffer;
  Checksum checksum;
  const int64_t records = rows() * static_cast<int64_t>(sizeof(ImageRecord));
  uint64_t name_end = 0;
  for (const auto& [begin, bytes] :
       {std::pair{int64_t{0}, records}, {records, static_cast<int64_t>(header_.names_bytes)}}) {
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(kCopyBytes)) {
      const auto piece =
          std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(kCopyBytes, bytes - at)));
      read_at(index_offset_ + begin + at, piece);
      checksum.add(piece);
      for (size_t i = 0; begin == 0 && i < piece.size(); i += sizeof(ImageRecord)) {
        ImageRecord each;
        std::memcpy(&each, piece.data() + i, sizeof each);
        if (each.name_end < name_end || each.name_end > header_.names_bytes)
          throw damaged(path_, "its names do not follow one another");
        name_end = each.name_end;
      }
    }
  }
  if (checksum.value() != header_.index_checksum)
    throw damaged(path_, "its index does not match its checksum");
}

void ImageCache::read_facts() {
  std::string text(header_.metadata_bytes, '\0');
  read_at(index_offset_ + rows() * static_cast<int64_t>(sizeof(ImageRecord)) +
              static_cast<int64_t>(header_.names_bytes),
          std::as_writable_bytes(std::span(text)));
  if (checksum_of(text) != header_.metadata_checksum)
    throw damaged(path_, "its metadata do not match their checksum");
  facts_ = facts_of(text, path_);
  Checksum content;
  content.add(bytes_of(header_.index_checksum));
  for (const std::string& name : facts_.labels.names()) {
    content.add(bytes_of(name.size()));
    content.add(std::as_bytes(std::span(name)));
  }
  content_hash_ = content.value();
}

ImageRecord ImageCache::record(int64_t row) const {
  SNUG_CHECK(row >= 0 && row < rows(), "row out of range");
  ImageRecord record;
  read_at(index_offset_ + row * static_cast<int64_t>(sizeof record),
          std::as_writable_bytes(std::span(&record, 1)));
  if (record.label < -1 || record.label >= std::max(facts_.labels.size(), 0))
    throw damaged(path_, "a label is no class");
  return record;
}

std::string ImageCache::name(int64_t row) const {
  const uint64_t begin = row == 0 ? 0 : record(row - 1).name_end;
  const uint64_t end = record(row).name_end;
  if (end < begin || end > header_.names_bytes) throw damaged(path_, "a name has no place");
  std::string name(end - begin, '\0');
  read_at(index_offset_ + rows() * static_cast<int64_t>(sizeof(ImageRecord)) +
              static_cast<int64_t>(begin),
          std::as_writable_bytes(std::span(name)));
  return name;
}

void ImageCache::check_image(int64_t row, uint32_t checksum) const {
  if (record(row).checksum != checksum)
    throw damaged(path_, "image " + std::to_string(row) + " does not match its checksum");
}

// Pages of a large file do not pile up in the page cache, which counts in a control group.
void ImageCache::note_read() const {
  if (touched_bytes_.fetch_add(image_bytes()) + image_bytes() < kForgottenBytes) return;
  touched_bytes_.store(0);
  file_.release_cache();
}

}  // namespace snug::data
