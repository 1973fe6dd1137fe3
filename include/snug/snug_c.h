/* SPDX-License-Identifier: Apache-2.0 */
/* The library for other languages, in C: every verb of snug/run.h, and the planner alone, by name.
 *
 *   const snug_option options[] = {{".file", "run.yaml"}, {"memory", "1GiB"}};
 *   char* answer = snug_call("plan", options, 2, NULL, NULL);
 *   ...  the answer is JSON
 *   snug_free(answer);
 *
 * Texts are UTF-8 and end with a zero byte. Calls in different threads do not disturb each other as
 * long as their output folders differ. Threads are the library's own, whatever OpenMP the process
 * has, where the library was loaded so that its own symbols come first (dlopen with RTLD_DEEPBIND).
 */
#ifndef SNUG_SNUG_C_H
#define SNUG_SNUG_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A key of the run configuration (docs/configuration.md), as on the command line; or, with a dot in
 * front, an option of the verb:
 *   .file FILE            the run configuration, in YAML; .yaml TEXT: as text. Keys win over both
 *   .plan FILE, .save_plan FILE, .save_problem FILE, .save_schedule FILE, .html FILE,
 *   .levers true          of plan and train, as the program's options
 *   .profile_folder FOLDER  where this machine's measured speeds are kept
 *   .host_bytes N         memory is the budget of the whole process, which has so many bytes in
 *                         memory already; without it that of what the library maps for the run
 *   .weights true, .stages true, .text true   of inspect and explain
 *   .model_folder, .adapters, .weights_file, .output, .dtype   of merge, convert and export
 *   .problem FILE, .budget, .order, .effort, .time_limit, .schedule FILE   of solve_remat,
 *   solve_curve and solve_check; .csv FILE, .capacity, .max_nodes of solve_placement
 * An option that the verb does not have is an error. */
typedef struct snug_option {
  const char* name;
  const char* value;
} snug_option;

/* Told while a verb runs, in the thread that called: `kind` is "progress", "plan", "update",
 * "evaluation", "checkpoint", "message", "warning", "notice", "row" (of predict and tokenize) or
 * "waiting" (of the solve verbs, some times a second), `json` one JSON value.
 * Another answer than 0 asks the verb to stop, as a signal asks the program: after the present
 * update, with a checkpoint. */
typedef int (*snug_event)(void* context, const char* kind, const char* json);

/* inspect, plan, levers, train, evaluate, predict, explain, verify, merge, convert, export,
 * tokenize, solve_remat, solve_curve, solve_check, solve_placement, options (all keys), version.
 * Returns one JSON object, {"result": ...} or {"error": {"code", "where", "message", "hint",
 * "text"}}, to be freed by snug_free; NULL where there is no memory for it. `event` may be NULL.
 * Where the code is out_of_budget and the planner knows what would do, the error also has "proof",
 * "smallest_bytes" and "bound_bytes" (null where they are not known) and "ways", a list of {"keys",
 * "least_bytes", "step_seconds", "changes_result", "text"}: with these keys beside the call's own
 * it fits. That of solve_remat has the "report" of the smallest peak found, too. */
char* snug_call(const char* verb, const snug_option* options, size_t count, snug_event event,
                void* context);

/* Placement of as many ranges as there are, without text: each lives from lower to upper (not
 * included) with `size` bytes; `offsets` are filled in where the answer is a result. Options:
 * .capacity and .max_nodes, as of solve_placement; `event` may be NULL. Returns as snug_call does:
 * {"result": {"load", "height", "gap", "seconds", "capacity"}} or an error. */
char* snug_place(const int64_t* lower, const int64_t* upper, const int64_t* size, int64_t* offsets,
                 size_t ranges, const snug_option* options, size_t count, snug_event event,
                 void* context);

void snug_free(char* text);

#ifdef __cplusplus
}
#endif

#endif /* SNUG_SNUG_C_H */
