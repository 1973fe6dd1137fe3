// SPDX-License-Identifier: Apache-2.0
// VGG and residual networks: sizes known from the papers, shapes of the graph, config.json, initial
// weights. Parity with PyTorch is in tests/nn.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/verify.h"
#include "models/resnet/resnet.h"
#include "models/vgg/vgg.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::models {
namespace {

Graph graph_of(const ResnetConfig& config, const BuildOptions& options = {}) {
  GraphBuilder builder(op_registry(), "resnet");
  (void)build_resnet_classifier(builder, config, {.micro_batch = 2}, options);
  verify(builder.graph());
  return builder.take();
}

int64_t parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::parameter) count += element_count(value.type);
  }
  return count;
}

int64_t count_ops(const Graph& graph, const std::string& op) {
  int64_t count = 0;
  for (const Node& node : graph.nodes) count += *node.op->name == op ? 1 : 0;
  return count;
}

TEST(Resnet, presets_have_the_published_numbers_of_parameters) {
  const std::pair<const char*, int64_t> published[] = {
      {"resnet-18", 11689512},  {"resnet-34", 21797672},  {"resnet-50", 25557032},
      {"resnet-101", 44549160}, {"resnet-152", 60192808}, {"resnet-20", 269722},
      {"resnet-32", 464154},    {"resnet-110", 1727962},  {"resnet-1202", 19421274}};
  for (const auto& [name, count] : published)
    EXPECT_EQ(parameters(graph_of(resnet_preset(name))), count) << name;
}

TEST(Resnet, depth_is_the_number_of_weighted_layers) {
  for (const auto& [name, depth] : {std::pair<const char*, int64_t>{"resnet-20", 20},
                                    {"resnet-56", 56},
                                    {"resnet-164", 164},
                                    {"resnet-1001", 1001},
                                    {"resnet-1202", 1202}}) {
    const Graph graph = graph_of(resnet_preset(name));
    // Projections are not counted; the linear layer is.
    int64_t projections = 0;
    for (const Value& value : graph.values)
      projections += value.name.find("downsample.0.weight") != std::string::npos ? 1 : 0;
    EXPECT_EQ(count_ops(graph, "conv2d") - projections + 1, depth) << name;
  }
  const ResnetConfig deep = resnet_preset("resnet-imagenet-1000");
  EXPECT_EQ(deep.depths[0] + deep.depths[1] + deep.depths[2] + deep.depths[3], 333);
}

TEST(Resnet, training_moves_statistics_once_and_evaluation_reads_them) {
  const ResnetConfig config = resnet_preset("resnet-20");
  const Graph training = graph_of(config);
  const Graph evaluation = graph_of(config, {.training = false});
  EXPECT_EQ(count_ops(training, "batch_norm"), 19);
  EXPECT_EQ(count_ops(training, "running_statistics"), 19);
  EXPECT_EQ(count_ops(evaluation, "batch_norm_inference"), 19);
  EXPECT_EQ(count_ops(evaluation, "batch_norm") + count_ops(evaluation, "running_statistics"), 0);
}

TEST(Resnet, micro_batches_share_the_momentum) {
  const auto momentum = [](int64_t micro_batches) {
    const Graph graph = graph_of(resnet_preset("resnet-20"), {.micro_batches = micro_batches});
    for (const Node& node : graph.nodes) {
      if (*node.op->name == "running_statistics") return node.attrs.real("momentum");
    }
    return 0.0;
  };
  EXPECT_EQ(momentum(1), 0.1);
  EXPECT_NEAR(std::pow(1 - momentum(4), 4), 0.9, 1e-12);
}

TEST(Resnet, config_json_reads_back) {
  for (const char* name : {"resnet-50", "resnet-200", "resnet-110", "resnet-164"}) {
    const ResnetConfig config = resnet_preset(name);
    std::vector<std::string> ignored;
    ResnetConfig read = resnet_config_from_json(resnet_config_to_json(config), "c.json", &ignored);
    EXPECT_TRUE(ignored.empty());
    EXPECT_EQ(read.labels.size(), static_cast<size_t>(config.num_labels));
    read.labels.clear();
    EXPECT_EQ(read, config) << name;
  }
}

TEST(Resnet, files_are_those_of_transformers_where_it_has_the_network) {
  const ResnetConfig config = resnet_preset("resnet-50");
  EXPECT_TRUE(is_transformers_resnet(config));
  for (const char* name : {"resnet-20", "resnet-164", "resnet-200"})
    EXPECT_FALSE(is_transformers_resnet(resnet_preset(name))) << name;
  const std::string block = "resnet.encoder.stages.3.layers.11.";
  for (const auto& [ours, theirs] : std::vector<std::pair<std::string, std::string>>{
           {"conv1.weight", "resnet.embedder.embedder.convolution.weight"},
           {"bn1.running_var", "resnet.embedder.embedder.normalization.running_var"},
           {"layer4.11.conv3.weight", block + "layer.2.convolution.weight"},
           {"layer4.11.bn1.bias", block + "layer.0.normalization.bias"},
           {"layer4.11.downsample.0.weight", block + "shortcut.convolution.weight"},
           {"layer4.11.downsample.1.running_mean", block + "shortcut.normalization.running_mean"},
           {"fc.bias", "classifier.1.bias"}}) {
    EXPECT_EQ(resnet_stored_name(config, ours), theirs);
    EXPECT_EQ(resnet_stored_name(resnet_preset("resnet-20"), ours), ours);
  }
}

