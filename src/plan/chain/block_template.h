// SPDX-License-Identifier: Apache-2.0
// One block on its own, with storages numbered in the order of first appearance, so that equal
// blocks number them equally. Measures a save-set: peak of the forward run, peak and seconds of the
// backward run with the recomputation inside it, each by exact liveness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/chain/block_options.h"

namespace snug::plan {

/// A storage of a block on its own.
using LocalId = Id<struct LocalTag>;

struct TemplateStorage {
  StorageId id;
  int64_t bytes = 0;
  bool is_input = false;  // of the block's input set; both where it only goes past the block
  bool is_output = false;
  bool is_forward = false;           // of the input set, or made by the block's forward ops
  bool is_read_by_backward = false;  // by this block's backward ops
  bool is_live_at_entry = false;     // made by earlier backward ops
  bool leaves = false;               // a backward storage that is used after this block's backward
  bool is_used_in_tail = false;      // see BlockTemplate::tail_begin_
};

class BlockTemplate {
 public:
  /// `entry_bytes`: made by the backward part before this block's and still live when it begins.
  /// `local_by_id`: none for each storage of the problem, and so again afterwards; the templates of
  /// a chain share it, since one block may have a hundred thousand storages and most have ten.
  BlockTemplate(const ProblemIndex& index, const Chain& chain, const Block& block,
                int64_t entry_bytes, IdVector<StorageId, LocalId>& local_by_id);

  /// Nothing where the set does not allow the backward to run (the input is needed but not saved).
  [[nodiscard]] std::optional<BlockOption> measure(const IdVector<LocalId, bool>& is_saved) const;
  [[nodiscard]] int64_t forward_peak(const IdVector<LocalId, bool>& is_saved) const;

  [[nodiscard]] size_t storage_count() const { return storages_.size(); }
  [[nodiscard]] IdRange<LocalId> storage_ids() const { return storages_.ids(); }
  [[nodiscard]] const TemplateStorage& storage(LocalId local) const { return storages_[local]; }
  [[nodiscard]] LocalId local_of(StorageId id) const;
  [[nodiscard]] size_t op_count() const { return forward_.size() + backward_.size(); }
  [[nodiscard]] double forward_seconds() const { return forward_seconds_; }
  [[nodiscard]] int64_t foreign_bytes() const { return foreign_bytes_; }
  /// Bytes of the input set, without what is pinned; and of the part of it which is in the output
  /// set, too.
  [[nodiscard]] int64_t input_bytes() const;
  [[nodiscard]] int64_t past_bytes() const;

 private:
  struct LocalOp {
    std::vector<LocalId> inputs;  // pinned and resident ones are left out
    std::vector<LocalId> outputs;
    std::vector<LocalId> overwritten;  // inputs in whose place an output of their size is written
    int64_t scratch_bytes = 0;
    double seconds = 0;
  };

  LocalId add_storage(const ProblemIndex& index, StorageId id,
                      IdVector<StorageId, LocalId>& local_by_id);
  LocalOp add_op(const ProblemIndex& index, const Chain& chain, OpId id,
                 IdVector<StorageId, LocalId>& local_by_id);
  [[nodiscard]] bool append_closure(LocalId local, IdVector<LocalId, uint8_t>& is_available,
                                    IndexVector<const LocalOp*>& run, double& seconds) const;

  void split_off_tail();
  [[nodiscard]] int64_t peak_of_tail() const;
  [[nodiscard]] IdRange<LocalId> head_ids() const { return {LocalId(0), head_end_}; }

  IdVector<LocalId, TemplateStorage> storages_;
  std::vector<std::pair<StorageId, LocalId>> sorted_ids_;
  IndexVector<LocalOp> forward_;
  IndexVector<LocalOp> backward_;
  IdVector<LocalId, int32_t> producer_;  // index in forward_, or -1
  // The backward ops from here on read nothing of the forward part (a hundred thousand updates), so
  // they are the same for every save-set, and so are the storages that they alone know.
  size_t tail_begin_ = 0;
  LocalId head_end_{0};  // where those begin
  int64_t tail_peak_bytes_ = 0;
  int64_t tail_entry_bytes_ = 0;  // there at entry, and used in the tail only
  double forward_seconds_ = 0;
  int64_t foreign_bytes_ = 0;
};

}  // namespace snug::plan
