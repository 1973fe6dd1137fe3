// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include "snug/error.h"

namespace snug {

void check_failed(const char* file, int line, const char* condition, const std::string& note) {
  throw Error(ErrorCode::internal, std::string(file) + ":" + std::to_string(line),
              std::string("check failed: ") + condition + (note.empty() ? "" : " (" + note + ")"),
              "this is a bug in Snug; please report it with the command that led here");
}

}  // namespace snug
