// SPDX-License-Identifier: Apache-2.0
// A family over a struct of its own, `Config`: the fields of its config.json, plain data with
// operator== and validate(config, where). A family derives from this class (text_family.h,
// image_family.h: what those of texts and of images share) and says what each function means for
// its Config; here they become a ModelFamily and its Architectures.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/family.h"

namespace snug::models {

template <class Config>
class FamilyOf : public ModelFamily {
 public:
  [[nodiscard]] ArchitecturePtr preset(const RunConfig& run) const final {
    std::optional<Config> found = find_preset(run);
    return found ? with(std::move(*found)) : nullptr;
  }
  [[nodiscard]] ArchitecturePtr read(std::string_view json, const std::string& file,
                                     std::vector<std::string>* ignored) const final {
    return with(parse(json, file, ignored));
  }

 protected:
  using ModelFamily::ModelFamily;

  // What the functions of ModelFamily and Architecture of these or like names say.
  [[nodiscard]] virtual std::optional<Config> find_preset(const RunConfig& run) const = 0;
  [[nodiscard]] virtual Config parse(std::string_view json, const std::string& file,
                                     std::vector<std::string>* ignored) const = 0;
  [[nodiscard]] virtual std::string config_json(const Config& config) const = 0;
  virtual void take_keys(const RunConfig& run, Config& config) const = 0;
  virtual void take_facts(const ModelFacts& facts, Config& config) const = 0;
  [[nodiscard]] virtual ModelTraits traits(const Config& config) const = 0;
  [[nodiscard]] virtual ProgramSize size(const Config& config, int64_t length) const = 0;
  [[nodiscard]] virtual SequenceModel build(GraphBuilder& builder, const Config& config,
                                            BatchShape shape,
                                            const BuildOptions& options) const = 0;
  [[nodiscard]] virtual InitRule init_rule(const Config& config, const std::string& parameter,
                                           const Shape& shape) const = 0;
  /// `parameter` itself: what most families answer.
  [[nodiscard]] virtual std::string stored_name(const Config&, const std::string& parameter) const {
    return parameter;
  }

 private:
  class Sized;
  [[nodiscard]] ArchitecturePtr with(Config config) const {
    return std::make_shared<const Sized>(*this, std::move(config));
  }
};

/// A family and a configuration of it.
template <class Config>
class FamilyOf<Config>::Sized final : public Architecture {
 public:
  Sized(const FamilyOf& family, Config config) : family_(family), config_(std::move(config)) {}

  [[nodiscard]] const ModelFamily& family() const override { return family_; }
  [[nodiscard]] bool is_equal(const Architecture& other) const override {
    const auto* same = dynamic_cast<const Sized*>(&other);
    return same != nullptr && same->config_ == config_;
  }
  [[nodiscard]] std::string config_json() const override { return family_.config_json(config_); }
  [[nodiscard]] ArchitecturePtr with_keys(const RunConfig& run) const override {
    Config config = config_;
    family_.take_keys(run, config);
    return family_.with(std::move(config));
  }
  [[nodiscard]] ArchitecturePtr with_facts(const ModelFacts& facts) const override {
    Config config = config_;
    family_.take_facts(facts, config);
    return family_.with(std::move(config));
  }
  void check(const std::string& where) const override { validate(config_, where); }
  [[nodiscard]] ModelTraits traits() const override { return family_.traits(config_); }
  [[nodiscard]] ProgramSize size(int64_t length) const override {
    return family_.size(config_, length);
  }
  [[nodiscard]] SequenceModel build(GraphBuilder& builder, BatchShape shape,
                                    const BuildOptions& options) const override {
    return family_.build(builder, config_, shape, options);
  }
  [[nodiscard]] InitRule init_rule(const std::string& parameter,
                                   const Shape& shape) const override {
    return family_.init_rule(config_, parameter, shape);
  }
  [[nodiscard]] std::string stored_name(const std::string& parameter) const override {
    return family_.stored_name(config_, parameter);
  }

 private:
  const FamilyOf& family_;
  Config config_;
};

}  // namespace snug::models
