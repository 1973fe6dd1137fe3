// SPDX-License-Identifier: Apache-2.0
#include "common.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <span>

#include "terminal.h"
#include "words.h"

namespace snug::cli {
namespace {

std::atomic<bool> stop_requested{false};

extern "C" void on_signal(int) { stop_requested.store(true); }

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // These come more than once: the end of a terminal again from a shell that passes it on, a
  // limit of processor time every second, a batch system's warning to every process of a job. What
  // the caller ignores (nohup) stays ignored.
  action.sa_flags = 0;
  for (const int number : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction former = {};
    sigaction(number, nullptr, &former);
    if (former.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  // A file-size limit and a reader that left are errors of the write, as a full disk is, not the
  // end of the process.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void report(const Error& error) {
  std::cerr << wrapped("error: " + std::string(error.what()) + "\n",
                       terminal_columns(STDERR_FILENO));
}

void leave_interrupted(const Error& stop) {
  report(stop);
  std::fflush(nullptr);
  _exit(kInterrupted);
}

bool was_interrupted() { return stop_requested.load(); }
const std::atomic<bool>* interrupt_flag() { return &stop_requested; }

namespace {

// The variable counts for the verbs that plan a training step; a plan that is replayed says by
// itself what is recomputed.
std::string_view recompute_variable(const std::string& verb, const Arguments& arguments) {
  if (verb != "plan" && verb != "train" && verb != "verify" && verb != "explain") return {};
  const char* value = arguments.plan_file.empty() ? std::getenv("RECOMPUTE") : nullptr;
  return value == nullptr ? std::string_view() : value;
}

// TensorFlow's way to ask for fusion, which many training scripts set.
std::string xla_notice(const std::string& verb, const RunConfig& config) {
  const char* value = std::getenv("TF_XLA_FLAGS");
  if (value == nullptr || *value == '\0' || (verb != "plan" && verb != "train")) return {};
  return "TF_XLA_FLAGS in the environment is without effect: ops are fused by themselves where "
         "that "
         "takes no memory (fusion: " +
         config.get("fusion") + ")";
}

// The switch that this word stands behind, without being a value of it.
std::string switch_before(const std::string& word, const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] != word || !words[i - 1].starts_with("--")) continue;
    const ConfigArguments pair = split_config_arguments(std::span(words).subspan(i - 1, 2));
    if (pair.rest.size() == 1 && pair.rest.front() == word) return words[i - 1];
  }
  return {};
}

}  // namespace

bool read_arguments(const std::string& verb, const std::string& summary,
                    const std::vector<std::string>& words, Arguments& arguments) {
  ConfigArguments split = split_config_arguments(words);
  std::string file;
  CLI::App app(summary, "snug " + verb);
  app.add_option("-c,--config", file, "Run configuration (YAML); command-line values win")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("--json", arguments.is_json, "Print one JSON object and nothing else");
  if (verb == "plan" || verb == "train") {
    app.add_option("--plan", arguments.plan_file, "Replay a plan written by --save-plan");
    app.add_option("--save-plan", arguments.save_plan_file,
                   "Write the plan to a file that --plan replays");
  }
  if (verb == "plan") {
    app.add_option("--save-problem", arguments.save_problem_file,
                   "Write the training step as a problem for `snug solve` (docs/solve.md)");
    app.add_option("--save-schedule", arguments.save_schedule_file,
                   "Write its planned schedule for `snug solve check`");
    app.add_option("--html", arguments.html_file,
                   "Write one page: memory over time, the arena's map, the price list");
    app.add_flag("--levers", arguments.has_levers,
                 "What each lever (precision, state bits, freezing, LoRA, ...) would change in "
                 "bytes and time, alone and together (docs/levers.md)");
  }
  if (verb == "inspect")
    app.add_flag("--weights", arguments.lists_weights, "Every weight, not layers alone");
  if (verb == "explain")
    app.add_flag(
        "--stages", arguments.has_stages,
        "Also print what stands after each stage: graphs, the planner's problem, the plan");
  app.footer(
      "Every key of a run configuration is an option as well (--key value):\n\n" +
      config_help(terminal_columns(STDOUT_FILENO) > 0 ? terminal_columns(STDOUT_FILENO) : 100) +
      "\nFields of Hugging Face's TrainingArguments are turned into keys or refused by name:\n"
      "docs/training-arguments.md\n");
  std::reverse(split.rest.begin(), split.rest.end());  // CLI11 takes them from the back
  try {
    app.parse(split.rest);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return false;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> unknown = app.remaining();
    const std::string word = unknown.empty() ? std::string() : unknown.front();
    if (word.starts_with("--")) throw_unknown_option(word);
    if (const std::string option = switch_before(word, words); !option.empty())
      throw Error(ErrorCode::bad_config, option, "'" + word + "' is no value that it takes",
                  "give true, false, or the option alone");
    throw Error(ErrorCode::bad_config, word, "this word belongs to no option",
                "options are --key value; a run configuration is given as -c run.yaml");
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::bad_config, "snug " + verb, error.what(),
                "`snug " + verb + " --help` lists the options");
  }
  refuse_empty_values(app, "an empty word is no file");
  arguments.config = RunConfig::load(file, split.overrides, recompute_variable(verb, arguments));
  if (const std::string notice = xla_notice(verb, arguments.config); !notice.empty())
    arguments.config.notices.push_back(notice);
  for (const std::string& notice : arguments.config.notices)
    std::cerr << wrapped(notice + "\n", terminal_columns(STDERR_FILENO));
  return true;
}

RunOptions run_options(ProgressReporter& reporter) {
  RunOptions options;
  options.cancel = &stop_requested;
  options.budgets_whole_process = true;
  options.callbacks.on_progress = [&reporter](const Progress& progress) {
    reporter.show(progress);
  };
  options.callbacks.on_message = [&reporter](const std::string& text) { reporter.line(text); };
  return options;
}

}  // namespace snug::cli
