// SPDX-License-Identifier: Apache-2.0
// docs/training-arguments.md, from the rows.
#include <string>

#include "config/foreign_optimizers.h"
#include "config/training_arguments.h"
#include "snug/config.h"

namespace snug {
namespace {

constexpr std::string_view kPageIntroduction = R"(# Hugging Face's TrainingArguments

<!-- This file is generated. To renew it: SNUG_UPDATE_DOCS=1 build/release/src/config/config_test -->

Every field of `transformers.TrainingArguments` is understood in a run's YAML file and on the command line (`--tf32 False`, `--report_to none`), those of
older versions too. Which versions were read stands in `tests/golden/training_arguments.json`; a test holds this page to them.

* **key**: a key of Snug (docs/configuration.md) with the same meaning, but for what the table says.
* **turned into**: sets the key or keys that the table names, and a line on stderr says to what.
* **anyway**: the values listed ask for what Snug does anyway, and a line on stderr says so. Every other value is refused, with what to do.
* **no meaning**: every value is taken, since none of them could change a result here, and a line on stderr says that it has no meaning.

A field that is omitted changes nothing: the defaults are Snug's. A value on the command line wins over one in the file, under whichever name; two names
that contradict each other in one place are an error. In YAML `null` is `none`; `--no_FIELD` is not taken, `--FIELD false` is.

## The batch

`per_device_train_batch_size` x `gradient_accumulation_steps` is the global batch, `train_batch_size`, since there is one device. How the batch is split is no
part of the mathematics, so Snug picks the fastest split that fits, and `micro_batch_size` sets it. `gradient_accumulation_steps` without
`per_device_train_batch_size`:

| beside it | meaning |
|---|---|
| `train_batch_size` | `micro_batch_size` is train_batch_size / gradient_accumulation_steps, as in DeepSpeed |
| `micro_batch_size` alone | `train_batch_size` is micro_batch_size x gradient_accumulation_steps, as in DeepSpeed |
| neither | `train_batch_size` is 8 x gradient_accumulation_steps: 8 is Hugging Face's default of per_device_train_batch_size |

## How often

`eval_strategy`, `save_strategy` and `logging_strategy` set `eval_steps`, `save_steps` and `logging_steps`, whose value may be `epoch` and `end`, too. As in transformers a strategy other than `steps`
leaves the number beside it without effect, which is said, and a number below 1 is a share of all updates, rounded up: `eval_steps: 0.1`.

## The fields

| field | what happens | meaning here | other values |
|---|---|---|---|
)";

std::string listed(std::string_view accepted) {
  std::string text;
  while (true) {
    const size_t bar = accepted.find('|');
    const std::string_view word = accepted.substr(0, bar);
    text += (text.empty() ? "" : ", ") + (word.empty() ? "empty" : "`" + std::string(word) + "`");
    if (bar == std::string_view::npos) return text;
    accepted.remove_prefix(bar + 1);
  }
}

std::string fate_of(const config::TrainingArgument& field) {
  switch (field.fate) {
    case config::FieldFate::kept:
      return "key";
    case config::FieldFate::translated:
      return "turned into";
    case config::FieldFate::anyway:
      return "anyway: " + listed(field.accepted);
    case config::FieldFate::no_meaning:
      return "no meaning";
  }
  return {};
}

constexpr std::string_view kOptimizers = R"(
## Names of optimizers

Beside the words of `optim` (docs/configuration.md) its values are these. Names with `bnb` have bitsandbytes' map of 8 bits, the others Snug's own codes (docs/optimizers.md); no state is ever paged.

| `optim` | what it is here |
|---|---|
)";

std::string text_of(const config::ForeignOptimizer& row) {
  if (row.optim.empty()) return "refused: " + std::string(row.note);
  std::string text = "`optim: " + std::string(row.optim) + "`";
  if (row.bits == 8)
    text += ", `optim_bits: 8`, `optim_codec: " + std::string(row.is_bnb ? "bnb`" : "default`");
  if (row.optim == "lion") text += ", `adam_beta2: 0.999` where it is not given";
  return text;
}

}  // namespace

std::string training_arguments_markdown() {
  std::string text(kPageIntroduction);
  for (const config::TrainingArgument& field : config::training_arguments()) {
    text += "| `" + std::string(field.name) + "` | " + fate_of(field) + " | " +
            std::string(field.meaning) + " | " + std::string(field.otherwise) + " |\n";
  }
  text += kOptimizers;
  for (const config::ForeignOptimizer& row : config::foreign_optimizers())
    text += "| `" + std::string(row.name) + "` | " + text_of(row) + " |\n";
  return text;
}

}  // namespace snug
