// SPDX-License-Identifier: Apache-2.0
// The part of the budget that is neither resident values nor arena: code, libraries, stacks,
// compiled kernels, and every table that grows with the model, the vocabulary, the labels or a
// file's header. Reservations by formula, so that `plan` and `train` say the same; tests hold the
// process to them. Each is about twice what was measured for the part that grows, and has 8 MiB of
// room for another machine's libraries and instruction set.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "run_model/model.h"

namespace snug::run_memory {

struct ProcessNeeds {
  int64_t vocab_size = 0;
  int64_t vocab_bytes = 0;      // of all tokens
  int64_t tokenizer_bytes = 0;  // merges, scores and the like beside the tokens
  int64_t labels = 0;
  int64_t label_bytes = 0;    // of all names
  int64_t header_bytes = 0;   // of the weights' files
  int64_t program_parts = 0;  // over all buckets
  int64_t layer_parts = 0;    // in each bucket, beside those of its length
  int64_t longest_parts = 0;  // of the longest bucket
  int64_t buckets = 1;
  int64_t halvings = 0;      // of the batch, until micro-batches have one row; 0: it stays whole
  int64_t window_rows = 0;   // of the samplers
  int64_t split_bytes = 0;   // of the marks of rows that are held out
  int64_t metric_bytes = 0;  // of an evaluation that keeps something of every row
  int64_t config_bytes = 0;  // of the run configuration as text
  int threads = 1;
  bool trains = true;
  bool learns_vocabulary = false;
  bool has_16_bits = false;      // mixed precision, in training or evaluation
  bool has_bf16_tiles = false;   // of these, in bf16 on tiles (AMX)
  bool has_state_codes = false;  // states of the optimizer in 8 bits
  bool pools_by_attention = false;
  bool writes_events = false;  // the text of the plan and the records of it
};

/// What is known of a model, its tokens and the configuration. `rows` 0: not known. Threads and
/// what is learned are the caller's.
[[nodiscard]] ProcessNeeds process_needs(const RunConfig& config, const run_model::Model& model,
                                         int64_t vocab_bytes, std::span<const Lengths> lengths,
                                         int64_t batch, int64_t rows);

/// Beside resident values and arena, for the whole run. A multiple of a page.
[[nodiscard]] int64_t process_reservation(const ProcessNeeds& needs);

/// What the whole process takes before resident values and arena exist: reading data, learning a
/// vocabulary, planning. A multiple of a page.
[[nodiscard]] int64_t startup_reservation(const ProcessNeeds& needs);

/// What decoding one image may take within a budget, before the run's memory exists.
[[nodiscard]] int64_t affordable_image_bytes(int64_t budget);

/// The longest row that may be read within a budget: reading, normalising and cutting it into
/// tokens takes eight times its bytes, and `model_bytes` for each byte of a word, which may be all
/// of it.
[[nodiscard]] int64_t affordable_row_bytes(int64_t budget, int64_t model_bytes);

}  // namespace snug::run_memory