TEST(Resnet, a_configuration_of_older_versions_is_read) {
  ResnetConfig config = resnet_config_from_json(
      R"({"model_type": "resnet", "depths": [1, 2], "widths": [4, 8], "layer_type": "basic",
          "preactivation": false, "stem": "imagenet", "shortcut": "projection", "image_size": 32,
          "num_channels": 3, "batch_norm_eps": 1e-05, "batch_norm_momentum": 0.1,
          "num_labels": 10})",
      "c.json");
  EXPECT_EQ(config.widths, (std::vector<int64_t>{4, 8}));
  EXPECT_TRUE(is_transformers_resnet(config));
}

template <class Action>
void expect_refusal(Action action, const std::string& text,
                    ErrorCode code = ErrorCode::bad_config) {
  try {
    action();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Resnet, what_cannot_be_built_is_refused) {
  for (const char* name : {"resnet-21", "resnet-", "resnet-6", "resnet-20x", "resnet-imagenet"})
    expect_refusal([&] { (void)resnet_preset(name); }, "there is no residual network");
  const auto read = [](const char* json) {
    return [json] { (void)resnet_config_from_json(json, "config.json"); };
  };
  expect_refusal(read(R"({"depths": []})"), "at least one block in depths");
  expect_refusal(read(R"({"depths": [1, 1]})"), "widths needs a number of at least 1 for each");
  expect_refusal(read(R"({"layer_type": "dense"})"), "layer_type must be \"basic\" or");
  expect_refusal(read(R"({"stem": "none"})"), "stem must be");
  expect_refusal(read(R"({"shortcut": "padding", "widths": [8, 4, 2, 1]})"), "do not fall");
  expect_refusal(read(R"({"hidden_sizes": [64, 66]})"), "has 66, which a bottleneck cannot");
  expect_refusal(read(R"({"embedding_size": 32})"), "embedding_size is 32", ErrorCode::unsupported);
  expect_refusal(read(R"({"downsample_in_first_stage": true})"), "keeps its size",
                 ErrorCode::bad_data);
  expect_refusal(read(R"({"hidden_act": "gelu"})"), "relu only", ErrorCode::bad_data);
  expect_refusal(read(R"({"depths": 3})"), "must be a list of sizes", ErrorCode::bad_data);
  expect_refusal(read(R"({"depths": [9998, 1, 1, 1]})"),
                 "depths asks for at least 10001 layers or blocks, more than the 10000");
  ResnetConfig deep;
  deep.depths = {std::numeric_limits<int64_t>::max(), 1, 1, 1};  // the sum passes 64 bits
  expect_refusal([&] { validate(deep, "model"); }, "depths asks for at least 9223372036854775807");
  validate(resnet_config_from_json(R"({"depths": [9997, 1, 1, 1]})", "config.json"), "model");
}

TEST(Vgg, presets_have_the_published_numbers_of_parameters) {
  for (const auto& [name, count] :
       {std::pair<const char*, int64_t>{"vgg-16", 138357544}, {"vgg-19", 143667240}}) {
    GraphBuilder builder(op_registry(), name);
    const SequenceModel model =
        build_vgg_classifier(builder, vgg_preset(name), {.micro_batch = 2}, {});
    verify(builder.graph());
    EXPECT_EQ(parameters(builder.graph()), count) << name;
    EXPECT_NE(model.rng, kNone);
  }
}

TEST(Vgg, larger_images_are_averaged_and_smaller_ones_have_smaller_layers) {
  const auto features = [](int64_t image_size) {
    VggConfig config = vgg_preset("vgg-16");
    config.image_size = image_size;
    GraphBuilder builder(op_registry(), "vgg");
    (void)build_vgg_classifier(builder, config, {.micro_batch = 1}, {});
    return builder.shape(builder.graph().find("classifier.0.weight"))[1];
  };
  EXPECT_EQ(features(448), 512 * 49);
  EXPECT_EQ(features(32), 512);
  VggConfig config;
  config.image_size = 300;
  expect_refusal([&] { validate(config, "vgg"); }, "must be a multiple of 7");
  config.image_size = 16;
  expect_refusal([&] { validate(config, "vgg"); }, "nothing is left");
  expect_refusal([] { (void)vgg_preset("vgg-11"); }, "vgg-16 or vgg-19");
}

TEST(Vgg, config_json_reads_back) {
  const VggConfig config = vgg_preset("vgg-19");
  VggConfig read = vgg_config_from_json(vgg_config_to_json(config), "c.json");
  read.labels.clear();
  EXPECT_EQ(read, config);
}

TEST(Image_models, initial_weights_follow_the_fan) {
  const ResnetConfig resnet;
  const InitRule conv = resnet_init_rule(resnet, "layer1.0.conv2.weight", {64, 32, 3, 3});
  EXPECT_DOUBLE_EQ(conv.deviation, std::sqrt(2.0 / (64 * 9)));
  EXPECT_EQ(resnet_init_rule(resnet, "bn1.weight", {64}), (InitRule{.constant = 1}));
  EXPECT_EQ(resnet_init_rule(resnet, "bn1.running_var", {64}), (InitRule{.constant = 1}));
  EXPECT_EQ(resnet_init_rule(resnet, "bn1.running_mean", {64}), InitRule{});
  EXPECT_EQ(resnet_init_rule(resnet, "bn1.bias", {64}), InitRule{});
  EXPECT_EQ(vgg_init_rule({}, "classifier.0.weight", {8, 8}).deviation, 0.01);
  EXPECT_EQ(vgg_init_rule({}, "features.0.bias", {8}), InitRule{});
}

}  // namespace
}  // namespace snug::models
