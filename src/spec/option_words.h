// SPDX-License-Identifier: Apache-2.0
// How an option is called where a text says what would help: as who reads it sets it.
#pragma once

#include <cstdint>
#include <string>

namespace snug::spec {

/// `--key value` of the command line, or `field = value` of SessionOptions.
enum class OptionWords : uint8_t { command_line, fields };

/// `key` is the command line's; an empty value: the switch is on.
[[nodiscard]] std::string option_words(OptionWords words, const std::string& key,
                                       const std::string& value);
/// The value that the field of `key` has where the command line's key has this one.
[[nodiscard]] std::string field_value(const std::string& key, const std::string& value);
/// The longest rows: the length of this name, or the one without.
[[nodiscard]] std::string length_words(OptionWords words, const std::string& name, int64_t length);

}  // namespace snug::spec
