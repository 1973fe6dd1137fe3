// SPDX-License-Identifier: Apache-2.0
// Help for the terminal and docs/configuration.md, both from the option table.
#include <algorithm>
#include <string>

#include "base/pieces.h"
#include "config/option.h"
#include "snug/config.h"

namespace snug {
namespace {

constexpr std::string_view kIntroduction = R"(# Configuration

<!-- This file is generated. To renew it: SNUG_UPDATE_DOCS=1 build/release/src/config/config_test -->

A run is described by one YAML file (`-c run.yaml`), and every key can also be given on the command line as
`--key value` or `--key=value` (hyphens and underscores are the same there: `--train-batch-size`). One file serves
every verb; a verb takes the keys it needs.

* A value on the command line wins over the file, the file wins over the default. `RECOMPUTE=1` in the environment (as bert4keras
  reads it) is `recompute: all` where neither sets it, and is said; `RECOMPUTE=0` is nothing. Given twice on the command line, the
  last value wins; a key twice in a file is an error.
* `SNUG_MAX_ISA=avx2 | avx512 | avx512_bf16 | amx` in the environment is an upper limit on the processor's instructions that Snug and
  oneDNN use; another word is an error. A limit above the processor holds nothing down: `instruction_set` of the plan (docs/files.md) and
  `snug --version` say what runs. oneDNN's own `ONEDNN_MAX_CPU_ISA` (`DNNL_MAX_CPU_ISA`) counts for both as well, and the lower wins. Speeds
  are kept for each set. Results are equal to the bit under one set only: a run that is resumed under another says so.
  On ARM there is one set, `neon`, which is the one word that `SNUG_MAX_ISA` takes there.
* `TF_XLA_FLAGS` in the environment (TensorFlow's switch for fusion) has no effect, which is said: see the key `fusion`.
* A key that nobody knows is an error that names the nearest known one.
* Lists are written `[256, 128]` in YAML and `256,128` on the command line.
* Switches may stand without a value on the command line: `--resume`.
* A run that is resumed keeps the values it began with. Keys with "may change" may have another value from then on, and
  every change is printed and logged; "same rows": the file may lie elsewhere.
* Names and defaults are Hugging Face's or DeepSpeed's where they have one; `train_batch_size` is the global batch, as
  in DeepSpeed.

`memory` is the budget of the whole process:

| form | meaning |
|---|---|
| `900MiB`, `2GiB`, `1.5GB` | that amount; 1 KiB = 1 Ki = 1024 bytes, 1 KB = 1 K = 1000 bytes, in any case (a letter alone means 1024 to some programs; read so, a budget is never more than was meant) |
| `1073741824` | bytes |
| `60%` | that share of what `auto` sees |
| `-512MiB` | all that `auto` sees but this amount |
| `auto` | the tightest limit of the process's control group and its ancestors (version 1 or 2; `memory.max` and `memory.high`) and of the process (`ulimit -v`, `-d`), or the memory available now if that is less |

The result is rounded down to whole pages of 4096 bytes. A budget above the limit of the process's control group, or its own, is
refused by `train`, `eval`, `predict` and `verify`, since the process would be killed or given no more; `plan` warns, since a plan may be for another
machine. Above `memory.high` a process nearly stands still: that is a warning. Where other processes leave less than the budget, a warning says so, and one where the
memory allocator is not the C library's (`LD_PRELOAD` of tcmalloc, say), which may keep what was freed. Files on a file system in memory (tmpfs, `/dev/shm`) count in
the control group beside the process: where checkpoints and the rows' tokens would pass its limit, `output_dir` or `cache_dir` is refused by name.

## Images

Models of images read PNG and JPEG files in folders, one for each class (docs/data.md), and CIFAR-10 and CIFAR-100 in their binary version: `train_file`,
`validation_file` and `test_file` are each a folder, or a `.bin` file; of a folder with `data_batch_*.bin` (or `train.bin`) these are read in the order of the
names. A record is one label byte (CIFAR-100: two, coarse and fine; the fine one counts) and 3072 pixel bytes, 32 x 32 red, then green, then blue. Names of the
classes come from `batches.meta.txt` (`fine_label_names.txt`) beside the files; without it they are numbers. For these files `image_size` must be 32; a plan
without data takes any.

A pixel becomes (byte / 255 - mean) / deviation with CIFAR-10's mean 0.4914, 0.4822, 0.4465 and deviation 0.2470, 0.2435, 0.2616 (red, green,
blue), for CIFAR-100 too; where the model's folder has a `preprocessor_config.json`, with that file's numbers. Images of CIFAR's files are
taken as they are; a `preprocessor_config.json` that asks for another frame (`size`, `crop_pct`, `crop_size`) is refused by `eval` and `predict`; `train` says that it
takes them as they are, and writes that. A file that asks for other steps (`do_flip_channel_order`, `do_pad`) is refused. Where a batch does not fill its last micro-batch, the rest are rows of zeros that count in no
loss and no gradient; with batch norm there are none, since an epoch has whole batches
only.
)";

// Words of `text` in lines of at most `columns`, each behind `indent` spaces.
std::string wrapped(const std::string& text, size_t indent, size_t columns) {
  std::string result;
  size_t used = columns;  // forces a first line
  for (const std::string_view word : words_in(text)) {
    if (used + 1 + word.size() > columns) {
      if (!result.empty()) result += "\n";
      result.append(indent, ' ').append(word);
      used = indent + word.size();
    } else {
      result.append(" ").append(word);
      used += 1 + word.size();
    }
  }
  return result + "\n";
}

std::string cell(std::string text) {
  for (size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|', bar + 2))
    text.insert(bar, "\\");
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

const char* words_of(ResumeRule rule) {
  switch (rule) {
    case ResumeRule::fixed:
      return "";
    case ResumeRule::may_change:
      return "may change";
    case ResumeRule::same_content:
      return "same rows";
  }
  return "";
}

}  // namespace

std::string config_help(int columns) {
  const auto width = static_cast<size_t>(std::max(columns, 40));
  std::string text;
  std::string group;
  for (const config::Option& option : config::option_table()) {
    const OptionInfo& info = option.info;
    if (info.group != group) {
      group = info.group;
      text += (text.empty() ? "" : "\n") + group + ":\n";
    }
    text += "  --" + info.name + (info.is_switch ? "" : " VALUE") + "\n";
    std::string help = info.help;
    if (!info.range.empty() && !info.is_switch) help += "; " + info.range;
    if (!info.unit.empty()) help += " (" + info.unit + ")";
    if (!info.default_value.empty()) help += " [" + info.default_value + "]";
    text += wrapped(help, 6, width);
  }
  return text;
}

std::string config_markdown() {
  std::string text(kIntroduction);
  std::string group;
  for (const config::Option& option : config::option_table()) {
    const OptionInfo& info = option.info;
    if (info.group != group) {
      group = info.group;
      text += "\n## " + group +
              "\n\n| key | type | default | allowed | on resume | meaning "
              "|\n|---|---|---|---|---|---|\n";
    }
    text += "| `" + info.name + "` | " + info.type +
            (info.unit.empty() ? "" : " (" + info.unit + ")") + " | " + code(info.default_value) +
            " | " + cell(info.range) + " | " + words_of(info.resume_rule) + " | " +
            cell(info.help) + " |\n";
  }
  return text;
}

}  // namespace snug
