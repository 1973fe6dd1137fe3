// SPDX-License-Identifier: Apache-2.0
#include "run_rows/streams.h"

#include <algorithm>

#include "data/row_files.h"
#include "data/source.h"
#include "io/file.h"
#include "io/stream.h"
#include "notices/say.h"
#include "snug/error.h"

namespace snug::run_rows {
namespace {

std::string shown_name(const std::string& stream) {
  return stream == io::kStandardInput ? "standard input" : stream;
}

std::string copy_rows(const std::string& stream, const RunOptions& options,
                      const std::string& folder) {
  const bool is_in_memory = io::lies_in_memory(folder);
  const auto on_bytes = [&](int64_t bytes) {
    data::check_cancelled(options.cancel, shown_name(stream));
    if (is_in_memory) require_memory_for_files(folder);
    if (options.callbacks.on_progress)
      options.callbacks.on_progress({"copying " + shown_name(stream), bytes, 0});
  };
  return io::copy_stream(stream, folder, data::suffix_of_rows, on_bytes);
}

}  // namespace

CopiedStreams::CopiedStreams(RunConfig& config, const RunOptions& options, const WorkFolder& work,
                             const std::vector<FileKey>& keys, Copies copies) {
  std::vector<std::string> streams;
  for (const FileKey key : keys) {
    std::string& file = config.*key;
    if (file.empty() || !io::is_stream(file)) continue;
    if (std::find(streams.begin(), streams.end(), file) != streams.end())
      throw Error(ErrorCode::bad_config, file, "two files of rows are this one stream",
                  "give one of them as a file: a stream ends once");
    streams.push_back(file);
    file = copy_rows(file, options, work.path());
    if (copies == Copies::are_removed) removed_.push_back(file);
    notices::say(options,
                 "the rows of " + shown_name(streams.back()) + " are in " + file +
                     (copies == Copies::are_removed ? " for now" : ", which a resumed run reads"));
  }
}

CopiedStreams::~CopiedStreams() {
  for (const std::string& file : removed_) {
    try {
      io::remove_all(file);
    } catch (const Error&) {
      // What cannot be removed is no reason to fail a run that is over.
    }
  }
}

}  // namespace snug::run_rows
