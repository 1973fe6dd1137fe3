// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files: records framed with masked CRC-32C (TFRecord), each an Event of
// protobuf. Scalars and texts alone; nothing waits in a buffer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/file.h"

namespace snug::io {

/// The CRC with Castagnoli's polynomial, as in RFC 3720.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);

/// When, in seconds since 1970, and behind which update.
struct EventTime {
  double wall_time = 0;
  int64_t step = 0;
};

struct Scalar {
  std::string tag;  // "train/loss"
  double value = 0;
};

class EventFile {
 public:
  /// Creates the file. Whatever earlier files of the folder have at `begin.step` or later is not
  /// shown any more (a session that starts there).
  EventFile(const std::string& path, const EventTime& begin);
  /// One event; what is not finite is left out.
  void write(const EventTime& time, std::span<const Scalar> scalars);
  /// A text, in Markdown.
  void write(const EventTime& time, std::string_view tag, std::string_view markdown);
  void sync() { file_.sync(); }

 private:
  void write_record(std::string_view event);

  File file_;
};

/// The path of a new file in `folder`, whose name sorts behind those that are there. Makes the
/// folder.
[[nodiscard]] std::string next_event_file(const std::string& folder, int64_t wall_seconds);

}  // namespace snug::io
