// SPDX-License-Identifier: Apache-2.0
// For tests: a planned BERT-tiny, small LSTM or small residual network with one fixed batch in its
// inputs, on any backend.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "base/philox.h"
#include "choose/choose.h"
#include "run_model/model.h"
#include "run_model/model_network.h"
#include "run_model/read_model.h"
#include "session/engine.h"
#include "session/session_plan.h"
#include "train/run_recipe.h"

namespace snug::train {

inline std::unique_ptr<Backend> cpu(int threads = 2) {
  return make_cpu_backend({.threads = threads, .profile = default_profile()});
}

inline run_model::Model fitted_model(const RunConfig& config) {
  run_model::Model model = run_model::read_model(config);
  run_model::fit_model(model, config, {});
  return model;
}

struct TestRun {
  RunConfig config;
  run_model::Model model;
  compile::NetworkDef network;
  choose::RunPlan plan;
  std::unique_ptr<session::Engine> engine;

  TestRun(const Backend& backend, const std::string& recompute, int64_t batch, int64_t micro_batch,
          double max_grad_norm = 1.0)
      : TestRun(backend, bert_config(recompute, max_grad_norm), batch, micro_batch) {}

  static RunConfig bert_config(const std::string& recompute, double max_grad_norm) {
    RunConfig config;
    config.model = "bert-tiny";
    config.vocab_size = 100;
    config.max_seq_length = 12;
    config.max_grad_norm = max_grad_norm;
    config.set("recompute", recompute);
    return config;
  }
  static RunConfig lstm_config(const std::string& recompute, double max_grad_norm) {
    RunConfig config = bert_config(recompute, max_grad_norm);
    config.model = "lstm";
    config.set("hidden_size", "24");
    config.set("num_hidden_layers", "2");
    config.set("embedding_size", "16");
    config.set("hidden_dropout_prob", "0.2");
    return config;
  }
  static RunConfig resnet_config(const std::string& recompute,
                                 const std::string& name = "resnet-8") {
    RunConfig config;
    config.model = name;
    config.set("image_size", "8");
    config.set("allow_batch_norm_split", "true");
    config.set("recompute", recompute);
    return config;
  }

  TestRun(const Backend& backend, RunConfig given, int64_t batch, int64_t micro_batch)
      : config(std::move(given)), model(fitted_model(config)) {
    network = network::describe_network(run_model::network_of(model), {}).def;
    plan = choose::make_run_plan({.network = network,
                                  .recipe = session::resolve(training_spec(config, 0)).recipe,
                                  .global_batch = batch,
                                  .micro_batch = micro_batch,
                                  .lengths = {12},
                                  .strategy = config.recompute.strategy,
                                  .allow_coupled_split = config.allow_batch_norm_split,
                                  .two_pass_clip = false,  // update() goes through it once
                                  .budget_bytes = int64_t{1} << 32,
                                  .process_bytes = 0,
                                  .startup_bytes = 0,
                                  .trains = true},
                                 backend);
    engine = std::make_unique<session::Engine>(plan, backend);
  }

  template <class Int, class Bool>
  void feed_texts(int64_t update, int64_t first_slot) {
    const auto ids = engine->edit<Int>("input_ids");
    const auto mask = engine->edit<Bool>("attention_mask");
    const auto global = static_cast<size_t>(plan.report.train_batch_size);
    for (size_t row = 0; row < static_cast<size_t>(plan.micro_batch); ++row) {
      const size_t slot = static_cast<size_t>(first_slot) + row;
      PhiloxStream stream(7, slot * 1000 + static_cast<size_t>(update));
      const size_t length = 3 + stream.below(10);
      for (size_t t = 0; t < 12; ++t) {
        const bool is_there = slot < global && t < length;
        ids[row * 12 + t] = static_cast<Int>(is_there ? 1 + stream.below(99) : 0);
        if (engine->has("token_type_ids"))
          engine->edit<Int>("token_type_ids")[row * 12 + t] = static_cast<Int>(t % 2);
        mask[row * 12 + t] = static_cast<Bool>(is_there ? 1 : 0);
      }
    }
  }
  template <class Real>
  void feed_images(int64_t update, int64_t first_slot) {
    const auto pixels = engine->edit<Real>("pixel_values");
    const size_t image = pixels.size() / static_cast<size_t>(plan.micro_batch);
    for (size_t i = 0; i < pixels.size(); ++i) {
      if (i % image == 0) {
        const size_t slot = static_cast<size_t>(first_slot) + i / image;
        stream_ = PhiloxStream(7, slot * 1000 + static_cast<size_t>(update));
      }
      pixels[i] = static_cast<Real>(static_cast<float>(stream_.normal()));
    }
  }
  PhiloxStream stream_{7, 0};

