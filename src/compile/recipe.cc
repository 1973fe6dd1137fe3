// SPDX-License-Identifier: Apache-2.0
#include "compile/recipe.h"

#include <string_view>

#include "base/numbers.h"
#include "base/stop.h"
#include "base/wildcard.h"
#include "snug/error.h"

namespace snug::compile {

namespace {

constexpr const char* kEmbeddings = "embeddings";
constexpr std::string_view kFirst = "first:";

[[noreturn]] void refuse_freeze(const std::string& what, const std::string& hint) {
  throw Error(ErrorCode::bad_config, "freeze", what, hint);
}

/// The weights that words of `freeze` name, by their places.
class FrozenNames {
 public:
  explicit FrozenNames(const std::vector<std::string>& names)
      : names_(names), is_frozen_(names.size(), false) {}

  void add(const std::string& word) {
    if (word == kEmbeddings) return add_embeddings();
    if (word.starts_with(kFirst)) return add_first(word);
    if (!mark([&](size_t i) { return matches_wildcard(word, names_[i]); }))
      refuse_freeze("the pattern '" + word + "' matches no weight of the model",
                    optim::names_hint(names_));
  }
  [[nodiscard]] bool holds(size_t i) const { return is_frozen_[i]; }

 private:
  /// Whether there are any.
  template <class Test>
  bool mark(Test test) {
    bool is_used = false;
    for (size_t i = 0; i < names_.size(); ++i) {
      stop_point();
      if (!test(i)) continue;
      is_frozen_[i] = true;
      is_used = true;
    }
    return is_used;
  }
  // With the norm behind them.
  void add_embeddings() {
    const std::vector<int64_t> layers = optim::layers_of(names_);
    const auto is_one = [&](size_t i) {
      return layers[i] == 0 && names_[i].find("embed") != std::string::npos;
    };
    if (!mark(is_one))
      refuse_freeze("the model has no weights called embeddings before its layers",
                    "give name patterns; " + optim::names_hint(names_));
  }
  void add_first(const std::string& word) {
    const int64_t there_are = optim::numbered_layers(names_);
    const std::string digits = word.substr(kFirst.size());
    const int64_t count = number_in<int64_t>(digits).value_or(0);
    if (count < 1 || count > there_are)
      refuse_freeze("'" + word + "' is no number of layers of the model, which has " +
                        std::to_string(there_are),
                    there_are > 0 ? "give first:1 to first:" + std::to_string(there_are)
                                  : "give name patterns");
    const std::vector<int64_t> layers = optim::layers_of(names_);
    (void)mark([&](size_t i) { return layers[i] >= 1 && layers[i] <= count; });
  }

  const std::vector<std::string>& names_;
  std::vector<bool> is_frozen_;
};

}  // namespace

std::vector<std::string> trainable_names(const std::vector<std::string>& names,
                                         const std::vector<std::string>& freeze,
                                         const std::function<bool(const std::string&)>& is_frozen) {
  FrozenNames frozen(names);
  for (const std::string& word : freeze) frozen.add(word);
  std::vector<std::string> kept;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!frozen.holds(i) && (!is_frozen || !is_frozen(names[i]))) kept.push_back(names[i]);
  }
  if (kept.empty())
    throw Error(ErrorCode::bad_config, "freeze",
                "every weight is frozen: there is nothing to train");
  return kept;
}

}  // namespace snug::compile
