// SPDX-License-Identifier: Apache-2.0
#include "text/foreign_file.h"

#include <string>

#include "snug/error.h"

namespace snug {

namespace {

[[noreturn]] void fail_status(const std::filesystem::path& file, const std::error_code& reason) {
  throw Error(ErrorCode::io, file.string(), "cannot be looked at: " + reason.message(),
              "check the disk and the permissions");
}

}  // namespace

std::filesystem::file_status status_of(const std::filesystem::path& file) {
  std::error_code reason;
  const std::filesystem::file_status status = std::filesystem::status(file, reason);
  if (!std::filesystem::status_known(status)) fail_status(file, reason);
  return status;
}

std::ifstream open_tokenizer_file(const std::filesystem::path& file) {
  std::ifstream in;
  if (std::filesystem::is_regular_file(status_of(file))) in.open(file, std::ios::binary);
  if (!in.is_open())
    throw Error(ErrorCode::io, file.string(), "cannot open the tokenizer",
                "check the path of the tokenizer");
  std::error_code failed;
  const uintmax_t bytes = std::filesystem::file_size(file, failed);
  if (failed) fail_status(file, failed);
  if (bytes > static_cast<uintmax_t>(kMaxTokenizerFileBytes)) {
    throw Error(ErrorCode::bad_data, file.string(),
                "the file has " + std::to_string(bytes) + " bytes; at most " +
                    std::to_string(kMaxTokenizerFileBytes) + " are read",
                "name a WordPiece tokenizer");
  }
  return in;
}

}  // namespace snug
