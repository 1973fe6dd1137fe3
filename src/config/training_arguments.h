// SPDX-License-Identifier: Apache-2.0
// The fields of Hugging Face's TrainingArguments, of today's version and of older ones: one row
// each says whether Snug does what the field asks for, by which key, or why not. The parser, the
// errors and docs/training-arguments.md follow from the rows.
//
// Design: a field is never taken and left without effect in silence. It is a key here (kept), is
// turned into keys (translated), has values that ask for what happens anyway (anyway), or asks for
// nothing that a run here could do in another way, whatever its value (no_meaning: never what would
// change a result); every other value is an error that says what to do. What a field was turned
// into, what happens anyway and what has no meaning is said in RunConfig::notices.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "snug/config.h"

namespace snug::config {

enum class FieldFate : uint8_t { kept, translated, anyway, no_meaning };

struct TrainingArgument {
  std::string_view name;
  FieldFate fate = FieldFate::anyway;
  /// Values that ask for what happens anyway, in the form of plain_value(), with "|" between them.
  /// A kept field has "none" here where that is the key's default, and what else means it.
  std::string_view accepted;
  std::string_view meaning;    // what Snug does, as a sentence without its end
  std::string_view otherwise;  // what to do instead of giving another value, or for what it means
  bool is_switch = false;      // may stand without a value, which is true
};

[[nodiscard]] std::span<const TrainingArgument> training_arguments();
/// Null where it is no field; the name must be spelt with underscores.
[[nodiscard]] const TrainingArgument* find_training_argument(std::string_view name);

/// The value without its spelling: lower case, no blanks and quotes; None, null and ~ are "none",
/// empty lists and mappings are empty. Of a switch: true or false where it is one of their words.
[[nodiscard]] std::string plain_value(const TrainingArgument& field, std::string_view text);

/// Fields that are no keys, as they were given.
struct GivenField {
  std::string text;
  ConfigSource source = ConfigSource::default_value;
  std::string where;
};
using GivenFields = std::map<std::string, GivenField, std::less<>>;

/// Sets a key, or keeps a field for apply_training_arguments. The last of equal names wins.
void take_value(RunConfig& config, GivenFields& fields, std::string_view key,
                std::optional<std::string_view> value, ConfigSource source,
                const std::string& where);
/// Turns the fields into keys. A key that was given with another value is an error where it comes
/// from the same place; else the command line wins over the file.
void apply_training_arguments(RunConfig& config, const GivenFields& fields);

/// RECOMPUTE of the environment (bert4keras, keras_recompute), which the words of Python's
/// strtobool switch on and off; empty: not given. Run after all else is set.
void apply_recompute_variable(RunConfig& config, std::string_view value);

}  // namespace snug::config
