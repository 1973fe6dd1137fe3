// SPDX-License-Identifier: Apache-2.0
// VGG and residual networks against PyTorch's in float64 (tests/golden/images.safetensors, written
// by tools/golden/images.py): names, logits, loss, every gradient, running statistics, evaluation,
// ten updates (image_updates.safetensors).
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "io/safetensors.h"
#include "models/resnet/resnet.h"
#include "models/vgg/vgg.h"
#include "nn/golden_model.h"
#include "nn/golden_updates.h"
#include "nn/ref_graph.h"
#include "tasks/testing.h"

namespace snug {
namespace {

constexpr int64_t kBatch = 3;

using Build = std::function<models::SequenceModel(GraphBuilder&, const models::BuildOptions&)>;

models::ResnetConfig small_resnet() {
  models::ResnetConfig config;
  config.num_labels = 4;
  return config;
}

Build build_resnet(const models::ResnetConfig& config) {
  return [config](GraphBuilder& builder, const models::BuildOptions& options) {
    return models::build_resnet_classifier(builder, config, {.micro_batch = kBatch}, options);
  };
}

// The configurations of the golden's networks, by its names.
std::map<std::string, Build> networks() {
  std::map<std::string, Build> all;
  models::VggConfig vgg;
  vgg.depths = {1, 2};
  vgg.widths = {3, 5};
  vgg.hidden_size = 6;
  vgg.image_size = 9;
  vgg.num_labels = 4;
  vgg.dropout = 0;
  all["vgg"] = [vgg](GraphBuilder& builder, const models::BuildOptions& options) {
    return models::build_vgg_classifier(builder, vgg, {.micro_batch = kBatch}, options);
  };
  models::ResnetConfig basic = small_resnet();
  basic.depths = {1, 2};
  basic.widths = {4, 6};
  basic.layer_type = "basic";
  basic.image_size = 17;
  all["basic"] = build_resnet(basic);
  models::ResnetConfig bottleneck = small_resnet();
  bottleneck.depths = {2, 1};
  bottleneck.widths = {2, 3};
  bottleneck.image_size = 16;
  all["bottleneck"] = build_resnet(bottleneck);
  models::ResnetConfig padded = basic;
  padded.widths = {3, 5};
  padded.stem = "cifar";
  padded.shortcut = "padding";
  padded.image_size = 7;
  all["padded"] = build_resnet(padded);
  models::ResnetConfig pre = bottleneck;
  pre.preactivation = true;
  pre.stem = "cifar";
  pre.image_size = 6;
  all["preactivation"] = build_resnet(pre);
  pre.stem = "imagenet";
  pre.depths = {1, 1};
  pre.layer_type = "basic";
  pre.image_size = 12;
  all["preactivation_stem"] = build_resnet(pre);
  return all;
}

class Image_parity : public GoldenModel {
 protected:
  Image_parity() : GoldenModel("images.safetensors") {}

  // Builds the network and feeds the golden's batch, weights and running statistics.
  void build(bool training) {
    model_ = tasks::with_task(builder_, networks().at(GetParam())(builder_, {.training = training}),
                              training);
    feeds_ = {{model_.pixel_values, golden("pixel_values")}};
    feed_golden(training, 3.5);
    const Graph& graph = builder_.graph();
    for (const ValueId id : graph.values.ids()) {
      const Value& value = graph.values[id];
      if (value.kind != ValueKind::buffer) continue;
      feeds_[id] = golden((training ? "before/" : "after/") + value.name);
    }
  }
};

TEST_P(Image_parity, training_pass_is_equal) {
  build(true);
  const IdRange forward_nodes = builder_.graph().nodes.ids();
  ASSERT_NO_FATAL_FAILURE(expect_golden_pass());
  size_t updated = 0;
  for (const NodeId id : forward_nodes) {
    const Node& node = builder_.graph().nodes[id];
    if (*node.op->name != "running_statistics") continue;
    for (size_t k = 0; k < 2; ++k, ++updated)
      expect_equal(values_.at(node.outputs[k]), "after/" + name_of(node.inputs[k]));
  }
  size_t buffers = 0;
  for (const Value& value : builder_.graph().values) buffers += value.kind == ValueKind::buffer;
  EXPECT_EQ(updated, buffers) << "every running statistic moves once";
}

TEST_P(Image_parity, ten_updates_are_equal) {
  build(true);
  const optim::Options sgd = optim::make_options("sgd", {{"momentum", 0.9}}, 0.01);
  const GoldenUpdates found =
      run_golden_updates(builder_, model_, parameters_, feeds_, sgd, 0.05, {});
  const io::SafetensorsFile file(SNUG_SOURCE_DIR "/tests/golden/image_updates.safetensors");
  const auto compare = [&](const std::vector<double>& values, const std::string& name) {
    expect_parity(values, read_golden(file, GetParam() + "/" + name), 1e-14, name);
  };
  compare(found.losses, "losses");
  compare(found.norms, "norms");
  const Graph& graph = builder_.graph();
  for (const ValueId id : graph.values.ids()) {
    if (is_of_model(graph.values[id].kind))
      compare(feeds_.at(id), "updated/" + graph.values[id].name);
  }
}

TEST_P(Image_parity, evaluation_is_equal) {
  build(false);
  expect_equal(evaluate(builder_.graph(), feeds_).at(model_.logits), "eval_logits");
}

std::vector<std::string> names_of_networks() {
  std::vector<std::string> names;
  for (const auto& [name, build] : networks()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Networks, Image_parity, testing::ValuesIn(names_of_networks()),
                         [](const auto& param) { return param.param; });

// "64x3x7x7" of every weight and running statistic.
std::map<std::string, std::string> shapes_of(const Graph& graph) {
  std::map<std::string, std::string> shapes;
  for (const Value& value : graph.values) {
    if (!is_of_model(value.kind)) continue;
    std::string& text = shapes[value.name];
    for (int64_t dim : value.type.shape) text += (text.empty() ? "" : "x") + std::to_string(dim);
  }
  return shapes;
}

TEST(Image_names, parameters_have_torchvisions_names_and_shapes) {
  std::map<std::string, std::map<std::string, std::string>> wanted;
  std::ifstream file(SNUG_SOURCE_DIR "/tests/golden/torchvision_names.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string model;
    std::string name;
    words >> model >> name;
    words >> wanted[model][name];
  }
  ASSERT_EQ(wanted.size(), 2u);
  GraphBuilder resnet(op_registry(), "resnet");
  (void)models::build_resnet_classifier(resnet, models::resnet_preset("resnet-50"),
                                        {.micro_batch = 1}, {});
  EXPECT_EQ(shapes_of(resnet.graph()), wanted["resnet-50"]);
  GraphBuilder vgg(op_registry(), "vgg");
  (void)models::build_vgg_classifier(vgg, models::vgg_preset("vgg-16"), {.micro_batch = 1}, {});
  EXPECT_EQ(shapes_of(vgg.graph()), wanted["vgg-16"]);
}

}  // namespace
}  // namespace snug
