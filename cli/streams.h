// SPDX-License-Identifier: Apache-2.0
// The three standard streams as this program found them: closed ones become /dev/null before any
// file is opened, and what could not be written is known at the end.
#pragma once

#include <string>

namespace snug::cli {

/// Opens /dev/null in the place of closed standard streams, so that no file of the program ever
/// takes the descriptor of one. Call first.
void open_closed_streams();

/// Writes what is still buffered. Returns "standard output" or "standard error" where a part of it
/// could not be written, else nothing.
[[nodiscard]] std::string unwritten_stream();

}  // namespace snug::cli
