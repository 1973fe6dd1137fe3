// SPDX-License-Identifier: Apache-2.0
// Rows from standard input and from pipes. A run reads its rows several times (what their labels
// are, the words of a vocabulary, whether a cache is theirs), a stream gives them once: it is
// copied to a file, and the run is one over that file.
#pragma once

#include <string>
#include <vector>

#include "run_rows/run_data.h"

namespace snug::run_rows {

using FileKey = std::string RunConfig::*;

class CopiedStreams {
 public:
  /// stay: a run that is resumed reads them again. Nothing else takes them away.
  enum class Copies : uint8_t { are_removed, stay };

  /// Copies what these keys name into the folder of `work`, where it is a stream, and sets them to
  /// the copies. Throws Error{bad_config} where two of them name standard input, and what
  /// io::copy_stream throws.
  CopiedStreams(RunConfig& config, const RunOptions& options, const WorkFolder& work,
                const std::vector<FileKey>& keys, Copies copies);
  ~CopiedStreams();
  CopiedStreams(const CopiedStreams&) = delete;
  CopiedStreams& operator=(const CopiedStreams&) = delete;

 private:
  std::vector<std::string> removed_;  // at the end
};

}  // namespace snug::run_rows
