// SPDX-License-Identifier: Apache-2.0
// The program `snug`: finds the verb, turns errors into texts and exit codes.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <new>
#include <string_view>

#include "common.h"
#include "streams.h"
#include "terminal.h"

namespace snug::cli {
namespace {

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>&);
  bool trims_heap = true;
};

constexpr Verb kVerbs[] = {
    {"inspect", "what a model and a data set are made of", inspect_verb},
    {"plan", "how a run fits its budget: bytes, time, price list", plan_verb, false},
    {"train", "train within the budget", train_verb},
    {"eval", "metrics of a trained model on a file", eval_verb},
    {"predict", "labels and scores for the rows of a file", predict_verb},
    {"explain", "how a run is compiled, stage by stage", explain_verb, false},
    {"verify", "prove on your model and data that plans do not change results", verify_verb},
    {"merge", "write a model and its adapters as one model folder", merge_verb},
    {"convert", "write pytorch_model.bin as safetensors", convert_verb},
    {"export", "write a model's folder for transformers, in another type if wanted", export_verb},
    {"tokenize", "lines of text as lists of ids", tokenize_verb},
    {"solve", "the planner alone on a problem file", solve_verb, false},
};

void print_help(std::ostream& out) {
  std::string text =
      "snug trains neural networks in the memory you have.\n\nusage: snug VERB [-c run.yaml] "
      "[--key value ...]\n       snug solve PROBLEM FILE [--option value ...]\n\n";
  for (const Verb& verb : kVerbs) {
    text += std::string("  ") + verb.name + std::string(10 - std::string(verb.name).size(), ' ') +
            verb.summary + "\n";
  }
  text +=
      "\n`snug VERB --help` lists every key. Exit codes: 0 done, 1 user error, 2 does not fit,\n"
      "3 loss, gradient or weight not finite, 4 verify found a difference, 70 a bug in snug,\n"
      "130 interrupted after a checkpoint.\n";
  const int descriptor = &out == &std::cout ? STDOUT_FILENO : STDERR_FILENO;
  out << wrapped(text, terminal_columns(descriptor));
}

int exit_code_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::out_of_budget:
      return kDoesNotFit;
    case ErrorCode::numeric:
      return kNumeric;
    case ErrorCode::cancelled:
      return kInterrupted;
    case ErrorCode::internal:
      return kBug;
    default:
      return kUserError;
  }
}

// Where the heap counts in the budget, freed blocks go back to the system. The planner alone keeps
// them: it frees and takes large blocks so often that a fifth of its time would be page faults. No
// fast bins: of the million small values of a long program they are emptied at every large block,
// a tenth of the time of a plan.
void set_up_heap(bool trims) {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MXFAST, 0);
  mallopt(M_MMAP_THRESHOLD, trims ? 128 << 10 : 32 << 20);
  mallopt(M_TRIM_THRESHOLD, trims ? 256 << 10 : 256 << 20);
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "help" && words[1] == "--json") {
    std::cout << config_options_json() << "\n";
    return kDone;
  }
  if (words.empty() || words[0] == "-h" || words[0] == "--help" || words[0] == "help") {
    print_help(words.empty() ? std::cerr : std::cout);
    return words.empty() ? kUserError : kDone;
  }
  if (words[0] == "--version" || words[0] == "-v") {
    const std::string_view set = to_string(instruction_set());  // or an error, and no output
    std::cout << "snug " << SNUG_VERSION << " (" << set << ")\n";
    return kDone;
  }
  for (const Verb& verb : kVerbs) {
    if (words[0] != verb.name) continue;
    set_up_heap(verb.trims_heap);
    (void)instruction_set();  // a limit that there is not ends every verb
    return verb.run({words.begin() + 1, words.end()});
  }
  throw Error(ErrorCode::bad_config, words[0], "there is no such verb",
              "inspect, plan, train, eval, predict, explain, verify, merge, convert, export, "
              "tokenize and solve are; `snug --help` explains");
}

int run_and_report(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (const Error& error) {
    report(error);
    return exit_code_of(error);
  } catch (const std::bad_alloc&) {
    std::cerr << "error: the system is out of memory\nhint: lower --memory\n";
    return kDoesNotFit;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what()
              << "\nhint: this is a bug in snug; please report it with the command that led here\n";
    return kBug;
  }
}

}  // namespace
}  // namespace snug::cli

int main(int argc, char** argv) {
  snug::cli::open_closed_streams();
  snug::cli::catch_signals();
  const int code = snug::cli::run_and_report({argv + 1, argv + argc});
  const std::string unwritten = snug::cli::unwritten_stream();
  if (unwritten.empty() || code != snug::cli::kDone) return code;
  std::cerr
      << "error: [" << unwritten
      << "] not all of it could be written\nhint: give it a file on a disk with free space, or "
         "a reader that stays to the end\n";
  return snug::cli::kUserError;
}