  /// Fills inputs of either backend: `Real` and `Int` are its element types of f32 and i32.
  template <class Real, class Int, class Long, class Bool>
  void feed(int64_t update, int64_t first_slot) {
    const auto micro_batch = static_cast<size_t>(plan.micro_batch);
    const auto global = static_cast<size_t>(plan.report.train_batch_size);
    if (engine->has("pixel_values")) {
      feed_images<Real>(update, first_slot);
    } else {
      feed_texts<Int, Bool>(update, first_slot);
    }
    for (size_t row = 0; row < micro_batch; ++row) {
      const size_t slot = static_cast<size_t>(first_slot) + row;
      engine->edit<Int>("labels")[row] = static_cast<Int>(slot % 2);
      engine->edit<Real>("row_weights")[row] = static_cast<Real>(slot < global ? 1 : 0);
    }
    engine->edit<Real>("inv_total")[0] = static_cast<Real>(1.0 / static_cast<double>(global));
    if (engine->has("rng")) {
      const auto rng = engine->edit<Long>("rng");
      rng[0] = static_cast<Long>(5);
      rng[1] = static_cast<Long>(update);
      rng[2] = static_cast<Long>(first_slot);
    }
    const auto hyper = engine->edit<Real>("hyper");
    hyper[0] = static_cast<Real>(0.01);
    hyper[1] = static_cast<Real>(0.1);
    hyper[2] = static_cast<Real>(0.001);
    hyper[3] = 0;
  }

  template <class Real, class Int, class Long, class Bool>
  double update(int64_t number) {
    double loss = 0;
    for (int64_t piece = 0; piece < plan.accumulation_steps; ++piece) {
      feed<Real, Int, Long, Bool>(number, piece * plan.micro_batch);
      engine->run(engine->train(0));
      std::vector<std::byte> buffer;
      loss += static_cast<double>(engine->output<Real>(engine->train(0), "loss", 1, buffer)[0]);
    }
    if (engine->update() != nullptr) engine->run(*engine->update());
    return loss;
  }
  double update_cpu(int64_t number) { return update<float, int32_t, int64_t, uint8_t>(number); }
  double update_reference(int64_t number) { return update<double, double, double, double>(number); }

  void initialize_cpu() {
    for (const auto& [name, entry] : plan.residents.entries()) {
      if (is_of_model(entry.kind))
        nn::initialize(engine->edit<float>(name), entry.type.shape,
                       network.init_rule(name, entry.type.shape), name, 3);
    }
  }
  /// The same numbers as initialize_cpu, in double.
  void initialize_reference() {
    for (const auto& [name, entry] : plan.residents.entries()) {
      if (!is_of_model(entry.kind)) continue;
      std::vector<float> values(static_cast<size_t>(element_count(entry.type)));
      nn::initialize(values, entry.type.shape, network.init_rule(name, entry.type.shape), name, 3);
      std::copy(values.begin(), values.end(), engine->edit<double>(name).begin());
    }
  }
  /// Weights and states, as bytes.
  [[nodiscard]] std::string bytes() const {
    std::string all;
    for (const auto& [name, entry] : plan.residents.entries()) {
      if (entry.kind == ValueKind::input) continue;
      const auto values = engine->view<char>(name);
      all.append(values.begin(), values.end());
    }
    return all;
  }
};

}  // namespace snug::train
