// SPDX-License-Identifier: Apache-2.0
#include "train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/numbers.h"
#include "io/atomic_folder.h"
#include "io/file.h"
#include "io/folder_marker.h"
#include "notices/notices.h"
#include "optim/loss_scale.h"
#include "optim/schedule.h"
#include "snug/error.h"
#include "train/trainer.h"

namespace snug::train {
namespace {

std::string damage_hint(const RunFolder& folder) {
  const std::string newest = newest_archive(folder);
  if (!newest.empty())
    return "remove " + folder.last() + " and rename " + newest + " to it: --resume goes on there";
  return "put a copy of " + folder.last() +
         " in its place, or remove it: --resume then begins from the start";
}

/// Says what is wrong with a field of the state.
using FailField = std::function<void(const char* field, const std::string& what)>;

/// Only a dynamic scale skips updates, and what it skips moves neither count.
void check_counts(const RunState& state, const RunConfig& before, const FailField& fail) {
  // What auto stands for the session knows: require_kind_of_scale.
  const std::string open = state.loss_scale ? "dynamic" : "none";
  const std::string word = before.loss_scale == "auto" ? open : before.loss_scale;
  const optim::LossScaleRule rule =
      word == "none" ? optim::LossScaleRule() : optim::make_loss_scale(word, before.loss_scale_min);
  const bool skips = rule.scaling == optim::LossScaling::dynamic;
  for (const auto& [field, part] :
       {std::pair<const char*, int64_t>{"schedule_step", state.schedule_step},
        {"optimizer_step", state.optimizer_step}}) {
    if (part > state.step) fail(field, fmt::format("is {} after {} updates", part, state.step));
    if (part < state.step && !skips)
      fail(field, fmt::format("is {} after {} updates, of which none was skipped: loss_scale is {}",
                              part, state.step, before.loss_scale));
  }
  if (state.schedule_step != state.optimizer_step)
    fail("schedule_step", fmt::format("is {} and optimizer_step {}: a skipped update moves neither",
                                      state.schedule_step, state.optimizer_step));
  if (state.loss_scale.has_value() != skips) {
    fail("loss_scale", fmt::format("is {}, but the run's loss_scale is {}",
                                   skips ? "absent" : "there", before.loss_scale));
  }
  if (!skips) return;
  const LossScale& scale = *state.loss_scale;
  const int64_t skipped = state.step - state.optimizer_step;
  if (scale.overflows > skipped || scale.overflows >= rule.backoff_interval) {
    fail("loss_scale", fmt::format("has {} overflows in a row; {} updates were skipped, and {} in "
                                   "a row lower the scale",
                                   scale.overflows, skipped, rule.backoff_interval));
  }
  if (scale.clean_updates > state.optimizer_step || scale.clean_updates >= rule.growth_interval) {
    fail("loss_scale",
         fmt::format("has {} clean updates in a row; {} were not skipped, and {} in "
                     "a row raise the scale",
                     scale.clean_updates, state.optimizer_step, rule.growth_interval));
  }
}

void check_best_step(const RunConfig& before, int64_t batches, const RunFolder& folder,
                     const FailField& fail, RunState& state) {
  if (!state.best_step) return;
  const int64_t best = *state.best_step;
  if (best < 1 || best > state.step)
    fail("best_step", fmt::format("is {} after {} updates", best, state.step));
  if (state.stale_evaluations > state.step - best) {
    fail("stale_evaluations", fmt::format("is {} after {} updates, the best after {}",
                                          state.stale_evaluations, state.step, best));
  }
  const int64_t total = total_steps(before, batches);
  const int64_t every = before.eval_steps.or_epoch().updates(total, batches);
  if ((every > 0 && best % every == 0) || best == total) return;
  // The end of an earlier run that got more updates since: the log alone knows.
  const std::string log = folder.file(kEvaluationLog);
  const std::optional<bool> is_there = has_evaluation(log, state.evaluations_bytes, best);
  if (!is_there) {
    state.best_step.reset();  // the next log would not have it, either
  } else if (!*is_there) {
    fail("best_step", fmt::format("is {}; there was no evaluation after that update", best));
  }
}

[[noreturn]] void fail_rows(const std::string& file, const std::string& before) {
  throw Error(ErrorCode::bad_data, file,
              file == before
                  ? "the rows or their tokens changed since the checkpoint was made"
                  : "the rows or their tokens are not those that the run began with, of " + before,
              (file == before ? "restore the file" : "give those rows") +
                  std::string(", or train into another output_dir"));
}

}  // namespace

std::optional<RunState> read_checkpoint(const RunFolder& folder, const RunOptions& options) {
  const bool has_last = io::recover_folder(folder.last());
  (void)io::recover_folder(folder.best());
  recover_archives(folder);
  if (!has_last) return std::nullopt;
  try {
    if (io::check_folder(folder.last()) == io::FolderCheck::by_size) {
      notices::say(options,
                   folder.last() +
                       " was written by an older version of Snug, without SHA-256: only the sizes "
                       "of its files were checked");
    }
    return load_state(folder.last());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_data) throw;
    throw Error(error.code(), error.where(), error.message(), damage_hint(folder));
  }
}

