// SPDX-License-Identifier: Apache-2.0
#include "spec/table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/numbers.h"
#include "io/nearest.h"
#include "snug/error.h"
#include "spec/json.h"

namespace snug::spec {
namespace {

/// What a line of the list says of its field.
template <class T>
struct FieldRow {
  Kind<T> kind = {};
  std::string key = {};              // where RunConfig has the field in another form
  std::optional<Range> limits = {};  // of a session's number; none: those of the kind
  std::string fix = {};              // the hint where it is out of them
  bool changes_result = false;
  bool follows_checkpoint = false;
  bool is_of_update = false;
  ResumeRule on_resume = ResumeRule::fixed;
  std::vector<LeverValue> levers = {};
  HelpPlace place = {};
  std::string unit = {};
  std::string help = {};
};

template <class T>
constexpr bool kIsNumber = std::is_same_v<T, int64_t> || std::is_same_v<T, double>;

/// What a caller's own number may be: text has been checked by its kind.
template <class T>
std::optional<Range> limits_of(const FieldRow<T>& row) {
  if (row.limits || !row.kind.bounds) return row.limits;
  Range limits = *row.kind.bounds;
  if (row.kind.info.has_auto) limits.low = 0;
  return limits;
}

std::string text_of(int64_t number) { return std::to_string(number); }
std::string text_of(double number) { return number_text(number); }

template <class T>
void check_number(const std::string& name, const FieldRow<T>& row, T value) {
  const std::optional<Range> limits = limits_of(row);
  if (!limits) return;
  const auto number = static_cast<double>(value);
  const bool is_finite = row.limits || std::isfinite(number);
  if (is_finite && limits->holds(number)) return;
  const bool is_plain = limits->low == 0 && !limits->is_low_open && limits->high >= kMaxCount;
  throw Error(
      ErrorCode::bad_config, name,
      text_of(value) + (is_plain ? " is not 0 or more" : " is not within " + limits->text()),
      row.fix);
}

template <class T>
Field field(const std::string& name, const std::string& key, T TrainSpec::*member,
            FieldRow<T> row) {
  Field made{.name = name,
             .key = row.key.empty() ? key : row.key,
             .kind = row.kind.info,
             .changes_result = row.changes_result,
             .follows_checkpoint = row.follows_checkpoint,
             .is_of_update = row.is_of_update,
             .on_resume = row.on_resume,
             .levers = row.levers,
             .place = row.place,
             .unit = row.unit,
             .help = row.help};
  if (row.kind.parse) {
    made.set = [member, parse = row.kind.parse](TrainSpec& spec, std::string_view text) {
      spec.*member = parse(text);
    };
    made.get = [member, print = row.kind.print](const TrainSpec& spec) {
      return print(spec.*member);
    };
  }
  made.json = [member](const TrainSpec& spec) { return json_of(spec.*member); };
  if constexpr (kIsNumber<T>) {
    made.check = [name, row, member](const TrainSpec& spec) {
      check_number(name, row, spec.*member);
    };
  }
  return made;
}

std::vector<Field> make_fields() {
  std::vector<Field> all;
#define SNUG_TRAIN_FIELD(type, name, value, ...) \
  all.push_back(field<type>(#name, {}, &TrainSpec::name, {__VA_ARGS__}));
#define SNUG_TRAIN_KEY(type, name, value, key, run_value, ...) \
  all.push_back(field<type>(#name, #key, &TrainSpec::name, {__VA_ARGS__}));
#include "snug/train_fields.inc"
  return all;
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> all = make_fields();
  return all;
}

const Field* find_key(std::string_view key) {
  const auto found = std::find_if(fields().begin(), fields().end(),
                                  [&](const Field& field) { return field.key == key; });
  return key.empty() || found == fields().end() ? nullptr : &*found;
}

const Field& field_of_key(std::string_view key) {
  if (const Field* field = find_key(key)) return *field;
  std::vector<std::string> keys;
  for (const Field& field : fields()) {
    if (!field.key.empty()) keys.push_back(field.key);
  }
  const std::string nearest = io::nearest_name(key, keys);
  throw Error(ErrorCode::bad_config, std::string(key),
              "unknown key '" + std::string(key) + "' of a session",
              nearest.empty() ? "the keys are in docs/configuration.md"
                              : "did you mean '" + nearest + "'?");
}

void set_key(TrainSpec& spec, std::string_view key, std::string_view value) {
  const Field& field = field_of_key(key);
  try {
    field.set(spec, value);
  } catch (const BadValue& bad) {
    throw Error(ErrorCode::bad_config, std::string(key), bad.what(),
                bad.hint.empty() ? "allowed: " + field.kind.range : bad.hint);
  }
}

void check_ranges(const TrainSpec& spec) {
  for (const Field& field : fields()) {
    if (field.check) field.check(spec);
  }
}

std::string lever_word(std::string_view key, std::string_view value) {
  const Field* field = find_key(key);
  if (field == nullptr) return {};
  for (const LeverValue& lever : field->levers) {
    if (lever.value.empty() || lever.value == value) return lever.word;
  }
  return {};
}

}  // namespace snug::spec
