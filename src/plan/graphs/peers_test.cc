// SPDX-License-Identifier: Apache-2.0
// Equal parts are found by structure, and what helps in one is tried in the others.
#include "plan/graphs/peers.h"

#include <gtest/gtest.h>

#include "plan/graphs/retention_greedy.h"
#include "plan/graphs/retention_ruin.h"
#include "plan/graphs/retention_testing.h"
#include "plan/problem/test_maker.h"

namespace snug::plan {
namespace {

using testing::expect_state_is_exact;
using testing::Maker;
using testing::numbered;

constexpr int32_t kLayers = 8;

// A layer is a product and an activation of as many bytes, which is made again for a tenth.
// `odd` is a layer whose activation has other bytes.
Problem layers(int32_t odd = -1) {
  Maker maker;
  maker.problem.alignment = 64;
  const StorageId mask = maker.make("mask", Phase::forward, 1, {}, 64);
  StorageId x = maker.make("embed", Phase::forward, 5, {}, 640);
  std::vector<StorageId> products;
  std::vector<StorageId> activations;
  for (int32_t i = 0; i < kLayers; ++i) {
    products.push_back(maker.make(numbered("product", i), Phase::forward, 10, {x, mask}, 640));
    activations.push_back(maker.make(numbered("act", i), Phase::forward, 1, {products.back()},
                                     i == odd ? 1280 : 640));
    x = activations.back();
  }
  StorageId gradient = maker.make("loss", Phase::backward, 1, {x}, 640);
  for (int32_t i = kLayers; i-- > 0;) {
    const StorageId inner = maker.make(numbered("d_act", i), Phase::backward, 1,
                                       {gradient, products[i], activations[i]}, 640);
    gradient = maker.make(numbered("d_product", i), Phase::backward, 10, {inner, mask}, 640);
  }
  maker.problem.keep = {gradient};
  return maker.problem;
}

struct Found {
  explicit Found(const Problem& problem)
      : index(problem), graph(index, given_order(problem)), peers(index, graph) {}
  [[nodiscard]] int32_t at(const std::string& name) const {
    for (const OpId id : index.op_ids()) {
      if (index.op(id).name == name) return graph.way_of[id];
    }
    return -1;
  }
  ProblemIndex index;
  StageGraph graph;
  Peers peers;
};

TEST(Peers, A_later_part_of_the_forward_part_is_an_earlier_one_of_the_backward_part) {
  const Problem problem = layers();
  const Found found(problem);
  EXPECT_FALSE(found.peers.is_empty());
  for (const Toward toward : {Toward::later, Toward::earlier}) {
    const int32_t other = toward == Toward::later ? 4 : 2;
    for (const char* name : {"product", "act", "d_act", "d_product"}) {
      const int32_t op = found.at(numbered(name, 3));
      const int32_t peer = found.at(numbered(name, other));
      EXPECT_EQ(found.peers.stage(op, toward), peer) << name;
      EXPECT_EQ(found.peers.storage(found.graph.outputs[op][0], toward),
                found.graph.outputs[peer][0]);
    }
    for (const int32_t only : {found.at("mask"), found.at("loss"), found.graph.op_count})
      EXPECT_EQ(found.peers.stage(only, toward), only);
  }
}

TEST(Peers, Names_do_not_matter_and_bytes_do) {
  Problem problem = layers(4);
  for (Op& op : problem.ops) op.scope = op.name;
  const Found found(problem);
  const int32_t before = found.at("act2");
  EXPECT_NE(found.peers.stage(found.at("act3"), Toward::later), found.at("act4"));
  EXPECT_NE(found.peers.stage(before, Toward::later), found.at("act4"));
}

TEST(Peers, A_graph_without_equal_parts_has_none) {
  Maker maker;
  maker.problem.alignment = 64;
  StorageId x = maker.make("x", Phase::forward, 1, {}, 64);
  for (int32_t i = 2; i < 9; ++i) x = maker.make(numbered("x", i), Phase::forward, i, {x}, 64 * i);
  maker.problem.keep = {x};
  EXPECT_TRUE(Found(maker.problem).peers.is_empty());
}

// Begun where all products are made again, in the bytes that this takes: activations had better be.
TEST(Peers, What_helps_in_one_part_is_tried_in_the_others) {
  const Problem problem = layers();
  const Found found(problem);
  const std::vector<ArenaId> storages = droppable(found.graph);
  double with = 0;
  double without = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Peers* peers : {static_cast<const Peers*>(nullptr), &found.peers}) {
      Retention state(found.graph, 0);
      for (int32_t i = 0; i < kLayers; ++i) {
        const ArenaId product = found.graph.outputs[found.at(numbered("product", i))][0];
        const int32_t begin = found.at(numbered("act", i));
        ASSERT_TRUE(state.set(product, begin + 1, found.at(numbered("d_act", i)), false));
      }
      state.commit();
      state.set_limit(state.peak());
      Random random(seed);
      RuinLimits limits;
      limits.work = 1'000'000;
      limits.steps = 1;
      limits.hot = 0.1;
      limits.peers = peers;
      ASSERT_TRUE(ruin_and_recreate(found.graph, state, storages, random, limits));
      expect_state_is_exact(problem, state);
      EXPECT_TRUE(state.fits());
      (peers == nullptr ? without : with) += state.extra_cost();
    }
  }
  EXPECT_LT(with, 0.8 * without);
}

}  // namespace
}  // namespace snug::plan
