// SPDX-License-Identifier: Apache-2.0
#include "run_memory/process_memory.h"

#include <algorithm>
#include <bit>

#include "base/units.h"
#include "data/row_marks.h"
#include "data/sampler.h"
#include "optim/state_storage.h"
#include "snug/instruction_set.h"
#include "text/vocabulary.h"

namespace snug::run_memory {
namespace {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;

// Program and libraries (18 MiB of their pages measured), Unicode tables, heap of a small run.
constexpr int64_t kBaseBytes = 27 * kMiB;
// Graph, schedule, bound pointers, compiled kernels; what runs again 3 KiB, a second pass 4 KiB.
constexpr int64_t kBytesPerPart = 182 * kKiB;
// Two tensors for a state, a kernel of its own for each size: 9.2 KiB measured.
constexpr int64_t kBytesPerPartOfCodes = 12 * kKiB;
// Kernels of 16 bits beside those of f32, and casts between them: 1.3 to 2.2 MiB measured.
constexpr int64_t kBytesIn16Bits = 2 * kMiB;
// Products of a row each and their gradients, which nothing else of a model has: 2.1 MiB measured.
constexpr int64_t kPoolingBytes = 3 * kMiB;
constexpr int64_t kBytesPerPartIn16Bits = 16 * kKiB;
// oneDNN's products of bf16 on tiles (AMX) have code of their own for each number of rows: 1 MB for
// all of a model; those of 128 rows and more, most of them, are our own and have none.
constexpr int64_t kBytesPerBucketOnTiles = 640 * kKiB;
constexpr int64_t kAdaptersPerPart = 4;  // 12 nodes each, in place of those of a weight
constexpr int64_t kBytesPerBucket = 1 * kMiB;
constexpr int64_t kBytesPerThread = 128 * kKiB;
constexpr int64_t kBytesOfEvents = 512 * kKiB;
constexpr int64_t kBytesPerWindowRow = 64;  // of the samplers of training and evaluation
constexpr int64_t kCopiesOfConfig = 16;     // as text, as values, in the checkpoint's state

constexpr int64_t kBytesPerToken = 192;  // hash table; tokenizer.json while it is written
constexpr int64_t kCopiesOfTokens = 4;
constexpr int64_t kCopiesOfTables = 2;        // as text while tokenizer.json is written
constexpr int64_t kBytesPerLabel = 2 * kKiB;  // names, maps and counters; a report as JSON
constexpr int64_t kCopiesOfLabels = 18;       // 17 while a checkpoint is written with a report
constexpr int64_t kBytesPerHeaderByte = 12;   // names, shapes and places of tensors

// Before the run's memory exists.
constexpr int64_t kPreparationBytes = 22 * kMiB;  // program, one row, the cache's buffers
constexpr int64_t kBytesPerRowByte = 8;
constexpr int64_t kLeastRowBytes = 256 * kKiB;
constexpr int64_t kLeastImageBytes = 2 * kMiB;
constexpr int64_t kStartupBytesPerToken = 512;        // of a tokenizer's file as a document
constexpr int64_t kPlanningBytes = 1728 * kKiB;       // of a part of the longest program
constexpr int64_t kPlanningBytesForward = 96 * kKiB;  // of a part without a backward pass
// Beside them where the batch may be split: schedules that follow those of another split, and for
// each halving of the batch the problems and schedules of its micro-batches. Measured in all, a
// part: 2.6 MiB with 8 rows (LSTM of 256 steps), 3.2 with 1,024, 4.1 with 8,192 (BERT of 48
// layers).
constexpr int64_t kPlanningBytesOfSplits = 640 * kKiB;
constexpr int64_t kPlanningBytesOfHalving = 160 * kKiB;
// Beyond so many parts fewer sizes are tried: 2.0 MiB a part with 167, 0.8 with 668 (64 rows).
constexpr int64_t kPartsOfAllSizes = 80;
// The chain's table for layers that are kinds of blocks of their own, which has a limit.
constexpr int64_t kPlanningBytesOfLayerPart = 2 * kMiB;
constexpr int64_t kPlanningBytesOfLayers = 48 * kMiB;

int64_t table_bytes(const ProcessNeeds& needs) {
  return kBytesPerToken * needs.vocab_size + kCopiesOfTokens * needs.vocab_bytes +
         kCopiesOfTables * needs.tokenizer_bytes + kCopiesOfConfig * needs.config_bytes +
         kBytesPerLabel * needs.labels + kCopiesOfLabels * needs.label_bytes;
}

// What planning the longest program takes in training.
int64_t planning_bytes(const ProcessNeeds& needs) {
  const int64_t parts = needs.longest_parts;
  if (needs.halvings == 0) return kPlanningBytes * parts;
  const int64_t counted = parts - std::max<int64_t>(0, parts - kPartsOfAllSizes) / 2;
  return (kPlanningBytes + kPlanningBytesOfSplits + kPlanningBytesOfHalving * needs.halvings) *
         counted;
}

}  // namespace

ProcessNeeds process_needs(const RunConfig& config, const run_model::Model& model,
                           int64_t vocab_bytes, std::span<const Lengths> lengths, int64_t batch,
                           int64_t rows) {
  ProcessNeeds needs;
  needs.vocab_size = model.traits.vocab_size;
  needs.vocab_bytes = vocab_bytes;
  needs.labels = static_cast<int64_t>(model.labels.size());
  for (const Lengths& length : lengths) needs.program_parts += model.size(length.of()).parts;
  const models::ProgramSize longest = model.size(lengths.back().of());
  needs.layer_parts = longest.layer_parts;
  needs.longest_parts = longest.parts;
  needs.buckets = static_cast<int64_t>(lengths.size());
  needs.pools_by_attention = model.traits.text_head.pooling == models::Pooling::attention;
  needs.window_rows = data::kWindowBatches * batch;
  if (rows > 0) needs.window_rows = std::min(needs.window_rows, rows);
  if (config.stratify) needs.split_bytes = data::RowMarks::bytes(rows);
  needs.config_bytes = static_cast<int64_t>(config.to_json().size());
  needs.writes_events = config.report_to != "none";
  needs.has_16_bits = config.bf16 || config.fp16 || config.bf16_full_eval ||
                      config.fp16_full_eval || !config.precision_overrides.empty();
  needs.has_bf16_tiles =
      instruction_set() >= InstructionSet::amx &&
      (config.bf16 || config.bf16_full_eval || !config.precision_overrides.empty());
  const bool is_split = config.micro_batch_size == 0 &&
                        (!model.traits.has_batch_statistics || config.allow_batch_norm_split);
  if (is_split && batch > 1) needs.halvings = std::bit_width(static_cast<uint64_t>(batch)) - 1;
  needs.has_state_codes = optim::has_codes(config.optim_bits, config.optim_bits_overrides);
  for (const std::string& label : model.labels)
    needs.label_bytes += static_cast<int64_t>(label.size());
  needs.header_bytes = model.header_bytes;
  if (!model.adapted.empty()) {
    const int64_t parts = std::ssize(model.adapted) / kAdaptersPerPart + 1;
    needs.program_parts += parts * needs.buckets;
    needs.longest_parts += parts;
  }
  return needs;
}

int64_t process_reservation(const ProcessNeeds& needs) {
  const int64_t parts = needs.program_parts + needs.layer_parts * needs.buckets;
  const int64_t in_16_bits =
      (needs.has_16_bits ? kBytesIn16Bits + kBytesPerPartIn16Bits * parts : 0) +
      (needs.has_bf16_tiles ? kBytesPerBucketOnTiles * needs.buckets : 0);
  const int64_t of_codes = needs.has_state_codes ? kBytesPerPartOfCodes * parts : 0;
  return round_up(kBaseBytes + table_bytes(needs) + kBytesPerHeaderByte * needs.header_bytes +
                      kBytesPerBucket * needs.buckets + kBytesPerPart * parts + in_16_bits +
                      of_codes + (needs.pools_by_attention ? kPoolingBytes : 0) +
                      kBytesPerThread * needs.threads + kBytesPerWindowRow * needs.window_rows +
                      needs.metric_bytes + needs.split_bytes +
                      (needs.writes_events ? kBytesOfEvents : 0),
                  kMiB);
}

int64_t startup_reservation(const ProcessNeeds& needs) {
  const int64_t tables = table_bytes(needs);
  const int64_t reading = tables + kStartupBytesPerToken * needs.vocab_size;
  const int64_t planning =
      tables + kPlanningBytesForward * needs.program_parts +
      (needs.trains
           ? planning_bytes(needs) +
                 std::min(kPlanningBytesOfLayers, kPlanningBytesOfLayerPart * needs.layer_parts)
           : 0);
  const int64_t learning = needs.learns_vocabulary ? text::kVocabularyLearnerBytes : 0;
  return round_up(kPreparationBytes + std::max({reading, planning, learning}), kMiB);
}

int64_t affordable_image_bytes(int64_t budget) {
  return std::max(kLeastImageBytes, budget - kPreparationBytes);
}

int64_t affordable_row_bytes(int64_t budget, int64_t model_bytes) {
  const int64_t bytes = kBytesPerRowByte + model_bytes;
  return std::max(kLeastRowBytes * kBytesPerRowByte / bytes, (budget - kPreparationBytes) / bytes);
}

}  // namespace snug::run_memory
