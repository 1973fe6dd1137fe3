// SPDX-License-Identifier: Apache-2.0
// What the fuzzed readers share. A reader is a function `void read_NAME(std::string_view input)` in
// NAME_fuzz.cc that feeds the bytes to the product as a file, a text or words, and then does with
// the result what the product does. It may return or throw Error; accept() judges the error.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace snug::fuzz {

/// Runs the reader. Aborts where an Error says that Snug is at fault (ErrorCode::internal), or
/// where its text is not fit for a terminal. Any other exception passes and ends the process.
void accept(const std::function<void(std::string_view)>& reader, std::string_view input);

/// Aborts where a property of the product does not hold.
void require(bool holds, const char* property);

/// Writes the bytes into a file of this name, which may begin with a folder's, in a folder in
/// memory, which is made once and removed at the end. Returns the path.
std::string write_file(const std::string& name, std::string_view bytes);

/// Cuts the input at its NUL bytes into at most `count` parts; missing ones are empty.
std::vector<std::string_view> parts_of(std::string_view input, size_t count);

/// Takes one byte from the front: a choice for the harness (0 where nothing is left).
unsigned char take_byte(std::string_view& input);

/// Replaces every occurrence; for what a file must hold and random bytes cannot know.
std::string replace(std::string text, std::string_view from, std::string_view to);

}  // namespace snug::fuzz
