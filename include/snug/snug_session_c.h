/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of your own and sessions in C (snug/network.h, snug/session.h): objects, verbs by name.
 *
 *   static int64_t build(void* context, snug_builder* b) { ... snug_build_call(b, ...) ... }
 *   snug_object *network = NULL, *session = NULL;
 *   char* answer = snug_network_new("digits", build, NULL, &network);
 *   ...  an answer is JSON as snug_call gives it; snug_free it
 *   const snug_option options[] = {{"batch_rows", "64"}, {"memory", "4MiB"}};
 *   answer = snug_do(network, "open", options, 2, NULL, &session);
 *   const snug_array arrays[] = {{"x", "f32", x_shape, 2, pixels},
 *                                {"label", "i32", label_shape, 1, labels}};
 *   const snug_data batch = {.rows = 64, .arrays = arrays, .array_count = 2};
 *   answer = snug_do(session, "step", NULL, 0, &batch, NULL);
 *
 * Objects in different threads do not disturb each other; one is used from one thread at a time,
 * which a call from a second one, or from a callback of the first, is told as an error. */
#ifndef SNUG_SNUG_SESSION_C_H
#define SNUG_SNUG_SESSION_C_H

#include <stdint.h>

#include "snug/snug_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network, a plan of one, a session, a machine, or a flag that stops work. What an object was
 * made of it keeps, so they may be released in any order; not while a call of it runs. */
typedef struct snug_object snug_object;
void snug_release(snug_object* object);

/* Callbacks answer 0. Any other answer ends the call that they were made from with {"error":
 * {"code": "callback", "answer": N}}; SNUG_LAST_ERROR with the error that the builder reported
 * last. What they were given (`context`, functions) has to live as long as the object and all that
 * was made of it. They run in the thread that called. */
#define SNUG_LAST_ERROR (-1)

/* What a network's function is given; valid while that runs. */
typedef struct snug_builder snug_builder;
typedef int64_t (*snug_build)(void* context, snug_builder* builder);

/* One of: input, parameter, ..., every member of NetworkBuilder, and every function of snug/ops.h,
 * snug/layers.h and snug/recompute.h, by its name in C++ (operators: add, sub, mul, div, neg,
 * scale; scopes and checkpointed parts: begin_scope, end_scope, begin_part, end_part; type of a
 * tensor; "op": any op by name). `tensors` are its operands in the order of the function's, -1 for
 * one that is not given; `attributes` is a JSON object with the others by their names, or NULL. The
 * result is what the function gives: {"tensors": [numbers]}, or a value. */
char* snug_build_call(snug_builder* builder, const char* name, const int32_t* tensors, size_t count,
                      const char* attributes);

char* snug_network_new(const char* name, snug_build build, void* context, snug_object** network);
/* The network of a model of the library's (snug/models.h); options as of snug_call. */
char* snug_network_of_model(const snug_option* options, size_t count, snug_object** network);

/* The kernel of an op of your own (snug/custom_op.h). `dims`: for each input, then each output, its
 * type (0: f32, 1: i32, 2: i64, 3: boolean), its rank and its sizes. `numbers`: its attributes, in
 * the order of the definition. */
typedef int64_t (*snug_kernel)(void* context, const void* const* inputs, void* const* outputs,
                               const int64_t* dims, const double* numbers, void* scratch);
/* What else the op is asked: "infer" (types of its outputs: [{"dtype", "shape"}]), "scratch_bytes",
 * "flops" (a number), "gradient" (numbers of tensors, -1 for none, made by `builder`; NULL for the
 * others). The answer, JSON, is given to snug_reply. `question` has "inputs" (types) and
 * "attributes"; that of a gradient has numbers of tensors: "inputs", "outputs", "gradients". */
typedef int64_t (*snug_ask)(void* context, const char* what, const char* question,
                            snug_builder* builder, void* reply);
void snug_reply(void* reply, const char* json);
/* `definition`: {"name", "inputs": [names], "outputs": [names], "attributes": {name: number or
 * truth value}, "couples_rows", "has_gradient", "has_scratch_bytes", "has_flops"}. */
char* snug_network_add(snug_object* network, const char* definition, snug_kernel kernel,
                       snug_ask ask, void* context);

/* Elements in a row, of "f32", "i32" or "bool" (a byte each), row-major. */
typedef struct snug_array {
  const char* name;
  const char* dtype;
  const int64_t* shape;
  size_t rank;
  void* data;
} snug_array;

/* RowSlot of snug/session.h; the length's name is NULL where the input has none. */
typedef struct snug_slot {
  snug_array array; /* (rows, row_shape...) */
  const char* length;
  int32_t padding;
  int64_t first_row;
} snug_slot;
typedef int64_t (*snug_fill)(void* context, const snug_slot* slots, size_t count);
/* Outputs of some rows, or the gradient of a weight; valid during the call. */
typedef int64_t (*snug_sink)(void* context, int64_t first_row, const snug_array* arrays,
                             size_t count);

/* What goes into a verb and comes out of it beside words; all that a verb has no use for is 0. */
typedef struct snug_data {
  int64_t rows;
  const snug_array* arrays; /* columns of the rows; or one array to read into or to write from */
  size_t array_count;
  snug_fill fill; /* in place of the columns' data, which are NULL then: writes them where asked */
  snug_sink sink;
  snug_event event;          /* "progress" of planning and "message"; kept by what is made */
  const snug_object* cancel; /* a flag; kept by what is made */
  const snug_object* machine;
  void* block; /* memory for everything that the session holds, page-aligned */
  size_t block_bytes;
  void* context; /* of the callbacks */
} snug_data;

/* Options without a dot are fields of SessionOptions by name, as text: numbers, truth values,
 * amounts of memory, lists and objects in JSON or as the run configuration's keys have them.
 *
 * no object  flag -> object; machine (.threads, .profile_folder) -> object; splits_of
 *            (.batch_rows); every_combination (.lengths)
 * flag       set, clear, is_set
 * machine    about
 * network    plan (.html true: with the page), plan_levers, plan_allowed_levers, fastest_levers
 *            (.allow), tensors_of, explain (.stages), all with SessionOptions; plan_session ->
 *            plan, open, resume (.folder) -> session (.html true: reports have pictures);
 *            gradients (.xs, .checkpoints) -> session
 * plan       report (.html), save, save_problem, save_schedule (.file), summands (.length),
 *            open -> session
 * session    plan (.html), about (updates, counts, loss scale), has_input (.input), set_counts
 *            (.drawn, .schedule, .optimizer), set_loss_scale (.value, .clean_updates,
 *            .overflows), step (.length, .total_weights, .learning_rate, .is_skipped), gradients,
 *            predict (with a sink), evaluate, tensors, read, write (one array, whose name is the
 *            tensor's; .first_row: rows), view, edit (.name; the result has "address", "bytes",
 *            "dtype", "shape"), initialize (.name), find_not_finite, require_finite (.where),
 *            load_weights (keys of a run configuration), save (.folder), measured_arena_bytes,
 *            set_poisoning (.is_on)
 *
 * Numbers that are not finite are the texts "nan", "inf" and "-inf" in results. */
char* snug_do(snug_object* object, const char* verb, const snug_option* options, size_t count,
              const snug_data* data, snug_object** made);

#ifdef __cplusplus
}
#endif

#endif /* SNUG_SNUG_SESSION_C_H */