void refuse_incomplete(const RunFolder& folder) {
  for (const std::string& place : {folder.last(), folder.best()}) io::require_place(place);
}

void refuse_foreign_archives(const RunFolder& folder, const RunConfig& config, int64_t step,
                             int64_t batches_per_epoch) {
  const int64_t total = total_steps(config, batches_per_epoch);
  const int64_t every = config.save_steps.updates(total, batches_per_epoch);
  if (config.save_total_limit == 0 || every == 0) return;
  require_archive_places(folder, {.every = every, .first = step, .last = total});
}

void check_best(const RunFolder& folder, const RunOptions& options, RunState& state) {
  if (!state.best_metric) return;
  const std::string best = folder.best();
  if (!io::is_complete(best)) {
    notices::say(
        options,
        fmt::format("{} is gone: its metric of {}{} is forgotten, and the next evaluation writes "
                    "the folder again{}",
                    best, number_text(*state.best_metric),
                    state.best_step ? fmt::format(" after update {}", *state.best_step) : "",
                    state.is_finished ? " (the run is finished: give it more updates)" : ""));
    if (!state.lost_metric) state.lost_metric = state.best_metric;
    state.best_metric.reset();
    state.best_step.reset();
    return;
  }
  const auto fail = [&](const std::string& where, const std::string& what) {
    throw Error(ErrorCode::bad_data, where, what,
                "put a copy of " + best +
                    " in its place, or remove the folder: --resume then goes "
                    "on, and the next evaluation writes it again");
  };
  io::FolderFiles files;
  try {
    files = io::read_marker(best);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_data) throw;
    fail(error.where(), error.message());
  }
  for (const auto& [name, record] : files) {
    const std::string path = best + "/" + name;
    const std::string damage = io::damage_of(path, record);
    if (damage.empty()) continue;
    // Beside the weights files may be edited (docs/files.md).
    if (!io::file_exists(path) || name.ends_with(".safetensors")) fail(path, damage);
    notices::say(options, path + ": " + damage + "; a better evaluation will write it anew");
  }
}

std::vector<KeyChange> changed_keys(const RunConfig& before, const RunConfig& now) {
  std::vector<KeyChange> changes;
  const RunConfig resolved_before = with_optimizer_values(before);
  const RunConfig resolved_now = with_optimizer_values(now);
  for (const OptionInfo& option : config_options()) {
    const KeyChange change{option.name, resolved_before.get(option.name),
                           resolved_now.get(option.name)};
    if (change.before == change.now) continue;
    const bool is_same_kind = change.before.empty() == change.now.empty();
    const bool may_differ = option.resume_rule == ResumeRule::may_change ||
                            (option.resume_rule == ResumeRule::same_content && is_same_kind);
    if (!may_differ) {
      throw Error(ErrorCode::bad_config, option.name,
                  "the run in " + now.output_dir + " began with '" + change.before +
                      "', now it is '" + change.now + "'",
                  "resume with the value it began with, or train into another output_dir");
    }
    if (option.name != "resume") changes.push_back(change);
  }
  return changes;
}

