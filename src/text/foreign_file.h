// SPDX-License-Identifier: Apache-2.0
// The files of a tokenizer, opened as what they are: foreign and of any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace snug {

/// Published vocabularies of half a million tokens take 10 MB.
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{32} << 20;

/// What stands there, or nothing; Error{io} where the disk cannot say.
[[nodiscard]] std::filesystem::file_status status_of(const std::filesystem::path& file);

/// Opens a regular file of at most kMaxTokenizerFileBytes. Throws Error{io} or Error{bad_data}.
[[nodiscard]] std::ifstream open_tokenizer_file(const std::filesystem::path& file);

}  // namespace snug
