// SPDX-License-Identifier: Apache-2.0
// Takes what runs once an update out of a program that runs once a micro-batch: casts and packings
// of weights.
//   before     %1 = cast(%0) {to="bf16"} prologue   %2 = embedding(%1, ...) forward
//   main       %1 = cached "cast(w) {to=bf16}"      %2 = embedding(%1, ...) forward
//   prologue   %1 = cast(%0) {to="bf16"} prologue   cached "cast(w) {to=bf16}" %1
// The two meet in a resident value, named by what it is made of: programs of all length buckets and
// of evaluation share it, and what stands twice is made once. Views stay where they are read. Runs
// last.
#pragma once

#include "graph/graph.h"

namespace snug::compile {

struct WithPrologue {
  Graph main;
  Graph prologue;  // without nodes where there is nothing to take out
};
[[nodiscard]] WithPrologue split_prologue(Graph graph);

/// Whether a program reads what the prologue makes.
[[nodiscard]] bool reads_prologue(const Graph& graph);
/// Whether a prologue makes all that a program takes to be there. Evaluation may have types of its
/// own.
[[nodiscard]] bool makes_all(const Graph& prologue, const Graph& program);

}  // namespace snug::compile