void check_state(const RunConfig& before, const RunConfig& now, const run_rows::RunData& data,
                 const RunFolder& folder, RunState& state) {
  if (state.rows_hash && *state.rows_hash != data.train->content_hash())
    fail_rows(now.train_file, before.train_file);
  if (data.validation) {
    // Checkpoints of older versions do not know the rows of the validation file, only its path.
    const bool is_known = state.validation_hash.has_value();
    const bool is_same = is_known ? *state.validation_hash == data.validation->content_hash()
                                  : now.validation_file == before.validation_file;
    if (!is_same) fail_rows(now.validation_file, before.validation_file);
  }
  const auto fail = [&](const char* field, const std::string& what) {
    throw Error(ErrorCode::bad_data, state_path(folder.last()),
                fmt::format("\"{}\" {}", field, what), damage_hint(folder));
  };
  const int64_t batches = run_rows::train_sampler(now, data).batches_per_epoch();
  if (state.batch >= batches)
    fail("batch", fmt::format("is {}; an epoch has the batches 0 to {}", state.batch, batches - 1));
  if (state.epoch > state.step / batches || state.epoch * batches + state.batch != state.step) {
    fail("global_step", fmt::format("is {}, but batch {} of epoch {} comes after another number of "
                                    "updates ({} an epoch)",
                                    state.step, state.batch, state.epoch, batches));
  }
  const int64_t total = total_steps(before, batches);
  if (state.step > total)
    fail("global_step", fmt::format("is {}; the run has {} updates", state.step, total));
  if (state.is_finished && state.step < total && before.early_stopping_patience == 0)
    fail("is_finished", fmt::format("is true after {} of {} updates", state.step, total));
  if (state.is_finished && state.step < total &&
      state.stale_evaluations < before.early_stopping_patience) {
    fail("is_finished",
         fmt::format("is true after {} of {} updates, with {} evaluations without "
                     "improvement; early_stopping_patience is {}",
                     state.step, total, state.stale_evaluations, before.early_stopping_patience));
  }
  if (state.is_finished && state.owes_evaluation)
    fail("owes_evaluation", "is true of a run that is finished");
  check_counts(state, before, fail);
  if (state.loss_count == 0 && state.loss_sum != 0)
    fail("loss_sum_bits",
         fmt::format("are those of {}, the sum of no update", number_text(state.loss_sum)));
  if (state.loss_count > state.step)
    fail("loss_count", fmt::format("is {} after {} updates", state.loss_count, state.step));
  if (state.stale_evaluations > state.step)
    fail("stale_evaluations",
         fmt::format("is {} after {} updates", state.stale_evaluations, state.step));
  if (state.best_metric && data.validation_part.size() == 0)
    fail("best_metric", "is there, and the run has no rows for evaluation");
  check_best_step(before, batches, folder, fail, state);
  if (before.micro_batch_size > 0 && state.micro_batch != before.micro_batch_size) {
    fail("micro_batch",
         fmt::format("is {}; micro_batch_size was {}", state.micro_batch, before.micro_batch_size));
  }
  if (state.micro_batch > before.train_batch_size) {
    fail("micro_batch", fmt::format("is {}, more than train_batch_size {}", state.micro_batch,
                                    before.train_batch_size));
  }
}

void require_kind_of_scale(const RunState& state, const Session& session, const RunFolder& folder) {
  if (state.loss_scale.has_value() == session.has_dynamic_loss_scale()) return;
  throw Error(ErrorCode::bad_data, state_path(folder.last()),
              fmt::format("\"loss_scale\" is {}, but the run's scale is {}",
                          state.loss_scale ? "there" : "absent",
                          session.has_dynamic_loss_scale() ? "dynamic" : "not dynamic"),
              damage_hint(folder));
}

void note_data(const run_rows::RunData& data, RunState& state) {
  state.rows_hash = data.train->content_hash();
  state.validation_hash.reset();
  if (data.validation) state.validation_hash = data.validation->content_hash();
}

bool is_at_end(const RunState& state, const RunConfig& before, const RunConfig& now,
               int64_t batches_per_epoch) {
  const bool stopped_early =
      state.is_finished && state.step < total_steps(before, batches_per_epoch);
  const int64_t total = total_steps(now, batches_per_epoch);
  if (state.step > total) {
    throw Error(ErrorCode::bad_config, now.max_steps > 0 ? "max_steps" : "num_train_epochs",
                fmt::format("the run has {} updates with this, and {} are done", total, state.step),
                "ask for more updates, or train into another output_dir");
  }
  return stopped_early || state.step == total;
}

void report_changes(const std::vector<KeyChange>& changes, const RunState& state,
                    const RunConfig& now, int64_t batches_per_epoch, const RunOptions& options) {
  bool is_of_recipe = false;
  const std::vector<OptionInfo> infos = config_options();
  for (const KeyChange& change : changes) {
    notices::say(options, fmt::format("changed: {} from '{}' to '{}'", change.key, change.before,
                                      change.now));
    is_of_recipe |= std::any_of(infos.begin(), infos.end(), [&](const OptionInfo& info) {
      return info.name == change.key && info.group == "Training";
    });
  }
  if (!is_of_recipe) return;
  const int64_t total = total_steps(now, batches_per_epoch);
  std::string text = fmt::format(
      "schedule: {} with a peak of {}, {} warm-up updates, {} updates in all, {} done",
      now.get("lr_scheduler_type"), now.get("learning_rate"),
      optim::resolve_warmup(now.warmup_steps, now.warmup_ratio, total), total, state.step);
  if (state.step < total)
    text += fmt::format("; the next has rate {:.4g}",
                        learning_rate_at(now, state.schedule_step, total));
  notices::say(options, text);
}

int64_t micro_batch_of(const RunConfig& config, const RunState& state) {
  if (config.allow_new_split) return config.micro_batch_size;
  if (config.micro_batch_size > 0 && config.micro_batch_size != state.micro_batch) {
    throw Error(ErrorCode::bad_config, "micro_batch_size",
                "the checkpoint was made with micro-batches of " +
                    std::to_string(state.micro_batch) + ", now " +
                    std::to_string(config.micro_batch_size) + " is asked for",
                "omit micro_batch_size, or set allow_new_split (the order of sums, so the "
                "last bits, will differ)");
  }
  return state.micro_batch;
}

}  // namespace snug::train
