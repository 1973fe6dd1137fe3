// SPDX-License-Identifier: Apache-2.0
#include "data/image_codecs.h"

#include "base/printable.h"
#include "data/source.h"

namespace snug::data {

void fail_image(const std::string& where, const std::string& what) {
  throw RowError(ErrorCode::bad_data, where, printable_name(what),
                 "replace or remove the file, or set bad_rows to skip");
}

}  // namespace snug::data
