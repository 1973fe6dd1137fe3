// SPDX-License-Identifier: Apache-2.0
#include "text/foreign_file.h"

#include <string>

#include "snug/error.h"

namespace snug {

std::ifstream open_tokenizer_file(const std::filesystem::path& file) {
  std::error_code failed;
  const bool is_other =
      std::filesystem::exists(file, failed) && !std::filesystem::is_regular_file(file, failed);
  std::ifstream in;
  if (!is_other) in.open(file, std::ios::binary);
  if (!in.is_open())
    throw Error(ErrorCode::io, file.string(), "cannot open the tokenizer",
                "check the path of the tokenizer");
  const uintmax_t bytes = std::filesystem::file_size(file, failed);
  if (failed || bytes > static_cast<uintmax_t>(kMaxTokenizerFileBytes)) {
    throw Error(ErrorCode::bad_data, file.string(),
                "the file has " + std::to_string(bytes) + " bytes; at most " +
                    std::to_string(kMaxTokenizerFileBytes) + " are read",
                "name a WordPiece tokenizer");
  }
  return in;
}

}  // namespace snug
