// SPDX-License-Identifier: Apache-2.0
// The names that Hugging Face's datasets give to whole numbers of a column (ClassLabel, or lists of
// it), which its Arrow files say beside their columns.
#pragma once

#include <string>
#include <vector>

#include "io/arrow_file.h"

namespace snug::data {

/// By number; empty where the file names none. Throws Error{bad_data} for a description that cannot
/// be read.
[[nodiscard]] std::vector<std::string> class_names(const io::ArrowFile& file,
                                                   const std::string& column);
/// The same for all Arrow files that `files` means (data/row_files.h), which have to agree; empty
/// where there are none. Throws Error{bad_data} where they do not.
[[nodiscard]] std::vector<std::string> class_names_of(const std::string& files,
                                                      const std::string& column);

}  // namespace snug::data
