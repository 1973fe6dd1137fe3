// SPDX-License-Identifier: Apache-2.0
// The rows of files that cannot be read, and why: a prediction owes each of them a line. They wait
// in a file, so that memory does not grow with their number, and are found before the run's memory
// is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/row_reader.h"
#include "io/file.h"

namespace snug::run_rows {

class SkippedRows {
 public:
  struct Row {
    int64_t number = 0;  // in all files, from 0; good rows count
    std::string file;    // of an image: its path below the folder
    std::string reason;  // "file:line: what"
  };

  /// Hears of each row that cannot be read, in order.
  using Add = std::function<void(const Row& row)>;
  /// `find` reads the rows once. `scratch` is created and has no name from then on.
  SkippedRows(const std::string& scratch, const std::function<void(const Add&)>& find);
  /// The next of them where it has this number.
  [[nodiscard]] std::optional<Row> take(int64_t number);

 private:
  struct Record {
    int64_t number = -1;       // -1: there is none
    int64_t file_bytes = 0;    // which follow
    int64_t reason_bytes = 0;  // likewise
  };
  void read_record();
  [[nodiscard]] std::string read_text(int64_t bytes);

  io::File file_;
  int64_t written_ = 0;  // bytes
  int64_t read_ = 0;
  Record next_;
};

/// Those of files of text.
[[nodiscard]] SkippedRows skipped_texts(const std::vector<std::string>& files,
                                        const data::RowSchema& schema, const std::string& scratch);

}  // namespace snug::run_rows
