// SPDX-License-Identifier: Apache-2.0
#include "run_rows/skipped_rows.h"

#include "base/stop.h"
#include "data/rows.h"
#include "io/buffered_file.h"

namespace snug::run_rows {
namespace {

constexpr int64_t kStopRows = 4096;

}  // namespace

SkippedRows::SkippedRows(const std::string& scratch, const std::function<void(const Add&)>& find)
    : file_(io::open_nameless(scratch)) {
  find([&](const Row& row) {
    const Record record{.number = row.number,
                        .file_bytes = static_cast<int64_t>(row.file.size()),
                        .reason_bytes = static_cast<int64_t>(row.reason.size())};
    file_.write_all(&record, sizeof record);
    file_.write_all(row.file);
    file_.write_all(row.reason);
    written_ += static_cast<int64_t>(sizeof record) + record.file_bytes + record.reason_bytes;
  });
  read_record();
}

SkippedRows skipped_texts(const std::vector<std::string>& files, const data::RowSchema& schema,
                          const std::string& scratch) {
  return {scratch, [&](const SkippedRows::Add& add) {
            int64_t rows = 0;
            data::BadRowLog log{.policy = BadRows::skip};
            log.on_skip = [&](const std::string& reason) {
              add({.number = rows++, .file = {}, .reason = reason});
            };
            for (const std::string& file : files) {
              const auto reader = data::open_rows(file, schema, log);
              data::Row row;
              while (reader->next(row)) {
                if (rows++ % kStopRows == 0) stop_point();
              }
            }
          }};
}

void SkippedRows::read_record() {
  next_ = {};
  if (read_ == written_) return;
  file_.read_at(read_, reinterpret_cast<std::byte*>(&next_), sizeof next_);
  read_ += static_cast<int64_t>(sizeof next_);
}

std::string SkippedRows::read_text(int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  file_.read_at(read_, reinterpret_cast<std::byte*>(text.data()), bytes);
  read_ += bytes;
  return text;
}

std::optional<SkippedRows::Row> SkippedRows::take(int64_t number) {
  if (next_.number != number) return std::nullopt;
  Row row{.number = number, .file = read_text(next_.file_bytes), .reason = {}};
  row.reason = read_text(next_.reason_bytes);
  read_record();
  return row;
}

}  // namespace snug::run_rows
