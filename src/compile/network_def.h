// SPDX-License-Identifier: Apache-2.0
// NetworkDef: all that planning, binding and updating need to know of a network, as OpDef says it
// of an op. A model family's network and one that a caller's program describes are the same here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compile/changes.h"
#include "graph/builder.h"
#include "nn/init.h"
#include "snug/draw_numbering.h"
#include "snug/lengths.h"

namespace snug::compile {

class TraceCache;  // compile/forward.h

/// What one program is built for.
struct BuildRequest {
  int64_t rows = 0;           // of a micro-batch
  Lengths lengths = {};       // that they are padded to, where rows have any
  bool training = true;       // else forward alone: no dropout, no loss
  int64_t micro_batches = 1;  // of an update; batch norm shares its momentum among them
  bool operator==(const BuildRequest&) const = default;
};

struct NetworkDef {
  /// Appends the forward part to an empty builder, marks its outputs and returns the loss (kNone in
  /// evaluation): this micro-batch's share of the global mean, the output "loss". The same request
  /// gives the same graph.
  std::function<ValueId(GraphBuilder&, const BuildRequest&)> build;
  std::function<InitRule(const std::string& weight, const Shape&)> init_rule;
  /// What is trained for the task, and stays trainable when the rest is frozen.
  std::function<bool(const std::string& parameter)> is_head;
  /// What stays as it is whatever the recipe says (the base of adapters); null: nothing.
  std::function<bool(const std::string& parameter)> is_frozen = nullptr;
  /// Why a row's result depends on the other rows ("normalises by the statistics of its batch"), so
  /// that a split of the batch is other mathematics; empty where it does not.
  std::string coupling;
  std::string eval_coupling = {};  // the same in evaluation
  /// The ops that it may have: those of the program, and the caller's own. Null: the program's.
  std::shared_ptr<const OpRegistry> ops = nullptr;
  /// Where shorter rows take less memory: the shortest that it can be built for. Its weights do not
  /// depend on them.
  Lengths shortest = {};
  bool has_marks = false;  // says itself what is kept and what is run again
  /// How its draws are numbered behind building (compile/draws.h); nothing where they stay as they
  /// are: those of a model family, which its own functions order.
  std::optional<DrawNumbering> draws = {};
  /// What is made of the forward part behind building. Set by with_changes() (compile/forward.h).
  ForwardChanges changes = {};
  /// What was traced of it, shared by its copies; null: nothing is kept.
  std::shared_ptr<TraceCache> traces = nullptr;
};

/// Those that it may have.
[[nodiscard]] const OpRegistry& ops_of(const NetworkDef& network);
/// The value that ops which draw are fed: the network's own where it draws, too, else a new input.
[[nodiscard]] ValueId random_key_of(GraphBuilder& builder);

}  // namespace snug::compile
