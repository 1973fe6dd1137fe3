// SPDX-License-Identifier: Apache-2.0
// Types, attributes, builder and verifier.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "graph/builder.h"
#include "graph/storage.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug {
namespace {

void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code));
    EXPECT_STREQ(error.what(), text.c_str());
  }
}

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

// Up to four dimensions lie in the shape itself, more of them on the heap.
TEST(Shapes, are_values_like_vectors_whatever_their_rank) {
  Shape grown;
  std::vector<int64_t> wanted;
  for (int64_t dim = 0; dim < 9; ++dim) {
    EXPECT_EQ(grown, wanted);
    EXPECT_EQ(Shape(wanted.begin(), wanted.end()), grown);
    EXPECT_EQ(std::vector<int64_t>(grown), wanted);
    Shape copied = grown;
    EXPECT_EQ(copied, grown);
    copied.push_back(7);
    EXPECT_NE(copied, grown);
    EXPECT_EQ(copied.back(), 7);
    const Shape moved = std::move(copied);
    EXPECT_EQ(moved.size(), wanted.size() + 1);
    copied = grown;  // of another rank than what it held
    EXPECT_EQ(copied, grown);
    copied = Shape{1, 2, 3, 4, 5};
    EXPECT_EQ(copied, (Shape{1, 2, 3, 4, 5}));
    grown.push_back(dim);
    wanted.push_back(dim);
  }
  Shape shape = {2, 3};
  shape.insert(shape.end(), grown.begin(), grown.begin() + 3);
  EXPECT_EQ(shape, (Shape{2, 3, 0, 1, 2}));
  shape.insert(shape.begin() + 1, wanted.begin() + 8, wanted.end());
  EXPECT_EQ(shape, (Shape{2, 8, 3, 0, 1, 2}));
  shape.erase(shape.begin() + 3);
  shape.pop_back();
  EXPECT_EQ(shape, (Shape{2, 8, 3, 1}));
  EXPECT_EQ(Shape(3, 5), (Shape{5, 5, 5}));
  EXPECT_EQ(Shape(2), (Shape{0, 0}));
}

TEST(Types, counts_strides_and_names) {
  EXPECT_EQ(to_string(TensorType{DType::boolean, {2, 0}}), "bool[2,0]");
  EXPECT_EQ(to_string(f32({})), "f32[]");
  EXPECT_EQ(element_count(Shape{}), 1);
  EXPECT_EQ(element_count(Shape{3, 0, 5}), 0);
  EXPECT_EQ(byte_count({DType::i64, {3}}), 24);
  EXPECT_EQ(byte_count({DType::boolean, {3}}), 3);
  EXPECT_EQ(strides_of({2, 3, 4}), (Shape{12, 4, 1}));
  const int64_t half = int64_t{1} << 32;
  expect_error(ErrorCode::shape_mismatch,
               "[[4294967296,4294967296]] the tensor has more than 2^63 elements", [&] {
                 (void)element_count(Shape{half, half});
               });
}

TEST(Types, shapes_broadcast_as_in_numpy) {
  EXPECT_EQ(broadcast_shapes({3, 1}, {4}, "t"), (Shape{3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {2, 3}, "t"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes({1}, {0}, "t"), (Shape{0}));
  expect_error(ErrorCode::shape_mismatch, "[t] shapes [2,3] and [2] do not broadcast", [] {
    (void)broadcast_shapes({2, 3}, {2}, "t");
  });
  EXPECT_EQ(normalize_axis(-2, 2, "t"), 0);
  expect_error(ErrorCode::shape_mismatch, "[t] axis -3 is out of range for rank 2",
               [] { (void)normalize_axis(-3, 2, "t"); });
}

TEST(Attrs, compare_and_print) {
  const Attrs a = {{"axis", int64_t{1}}, {"rate", 0.5}};
  Attrs b = {{"rate", 0.5}, {"axis", int64_t{1}}};
  EXPECT_EQ(a, b);
  b.set("axis", int64_t{2});
  EXPECT_NE(a, b);
  EXPECT_EQ(to_string(AttrValue{3.0}), "3.0");
  EXPECT_EQ(to_string(AttrValue{int64_t{3}}), "3");
  EXPECT_EQ(to_string(AttrValue{std::string("a\"b\\")}), "\"a\\\"b\\\\\"");
  EXPECT_EQ(to_string(AttrValue{std::vector<int64_t>{}}), "[]");
  EXPECT_THROW((void)a.boolean("axis"), Error);
  EXPECT_THROW((void)a.int64("absent"), Error);
}

TEST(Builder, names_scopes_and_phases_are_kept) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.input("x", f32({2}));
  {
    const ScopeGuard outer(b, "encoder");
    const ScopeGuard inner(b, "layer.0");
    const PhaseGuard phase(b, Phase::update);
    (void)b.op1("exp", {x});
  }
  const ValueId y = b.op1("exp", {x});
  b.mark_output(y, "y");
  EXPECT_EQ(describe(b.graph(), NodeId(0)), "%1 encoder.layer.0/exp");
  EXPECT_EQ(b.graph().nodes[NodeId(0)].phase, Phase::update);
  EXPECT_EQ(describe(b.graph(), NodeId(1)), "%2 exp");
  EXPECT_EQ(b.graph().nodes[NodeId(1)].phase, Phase::forward);
  EXPECT_EQ(b.graph().find("y"), y);
  EXPECT_EQ(b.graph().find("z"), kNone);
}

TEST(Builder, mistakes_name_the_node) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.input("x", f32({2}));
  const ScopeGuard scope(b, "head");
  expect_error(
      ErrorCode::invalid_graph,
      "[g] a weight cannot be called 'x': an input is\nhint: give one of the two another name, "
      "or each a scope of its own",
      [&] { (void)b.parameter("x", f32({})); });
  expect_error(ErrorCode::invalid_graph,
               "[g] a buffer has an empty name\nhint: give it a name of its own",
               [&] { (void)b.buffer("", f32({})); });
  expect_error(ErrorCode::invalid_graph, "[%1 head/exq] there is no op named 'exq'",
               [&] { (void)b.op("exq", {x}); });
  expect_error(ErrorCode::invalid_graph, "[%1 head/exp] input 0 is not a value of this graph",
               [&] { (void)b.op("exp", {ValueId(99)}); });
  expect_error(ErrorCode::invalid_graph, "[%1 head/exp] op exp takes 1 inputs, not 2", [&] {
    (void)b.op("exp", {x, x});
  });
  expect_error(ErrorCode::invalid_graph, "[%1 head/exp] op exp has no attribute 'axis'", [&] {
    (void)b.op("exp", {x}, {{"axis", int64_t{0}}});
  });
  expect_error(
      ErrorCode::invalid_graph,
      "[g] a computed value cannot be called 'x': an input is\nhint: give one of the two another "
      "name, or each a scope of its own",
      [&] { b.mark_output(b.op1("exp", {x}), "x"); });
  EXPECT_EQ(b.graph().nodes.size(), 1u) << "a refused node leaves nothing behind";
}

