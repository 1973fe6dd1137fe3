// SPDX-License-Identifier: Apache-2.0
#include "train/process_memory.h"

#include "base/units.h"

namespace snug::train {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBaseBytes =
    56 * kMiB;  // program, libraries, Unicode tables, heap of a small run
constexpr int64_t kBytesPerToken =
    192;  // of the vocabulary: its text and hash table, while loading and after
constexpr int64_t kBytesPerPart = 160 << 10;  // graph, schedule, bound pointers, compiled kernels
constexpr int64_t kBytesPerBucket = 2 * kMiB;
constexpr int64_t kBytesPerThread = 1 * kMiB;
constexpr int64_t kBytesPerBatchRow = 64 * 48;  // a sampler window of 64 batches

}  // namespace

int64_t process_reservation(const ProcessNeeds& needs) {
  return round_up(kBaseBytes + kBytesPerToken * needs.vocab_size + needs.buckets * kBytesPerBucket +
                      kBytesPerPart * needs.program_parts + kBytesPerThread * needs.threads +
                      kBytesPerBatchRow * needs.global_batch,
                  kMiB);
}

}  // namespace snug::train
