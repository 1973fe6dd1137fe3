// SPDX-License-Identifier: Apache-2.0
// Fields of other programs' TrainingArguments into keys.
#include "config/training_arguments.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/numbers.h"
#include "config/foreign_optimizers.h"
#include "config/option.h"
#include "snug/error.h"

namespace snug::config {
namespace {

constexpr int64_t kRowsPerDevice = 8;   // Hugging Face's default of per_device_train_batch_size
constexpr int64_t kMostRows = 1 << 24;  // of one update
constexpr size_t kNoticesInFull = 4;    // more fields of what happens anyway are one line
constexpr const char* kPage = "docs/training-arguments.md";

// Those of Python's strtobool.
constexpr std::string_view kTrueWords = "true|t|yes|y|on|1";
constexpr std::string_view kFalseWords = "false|f|no|n|off|0";

bool is_in(std::string_view words, std::string_view value) {
  while (true) {
    const size_t bar = words.find('|');
    if (words.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    words.remove_prefix(bar + 1);
  }
}

// A share of the run, as newer versions take it.
bool is_share(std::string_view text) {
  const double value = number_in<double>(text).value_or(0);
  return value > 0 && value < 1;
}

// A value of a key that stands for other keys, too, or is to be said.
bool is_foreign_value(std::string_view key, std::string_view text) {
  if (key == "warmup_steps") return is_share(text);
  if (key == "report_to") return text == "all";
  return key == "optim" && find_foreign_optimizer(text) != nullptr;
}

[[noreturn]] void refuse(const GivenField& given, const std::string& message,
                         std::string_view hint) {
  throw Error(ErrorCode::bad_config, given.where, message, std::string(hint));
}

[[noreturn]] void refuse_value(const TrainingArgument& field, const GivenField& given) {
  refuse(
      given,
      std::string(field.name) + ": '" + given.text + "' is refused: " + std::string(field.meaning),
      field.otherwise.empty() ? "allowed: " + std::string(field.accepted)
                              : std::string(field.otherwise));
}

int64_t count_of(const TrainingArgument& field, const GivenField& given) {
  const int64_t value = number_in<int64_t>(given.text).value_or(0);
  if (value < 1 || value > kMostRows)
    refuse(given,
           std::string(field.name) + ": '" + given.text + "' is no number from 1 to " +
               std::to_string(kMostRows),
           field.otherwise);
  return value;
}

/// One translation: reads fields, sets keys, collects what is said.
class Translator {
 public:
  Translator(RunConfig& config, const GivenFields& fields) : config_(config), fields_(fields) {}

  void run() {
    set_batch();
    set_copy("per_device_eval_batch_size", "per_gpu_eval_batch_size", "eval_batch_size");
    set_recomputation();
    set_warmup();
    set_evaluation();
    set_strategy("save_strategy", "save_steps");
    set_strategy("logging_strategy", "logging_steps");
    set_resume();
    set_optimizer();
    set_report();
    set_sampling();
    say_constant();
    accept_rest();
  }

 private:
  struct Found {
    const TrainingArgument* field = nullptr;
    const GivenField* given = nullptr;
    explicit operator bool() const { return given != nullptr; }
    [[nodiscard]] std::string plain() const { return plain_value(*field, given->text); }
    [[nodiscard]] std::string text() const {
      const bool is_secret = field->name.ends_with("token");
      return std::string(field->name) +
             (is_secret ? "" : " " + (given->text.empty() ? "''" : given->text));
    }
  };

  [[nodiscard]] Found find(std::string_view name) const {
    const auto found = fields_.find(name);
    if (found == fields_.end()) return {};
    return {find_training_argument(name), &found->second};
  }
  // Two names of one field: the newer, unless the other comes from a stronger place.
  [[nodiscard]] Found find(std::string_view name, std::string_view older) const {
    const Found now = find(name), before = find(older);
    if (!now || !before) return now ? now : before;
    if (now.given->source != before.given->source)
      return now.given->source > before.given->source ? now : before;
    if (now.plain() != before.plain())
      refuse(*before.given, before.text() + " contradicts " + now.text(), "give one of them");
    return now;
  }

  /// False where the key has a value from a stronger place.
  bool put(std::string_view key, const std::string& value, const GivenField& given,
           const std::string& why) {
    const ConfigSource source = config_.source_of(key);
    const std::string before = config_.get(key);
    if (source > given.source) return false;
    set_option(config_, key, value, given.source, given.where);
    if (source == given.source && config_.get(key) != before)
      refuse(given, why + " contradicts " + std::string(key) + " " + before,
             "give one of them; " + std::string(kPage) + " says what each name means");
    return true;
  }
  void put_and_say(std::string_view key, const std::string& value, const GivenField& given,
                   const std::string& why) {
    if (put(key, value, given, why)) say(why + ": " + std::string(key) + " " + config_.get(key));
  }
  /// The same where a strategy leaves another key of the same place without effect, as it does in
  /// transformers.
  void overrule_and_say(std::string_view key, const std::string& value, const Found& found) {
    const ConfigSource source = config_.source_of(key);
    const std::string before = config_.get(key);
    if (source > found.given->source) return say(found.text() + ": " + kept_by(key));
    set_option(config_, key, value, found.given->source, found.given->where);
    const bool is_overruled = source != ConfigSource::default_value && config_.get(key) != before;
    say(found.text() + ": " + std::string(key) + " " + config_.get(key) +
        (is_overruled ? "; " + std::string(key) + " " + before + " has no meaning beside it" : ""));
  }
  [[nodiscard]] std::string kept_by(std::string_view key) const {
    return std::string(key) + " " + config_.get(key) + " of the " +
           std::string(to_string(config_.source_of(key))) + " stays";
  }
  void say(const std::string& text) { config_.notices.push_back(text); }

  // Rows of an update, from what Hugging Face and DeepSpeed multiply.
  void set_batch() {
    const Found rows = find("per_device_train_batch_size", "per_gpu_train_batch_size");
    const Found pieces = find("gradient_accumulation_steps");
    if (!rows && !pieces) return;
    const int64_t count = pieces ? count_of(*pieces.field, *pieces.given) : 1;
    if (!rows && set_split(pieces, count)) return;
    const int64_t each = rows ? count_of(*rows.field, *rows.given) : kRowsPerDevice;
    const GivenField& strongest = rows && (!pieces || rows.given->source >= pieces.given->source)
                                      ? *rows.given
                                      : *pieces.given;
    std::string why = rows ? rows.text() : "";
    if (pieces) why += (rows ? " x " : "") + pieces.text();
    if (!rows) why += " x per_device_train_batch_size 8, Hugging Face's default";
    if (each * count > kMostRows)
      refuse(strongest, why + " are more than " + std::to_string(kMostRows) + " rows",
             "give smaller numbers");
    if (!put("train_batch_size", std::to_string(each * count), strongest, why)) return;
    say(why + ": train_batch_size " + std::to_string(each * count) +
        (config_.micro_batch_size == 0 ? "; Snug picks the split (micro_batch_size sets it)" : ""));
  }

  // DeepSpeed's reading: train_batch_size = micro_batch_size x gradient_accumulation_steps.
  bool set_split(const Found& pieces, int64_t count) {
    const bool has_batch = config_.source_of("train_batch_size") != ConfigSource::default_value;
    const bool has_micro = config_.micro_batch_size > 0;
    if (has_batch) {
      const std::string batch = std::to_string(config_.train_batch_size);
      if (config_.train_batch_size % count != 0)
        refuse(*pieces.given, pieces.text() + " does not divide train_batch_size " + batch,
               "give micro_batch_size, or omit both: Snug picks the split");
      put_and_say("micro_batch_size", std::to_string(config_.train_batch_size / count),
                  *pieces.given, pieces.text() + " of train_batch_size " + batch);
    } else if (has_micro) {
      if (config_.micro_batch_size * count > kMostRows)
        refuse(*pieces.given, pieces.text() + " gives too large a batch", "give train_batch_size");
      put_and_say(
          "train_batch_size", std::to_string(config_.micro_batch_size * count), *pieces.given,
          pieces.text() + " x micro_batch_size " + std::to_string(config_.micro_batch_size));
    }
    return has_batch || has_micro;
  }

  void set_copy(std::string_view name, std::string_view older, std::string_view key) {
    if (const Found found = find(name, older))
      put_and_say(key, std::to_string(count_of(*found.field, *found.given)), *found.given,
                  found.text());
  }

  void set_recomputation() {
    const Found found = find("activation_checkpointing", "gradient_checkpointing");
    if (!found || accepts(found)) return;
    const std::string value = found.plain();
    if (value != "true" && value != "false") refuse_value(*found.field, *found.given);
    put_and_say("recompute", value == "true" ? "all" : "none", *found.given, found.text());
  }

  void set_warmup() {
    const Found found = find("warmup_steps");
    if (!found) return;
    put_and_say("warmup_ratio", found.given->text, *found.given, found.text());
    put("warmup_steps", "0", *found.given, found.text());
  }

  void set_evaluation() {
    Found found = find("eval_strategy", "evaluation_strategy");
    std::string value = found ? found.plain() : "";
    if (const Found old = find("evaluate_during_training"); old && !found) {
      found = old;
      value = old.plain() == "true" ? "steps" : old.plain() == "false" ? "no" : "";
    } else if (old) {
      refuse(*old.given, old.text() + " and " + found.text() + " say the same thing twice",
             "omit " + std::string(old.field->name));
    }
    if (!found) return;
    if (value == "steps") {
      overrule_and_say("eval_steps", steps_between_evaluations(), found);
    } else if (value == "epoch") {
      overrule_and_say("eval_steps", "epoch", found);
    } else if (value == "no") {
      end_evaluation(found);
    } else {
      refuse_value(*found.field, *found.given);
    }
  }
  // transformers' default of eval_steps, which 0 and null stand for, is logging_steps.
  [[nodiscard]] std::string steps_between_evaluations() const {
    const bool is_given = config_.eval_steps.unit != IntervalUnit::epoch;
    const Interval& interval = is_given ? config_.eval_steps : config_.logging_steps;
    if (interval.is_at_end_only()) return "end";
    return config_.get(is_given ? "eval_steps" : "logging_steps");
  }
  // Rows that are given to be measured are measured once, as the published scripts do.
  void end_evaluation(const Found& found) {
    const bool has_rows = !config_.validation_file.empty() ||
                          config_.source_of("validation_split") != ConfigSource::default_value;
    if (has_rows) return overrule_and_say("eval_steps", "end", found);
    if (config_.source_of("eval_steps") != ConfigSource::default_value)
      say(found.text() + ": eval_steps " + config_.get("eval_steps") + " has no meaning beside it");
    put_and_say("validation_split", "0", *found.given, found.text());
  }

  void set_strategy(std::string_view name, std::string_view key) {
    const Found found = find(name);
    if (!found) return;
    const std::string value = found.plain();
    if (value == "steps") {
      say(found.text() + ": " + std::string(key) + " " + config_.get(key));
    } else if (value == "epoch") {
      overrule_and_say(key, "epoch", found);
    } else if (value == "no" || (value == "best" && key == "save_steps")) {
      overrule_and_say(key, "end", found);
    } else {
      refuse_value(*found.field, *found.given);
    }
  }

  void set_resume() {
    const Found found = find("resume_from_checkpoint");
    if (!found || accepts(found)) return;
    const std::string value = found.plain();
    if (value != "true" && value != "false") refuse_value(*found.field, *found.given);
    put_and_say("resume", value, *found.given, found.text());
  }

  void set_optimizer() {
    set_named_optimizer();
    const Found found = find("adafactor");
    if (!found) return;
    const std::string value = found.plain();
    if (value == "true") {
      put_and_say("optim", "adafactor", *found.given, found.text());
    } else if (value == "false") {
      anyway_.push_back({found.text(), "optim says which"});
    } else {
      refuse_value(*found.field, *found.given);
    }
  }

  void set_named_optimizer() {
    const Found found = find("optim");
    const ForeignOptimizer* known = found ? find_foreign_optimizer(found.given->text) : nullptr;
    if (known == nullptr) return;
    if (known->optim.empty()) refuse(*found.given, found.text() + " is not built", known->note);
    const GivenField& given = *found.given;
    std::string keys;
    const auto set = [&](std::string_view key, const std::string& value) {
      if (put(key, value, given, found.text()))
        keys += (keys.empty() ? "" : ", ") + std::string(key) + " " + value;
    };
    set("optim", std::string(known->optim));
    if (keys.empty()) return;  // a stronger place says which
    if (known->bits == 8 || known->name.ends_with("32bit"))
      set("optim_bits", std::to_string(known->bits));
    if (known->bits == 8) set("optim_codec", known->is_bnb ? "bnb" : "default");
    // transformers gives it adam_beta2, whose default there is not lion's.
    const bool has_beta = config_.source_of("adam_beta2") != ConfigSource::default_value;
    if (known->optim == "lion" && !has_beta) set("adam_beta2", "0.999");
    say(found.text() + ": " + keys +
        (known->note.empty() ? "" : " (" + std::string(known->note) + ")"));
  }

  void set_report() {
    if (const Found found = find("report_to"); found && found.given->text == "all")
      put_and_say("report_to", "tensorboard", *found.given,
                  found.text() + " (the others are not built, and nothing is sent anywhere)");
  }

  void set_sampling() {
    if (const Found found = find("train_sampling_strategy")) {
      const std::string value = found.plain();
      if (value != "random" && value != "group_by_length") refuse_value(*found.field, *found.given);
      put_and_say("group_by_length", value == "random" ? "false" : "true", *found.given,
                  found.text());
    }
    const Found found = find("restore_callback_states_from_checkpoint");
    if (!found) return;
    const std::string value = found.plain();
    const bool is_told_apart = value == "false" && config_.early_stopping_patience > 0;
    if ((value != "true" && value != "false") || is_told_apart)
      refuse_value(*found.field, *found.given);
    anyway_.push_back({found.text(), std::string(found.field->meaning)});
  }

  // transformers' constant has no warm-up, whatever else is given.
  void say_constant() {
    const Found found = find("lr_scheduler_type");
    const bool rises = config_.warmup_steps > 0 || config_.warmup_ratio > 0;
    if (found && rises && config_.get("lr_scheduler_type") == "constant")
      say(found.text() + " rises first, as constant_with_warmup does: " +
          (config_.warmup_steps > 0 ? "warmup_steps " + config_.get("warmup_steps")
                                    : "warmup_ratio " + config_.get("warmup_ratio")) +
          " (0 for none)");
  }

  bool accepts(const Found& found) {
    if (!is_in(found.field->accepted, found.plain())) return false;
    anyway_.push_back({found.text(), std::string(found.field->meaning)});
    return true;
  }

  void accept_rest() {
    for (const auto& [name, given] : fields_) {
      const Found found = find(name);
      if (found.field->fate == FieldFate::no_meaning)
        idle_.push_back({found.text(), std::string(found.field->meaning)});
      else if (found.field->fate == FieldFate::anyway && !accepts(found))
        refuse_value(*found.field, given);
    }
    say_all(anyway_, "what happens anyway", " is what happens anyway: ");
    say_all(idle_, "has no meaning here", " has no meaning here: ");
  }
  // Many are one line.
  using Said = std::vector<std::pair<std::string, std::string>>;  // the field, what Snug does
  void say_all(const Said& said, const std::string& together, const std::string& between) {
    if (said.size() <= kNoticesInFull) {
      for (const auto& [text, meaning] : said) say(text + between + meaning);
      return;
    }
    std::vector<std::string> names;
    for (const auto& [text, meaning] : said) names.push_back(text);
    say(together + " (" + std::string(kPage) + "): " + spec::join(names, ", "));
  }

  RunConfig& config_;
  const GivenFields& fields_;
  Said anyway_;
  Said idle_;
};

}  // namespace

std::string plain_value(const TrainingArgument& field, std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '"' || c == '\'') continue;
    value += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (value == "null" || value == "~") return "none";
  if (value == "[]" || value == "{}") return {};
  if (value == "[none]") return "none";
  if (field.is_switch && is_in(kTrueWords, value)) return "true";
  if (field.is_switch && is_in(kFalseWords, value) && !is_in(field.accepted, value)) return "false";
  return value;
}

void take_value(RunConfig& config, GivenFields& fields, std::string_view key,
                std::optional<std::string_view> value, ConfigSource source,
                const std::string& where) {
  const std::string name = normal_key(key);
  const TrainingArgument* field = find_training_argument(name);
  const std::string_view text = value ? *value : "true";
  const bool is_key = field == nullptr || field->fate == FieldFate::kept;
  if (!is_key || is_foreign_value(name, text)) {
    if (!value && !field->is_switch)
      throw Error(ErrorCode::bad_config, where, name + ": a value is missing",
                  field->otherwise.empty() ? "omit it" : std::string(field->otherwise));
    fields[name] = {std::string(text), source, where};
    return;
  }
  fields.erase(name);
  const bool is_unset = field != nullptr && field->accepted.starts_with("none") &&
                        is_in(field->accepted, plain_value(*field, text));
  if (is_unset) {
    const std::string default_value = find_option(name)->info.default_value;
    set_option(config, key, default_value, source, where);
    if (name == "save_total_limit")
      config.notices.push_back(name +
                               " none: 0, so that only best and last stand there at the end");
    return;
  }
  try {
    set_option(config, key, value, source, where);
  } catch (const Error& error) {
    if (field == nullptr || field->otherwise.empty()) throw;
    throw Error(error.code(), error.where(), error.message(),
                error.hint() + "; " + std::string(field->otherwise));
  }
  if (name == "lr_scheduler_type" && text == "constant")
    fields[name] = {std::string(text), source, where};
}

void apply_recompute_variable(RunConfig& config, std::string_view value) {
  if (value.empty()) return;
  std::string word(value);
  std::transform(word.begin(), word.end(), word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const std::string given = "RECOMPUTE=" + std::string(value) + " in the environment";
  if (is_in(kFalseWords, word)) return;
  if (!is_in(kTrueWords, word))
    throw Error(ErrorCode::bad_config, "RECOMPUTE",
                "'" + std::string(value) + "' in the environment is neither 1 nor 0",
                "unset RECOMPUTE, or write RECOMPUTE=1, which is recompute: all");
  const ConfigSource source = config.source_of("recompute");
  if (source == ConfigSource::default_value) {
    set_option(config, "recompute", "all", ConfigSource::environment, "RECOMPUTE");
    config.notices.push_back(given + ": recompute all");
  } else if (config.get("recompute") != "all") {
    config.notices.push_back(given + " is without effect: recompute is " + config.get("recompute") +
                             " (" + std::string(to_string(source)) + ")");
  }
}

void apply_training_arguments(RunConfig& config, const GivenFields& fields) {
  if (!fields.empty()) Translator(config, fields).run();
}

}  // namespace snug::config
