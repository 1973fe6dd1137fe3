// SPDX-License-Identifier: Apache-2.0
// Run configurations as YAML: one flat mapping of keys to values or lists of values.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "base/numbers.h"
#include "config/option.h"
#include "config/training_arguments.h"
#include "io/file.h"
#include "io/json_events.h"
#include "io/json_tree.h"
#include "snug/config.h"
#include "snug/error.h"

namespace snug {
namespace {

// The parser's document takes up to 270 times the bytes of its text.
constexpr int64_t kMaxFileBytes = int64_t{64} << 10;

std::string place(const std::string& name, const YAML::Mark& mark) {
  return mark.is_null() ? name : name + ":" + std::to_string(mark.line + 1);
}

[[noreturn]] void fail(const std::string& where, const std::string& message,
                       const std::string& hint) {
  throw Error(ErrorCode::bad_config, where, message, hint);
}

// Counts documents as far as the second. Some broken texts make the library's parser find empty
// documents without end, which its own loading of all documents would collect.
class DocumentCounter : public YAML::EventHandler {
 public:
  int count = 0;

  void OnDocumentStart(const YAML::Mark&) override { ++count; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// The parser's stream; without this it is of the locale that the host has set.
std::istringstream plain_stream(const std::string& text) {
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  return stream;
}

bool has_one_document(const std::string& text) {
  std::istringstream stream = plain_stream(text);
  YAML::Parser parser(stream);
  DocumentCounter documents;
  while (documents.count < 2 && parser.HandleNextDocument(documents)) {
  }
  return documents.count < 2;
}

// The parser reads the number behind %YAML by the locale that the host has set: 1.1 and 1.2, which
// are the same to it, become comments.
std::string without_version(std::string text) {
  for (size_t begin = 0; begin < text.size() && text[begin] != '-';) {
    if (std::string_view(text).substr(begin).starts_with("%YAML 1.")) text[begin] = '#';
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  }
  return text;
}

// The one document of the text; null where there is none.
YAML::Node parse_document(const std::string& given, const std::string& name) {
  const std::string text = without_version(given);
  try {
    if (!has_one_document(text)) fail(name, "the file holds several YAML documents", "keep one");
    return YAML::Load(text);
  } catch (const YAML::Exception& broken) {
    fail(place(name, broken.mark), "broken YAML: " + io::clean_parser_message(broken.msg),
         "write one 'key: value' a line");
  }
}

// A plain value as JSON, whose numbers are not written ".001" or "1.", as YAML's and ours may be.
std::string scalar_text(const YAML::Node& value) {
  const std::string& text = value.Scalar();
  const std::optional<double> number = value.Tag() == "!" ? std::nullopt : number_in<double>(text);
  if (!number || !std::isfinite(*number)) return io::quote_json(text);
  return number_text(*number);
}

// A mapping of plain values, and of lists and mappings of them, as JSON.
std::string object_text(const YAML::Node& object, const std::string& key,
                        const std::string& where) {
  std::vector<std::string> fields;
  for (const auto& field : object) {
    const YAML::Node& value = field.second;
    std::vector<std::string> items;
    // As LoraConfig's rank_pattern.
    const bool is_inner =
        value.IsMap() && std::all_of(value.begin(), value.end(), [](const auto& each) {
          return each.first.IsScalar() && each.second.IsScalar();
        });
    if (is_inner || value.IsNull()) {
      fields.push_back(io::quote_json(field.first.Scalar()) + ": " +
                       (is_inner ? object_text(value, key, where) : "null"));
      continue;
    }
    bool is_plain = field.first.IsScalar() && (value.IsScalar() || value.IsSequence());
    for (size_t i = 0; is_plain && value.IsSequence() && i < value.size(); ++i) {
      is_plain = value[i].IsScalar();
      if (is_plain) items.push_back(io::quote_json(value[i].Scalar()));
    }
    if (!is_plain)
      fail(where, key + ": a field holds something other than a plain value",
           "write 'name: value'");
    fields.push_back(
        io::quote_json(field.first.Scalar()) + ": " +
        (value.IsSequence() ? "[" + spec::join(items, ", ") + "]" : scalar_text(value)));
  }
  return "{" + spec::join(fields, ", ") + "}";
}

// A list of mappings, as JSON.
std::string objects_text(const YAML::Node& list, const std::string& key, const std::string& where) {
  std::vector<std::string> items;
  for (const YAML::Node& item : list) {
    if (!item.IsMap())
      fail(where, key + ": the list holds something other than mappings",
           "write '- {match: \"*.bias\", weight_decay: 0}'");
    items.push_back(object_text(item, key, where));
  }
  return "[" + spec::join(items, ", ") + "]";
}

// A scalar as it stands, a list joined by commas.
std::string value_text(const YAML::Node& value, const std::string& key, const std::string& where) {
  if (value.IsScalar()) return value.Scalar();
  if (value.IsNull())
    fail(where, key + ": the value is missing", "give one, or remove the line to take the default");
  const config::Option* option = config::find_option(key);
  if (value.IsMap() && option != nullptr && option->form == spec::ValueForm::object)
    return object_text(value, key, where);
  if (value.IsMap())
    fail(where, key + ": a mapping stands where a value belongs",
         "keys are not nested: write 'key: value'");
  if (option != nullptr && option->form == spec::ValueForm::object_list)
    return objects_text(value, key, where);
  // A field of TrainingArguments that may be an empty list may be a list of one.
  const config::TrainingArgument* field = config::find_training_argument(key);
  const bool is_list =
      option != nullptr &&
      (option->form == spec::ValueForm::number_list || option->form == spec::ValueForm::text_list ||
       option->takes_list || (field != nullptr && field->accepted == "none|"));
  if (option != nullptr && !is_list)
    fail(where, key + ": a list stands where one value belongs", "write '" + key + ": VALUE'");
  std::vector<std::string> items;
  for (const YAML::Node& item : value) {
    if (!item.IsScalar())
      fail(where, key + ": the list holds something other than plain values", "write [a, b, c]");
    if (item.Scalar().find(',') != std::string::npos)
      fail(where, key + ": an element holds a comma", "split it");
    items.push_back(item.Scalar());
  }
  return spec::join(items, ",");
}

// The value of a field that is no key, as a word: null and mappings, too.
std::string field_text(const YAML::Node& value) {
  if (value.IsNull()) return "none";
  if (value.IsScalar()) return value.Scalar();
  std::vector<std::string> items;
  if (value.IsSequence()) {
    for (const YAML::Node& item : value) items.push_back(field_text(item));
    return spec::join(items, ",");
  }
  for (const auto& entry : value)
    items.push_back(field_text(entry.first) + ": " + field_text(entry.second));
  return "{" + spec::join(items, ", ") + "}";
}

// Null in a field that Hugging Face's configurations hold is None.
bool reads_as_field(const std::string& key, const YAML::Node& value) {
  const config::TrainingArgument* field = config::find_training_argument(key);
  if (field == nullptr) return false;
  return field->fate != config::FieldFate::kept || (value.IsNull() && field->accepted == "none");
}

void apply_yaml(RunConfig& config, config::GivenFields& fields, const std::string& text,
                const std::string& name) {
  const YAML::Node root = parse_document(text, name);
  if (!root.IsDefined() || root.IsNull()) return;
  if (!root.IsMap())
    fail(name, "a run configuration is a mapping of keys to values",
         "write one 'key: value' a line");
  std::map<std::string, std::string> lines;
  for (const auto& entry : root) {
    const std::string where = place(name, entry.first.Mark());
    if (!entry.first.IsScalar())
      fail(where, "a key must be a plain word", "write one 'key: value' a line");
    const std::string key = config::normal_key(entry.first.Scalar());
    const auto [first, is_new] = lines.emplace(key, where);
    if (!is_new)
      fail(where, "the key '" + key + "' stands twice, first at " + first->second,
           "remove one of them");
    const bool is_field = reads_as_field(key, entry.second);
    if (!is_field && config::find_option(key) == nullptr)
      throw_unknown_option(entry.first.Scalar(), where);
    const std::string value =
        is_field ? field_text(entry.second) : value_text(entry.second, key, where);
    config::take_value(config, fields, key, value, ConfigSource::file, where);
  }
}

void apply_overrides(RunConfig& config, config::GivenFields& fields,
                     const ConfigOverrides& overrides) {
  for (const auto& [key, value] : overrides) {
    config::take_value(config, fields, key,
                       value ? std::optional<std::string_view>(*value) : std::nullopt,
                       ConfigSource::command_line, "--" + key);
  }
}

// A value as YAML writes it; quoted wherever it could be read as something else.
std::string yaml_value(const config::Option& option, const std::string& text) {
  using spec::ValueForm;
  if (const auto items = config::items_text(option.form, text)) return *items;
  return option.form == ValueForm::text && option.info.type == "text" ? io::quote_json(text) : text;
}

}  // namespace

RunConfig RunConfig::parse(std::string_view yaml, const std::string& name,
                           const ConfigOverrides& overrides, std::string_view recompute_variable) {
  RunConfig config;
  config::GivenFields fields;
  apply_yaml(config, fields, std::string(yaml), name);
  apply_overrides(config, fields, overrides);
  config::apply_training_arguments(config, fields);
  config::apply_recompute_variable(config, recompute_variable);
  config.validate();
  return config;
}

RunConfig RunConfig::load(const std::string& yaml_file, const ConfigOverrides& overrides,
                          std::string_view recompute_variable) {
  return parse(yaml_file.empty() ? std::string() : io::read_all(yaml_file, kMaxFileBytes),
               yaml_file, overrides, recompute_variable);
}

std::string RunConfig::to_yaml() const {
  std::string text;
  std::string group;
  for (const config::Option& option : config::option_table()) {
    if (option.info.group != group) {
      group = option.info.group;
      text += (text.empty() ? "# " : "\n# ") + group + "\n";
    }
    text += option.info.name + ": " + yaml_value(option, option.get(*this)) + "  # " +
            std::string(to_string(source_of(option.info.name))) + "\n";
  }
  return text;
}

}  // namespace snug