TEST(Builder, a_continued_graph_goes_on_with_random_ordinals) {
  GraphBuilder first(op_registry(), "g");
  const ValueId x = first.input("x", f32({2, 3}));
  const ValueId rng = first.input("rng", {DType::i64, {3}});
  (void)first.op1("dropout", {x, rng}, {{"rate", 0.1}, {"ordinal", int64_t{4}}});
  GraphBuilder second(op_registry(), first.take());
  EXPECT_EQ(second.next_random_ordinal(), 5);
  EXPECT_EQ(second.next_random_ordinal(), 6);
}

TEST(Graph, storage_follows_views_and_overwrites) {
  GraphBuilder b(op_registry(), "g");
  const ValueId total = b.state("total", f32({2, 3}));
  const ValueId x = b.input("x", f32({2, 3}));
  const ValueId sum = b.op1("accumulate", {total, x});
  const ValueId flat = b.op1("reshape", {sum}, {{"shape", std::vector<int64_t>{6}}});
  const ValueId other = b.op1("exp", {flat});
  EXPECT_EQ(storage_of(b.graph(), flat), total);
  EXPECT_EQ(storage_of(b.graph(), other), other);
  const IdVector<ValueId, ValueId> all = storages_of(b.graph());
  ASSERT_EQ(all.size(), b.graph().values.size());
  for (const ValueId id : all.ids()) EXPECT_EQ(all[id], storage_of(b.graph(), id)) << id;
}

// Each damage is one that a wrong pass could do.
TEST(Verify, damaged_graphs_are_refused) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.input("x", f32({2, 3}));
  const ValueId y = b.op1("exp", {x});
  const ValueId z = b.op1("add", {x, y});
  b.mark_output(z, "z");
  const Graph good = b.graph();
  verify(good);
  const std::pair<const char*, std::function<void(Graph&)>> damages[] = {
      {"[node 0 exp] output type is f32[3,2] but should be f32[2,3]",
       [&](Graph& g) {
         g.values[ValueId(1)].type = f32({3, 2});
       }},
      {"[node 1 add] %2 is read before it is made",
       [&](Graph& g) { g.nodes[NodeId(1)].inputs[1] = z; }},
      {"[node 1 add] an input is out of range",
       [&](Graph& g) { g.nodes[NodeId(1)].inputs[1] = ValueId(17); }},
      {"[node 1 add] input 'b' of add is absent",
       [&](Graph& g) { g.nodes[NodeId(1)].inputs[1] = kNone; }},
      {"[node 0 gelu] attributes are not complete",
       [&](Graph& g) { g.nodes[NodeId(0)].op = op_registry().find("gelu"); }},
      {"[node 0 ?] it has no op", [&](Graph& g) { g.nodes[NodeId(0)].op = nullptr; }},
      {"[%1] its producer does not list it",
       [&](Graph& g) { g.values[ValueId(1)].producer = NodeId(1); }},
      {"[%1] no such producer", [&](Graph& g) { g.values[ValueId(1)].producer = NodeId(9); }},
      {"[%0] kind and producer disagree",
       [&](Graph& g) { g.values[ValueId(0)].kind = ValueKind::computed; }},
      {"[%2] the name 'x' is used twice", [&](Graph& g) { g.values[ValueId(2)].name = "x"; }},
      {"[%0] a resident value needs a name", [&](Graph& g) { g.values[ValueId(0)].name.clear(); }},
      {"[g] an output is not a computed value", [&](Graph& g) { g.outputs[0] = x; }},
  };
  for (const auto& [message, damage] : damages) {
    Graph bad = good;
    damage(bad);
    try {
      verify(bad);
      ADD_FAILURE() << "not noticed: " << message;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), message);
    }
  }
}

}  // namespace
}  // namespace snug
