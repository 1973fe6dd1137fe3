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
  find([&](int64_t number, const std::string& reason) {
    const Record record{.number = number, .bytes = static_cast<int64_t>(reason.size())};
    file_.write_all(&record, sizeof record);
    file_.write_all(reason.data(), record.bytes);
    written_ += static_cast<int64_t>(sizeof record) + record.bytes;
  });
  read_record();
}

SkippedRows skipped_texts(const std::vector<std::string>& files, const data::RowSchema& schema,
                          const std::string& scratch) {
  return {scratch, [&](const SkippedRows::Add& add) {
            int64_t rows = 0;
            data::BadRowLog log{.policy = BadRows::skip};
            log.on_skip = [&](const std::string& reason) { add(rows++, reason); };
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

std::optional<SkippedRows::Row> SkippedRows::take(int64_t number) {
  if (next_.number != number) return std::nullopt;
  Row row{.number = number, .reason = std::string(static_cast<size_t>(next_.bytes), '\0')};
  file_.read_at(read_, reinterpret_cast<std::byte*>(row.reason.data()), next_.bytes);
  read_ += next_.bytes;
  read_record();
  return row;
}

}  // namespace snug::run_rows
