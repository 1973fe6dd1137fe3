/* SPDX-License-Identifier: Apache-2.0 */
/* A network and a session in plain C, against the installed header and shared object: it learns, says what is wrong, and a
 * callback's own failure comes back by its number. */
#include <snug/snug_session_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, WIDTH = 4, OWN_FAILURE = 77 };

static int fails = 0; /* the function of the network does */

static void require(int is_so, const char* what, const char* answer) {
  if (is_so) return;
  fprintf(stderr, "%s: %s\n", what, answer);
  exit(1);
}

/* The first tensor of an answer. */
static int32_t tensor_of(char* answer) {
  const char* list = strstr(answer, "{\"result\":{\"tensors\":[");
  require(list == answer, "no tensors", answer);
  const int32_t number = (int32_t)strtol(answer + strlen("{\"result\":{\"tensors\":["), NULL, 10);
  snug_free(answer);
  return number;
}

static int64_t build(void* context, snug_builder* b) {
  if (fails) return OWN_FAILURE;
  (void)context;
  const int32_t x =
      tensor_of(snug_build_call(b, "input", NULL, 0, "{\"name\":\"x\",\"row_shape\":[4]}"));
  const int32_t wanted =
      tensor_of(snug_build_call(b, "input", NULL, 0, "{\"name\":\"wanted\",\"row_shape\":[1]}"));
  const int32_t y =
      tensor_of(snug_build_call(b, "linear", &x, 1, "{\"name\":\"out\",\"out_features\":1}"));
  const int32_t both[2] = {y, wanted};
  const int32_t loss = tensor_of(snug_build_call(b, "mean_squared_error", both, 2, NULL));
  snug_free(snug_build_call(b, "output", &y, 1, "{\"name\":\"y\"}"));
  snug_free(snug_build_call(b, "minimize", &loss, 1, NULL));
  char* wrong = snug_build_call(b, "softmax", &x, 1, "{\"axis\":9}");
  require(strstr(wrong, "\"code\":\"shape_mismatch\"") != NULL, "a wrong axis", wrong);
  snug_free(wrong);
  return 0;
}

static double loss_of(char* answer) {
  const char* loss = strstr(answer, "\"loss\":");
  require(strncmp(answer, "{\"result\":", 10) == 0 && loss != NULL, "a step", answer);
  const double value = strtod(loss + strlen("\"loss\":"), NULL);
  snug_free(answer);
  return value;
}

static int64_t count_rows(void* context, int64_t first_row, const snug_array* arrays, size_t count) {
  (void)first_row;
  require(count == 1 && strcmp(arrays[0].name, "y") == 0 && arrays[0].rank == 2, "outputs", "y");
  *(int64_t*)context += arrays[0].shape[0];
  return 0;
}

int main(void) {
  snug_object *network = NULL, *session = NULL, *none = NULL;
  char* answer = snug_network_new("plain_c", build, NULL, &network);
  require(network != NULL, "a network", answer);
  snug_free(answer);
  const snug_option options[] = {{"batch_rows", "8"}, {"memory", "8MiB"}, {"learning_rate", "0.1"}};
  answer = snug_do(network, "open", options, 3, NULL, &session);
  require(session != NULL, "a session", answer);
  snug_free(answer);

  float x[ROWS * WIDTH], wanted[ROWS];
  for (int i = 0; i < ROWS * WIDTH; ++i) x[i] = (float)(i % 7) / 7;
  for (int i = 0; i < ROWS; ++i) wanted[i] = x[i * WIDTH] - x[i * WIDTH + 1];
  const int64_t x_shape[] = {ROWS, WIDTH}, wanted_shape[] = {ROWS, 1};
  const snug_array arrays[] = {{"x", "f32", x_shape, 2, x}, {"wanted", "f32", wanted_shape, 2, wanted}};
  int64_t rows = 0;
  snug_data data;
  memset(&data, 0, sizeof data);
  data.rows = ROWS;
  data.arrays = arrays;
  data.array_count = 2;
  data.sink = count_rows;
  data.context = &rows;
  const double first = loss_of(snug_do(session, "step", NULL, 0, &data, NULL));
  for (int i = 0; i < 50; ++i) snug_free(snug_do(session, "step", NULL, 0, &data, NULL));
  const double last = loss_of(snug_do(session, "evaluate", NULL, 0, &data, NULL));
  require(last < 0.2 * first && rows == ROWS, "it learns", "not");

  answer = snug_do(session, "dance", NULL, 0, NULL, NULL);
  require(strstr(answer, "a session has no such verb") != NULL, "a verb that there is not", answer);
  snug_free(answer);
  fails = 1;
  answer = snug_do(network, "open", options, 3, NULL, &none);
  require(none == NULL && strcmp(answer, "{\"error\":{\"code\":\"callback\",\"answer\":77}}") == 0,
          "a failure of one's own", answer);
  snug_free(answer);
  snug_release(network);
  answer = snug_do(session, "tensors", NULL, 0, NULL, NULL);
  require(strstr(answer, "out.weight") != NULL, "a session without its network", answer);
  snug_free(answer);
  snug_release(session);
  printf("a session in C: loss %.6f before, %.6f after\n", first, last);
  return 0;
}
