// SPDX-License-Identifier: Apache-2.0
// What a network's function may call, by name: one table of the builder's members and of all of
// snug/ops.h, snug/layers.h and snug/recompute.h. The names of operands and attributes are those of
// the headers.
#include "builder.h"

#include <span>
#include <string_view>
#include <utility>

#include "build_call.h"
#include "snug/layers.h"
#include "snug/ops.h"

using snug::Error;
using snug::ErrorCode;
using snug::Tensor;

Tensor snug_builder::tensor(int64_t number) const {
  if (number == -1) return {};
  if (number < 0 || number >= std::ssize(tensors))
    throw Error(ErrorCode::invalid_graph, b.scope().empty() ? "network" : b.scope(),
                "there is no tensor " + std::to_string(number));
  return tensors[static_cast<size_t>(number)];
}

void snug_builder::check(int64_t answer) const {
  if (answer == 0) return;
  if (answer == SNUG_LAST_ERROR && last_error) throw *last_error;
  throw snug::c_api::CallbackFailed(answer);
}

namespace snug::c_api {

DType dtype_named(const std::string& where, const std::string& name) {
  const std::optional<DType> dtype = dtype_of(name);
  if (!dtype)
    throw Error(ErrorCode::invalid_graph, where, "'" + name + "' is no type of elements",
                "f32, i32 and bool are");
  return *dtype;
}

Json json_of(const TensorType& type) {
  return {{"dtype", to_string(type.dtype)}, {"shape", std::vector<int64_t>(type.shape)}};
}

TensorType type_of(const std::string& where, const Json& json) {
  const auto is_type = [&] {
    if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string()) return false;
    if (!json.contains("shape") || !json["shape"].is_array()) return false;
    for (const Json& size : json["shape"]) {
      if (!size.is_number_integer() || size.get<int64_t>() < 0) return false;
    }
    return true;
  };
  if (!is_type())
    throw Error(ErrorCode::invalid_graph, where, dumped(json) + " is no type of a tensor",
                "give dtype and shape");
  return {dtype_named(where, json["dtype"].get<std::string>()),
          Shape(json["shape"].get<std::vector<int64_t>>())};
}

namespace {

struct Entry {
  std::string_view name;
  Json (*call)(BuildCall&);
};

template <Tensor (*Op)(const Tensor&)>
Json unary(BuildCall& call) {
  return call.put(Op(call.x()));
}

template <Tensor (*Op)(const Tensor&, const Tensor&)>
Json binary(BuildCall& call) {
  const Tensor a = call.x();
  return call.put(Op(a, call.x()));
}

template <Tensor (*Op)(const Tensor&, const std::vector<int64_t>&, bool)>
Json reduction(BuildCall& call) {
  return call.put(Op(call.x(), call.integers("axes"), call.flag("keep_dims", false)));
}

Weights weights_of(BuildCall& call) {
  return call.flag("shared", false) ? Weights::shared : Weights::own;
}

// Members of NetworkBuilder, scopes and parts.
constexpr Entry kBuilder[] = {
    {"rows", [](BuildCall& c) { return Json(c.b().rows()); }},
    {"length",
     [](BuildCall& c) { return Json(c.b().length(c.text("name", "")).operator int64_t()); }},
    {"training", [](BuildCall& c) { return Json(c.b().training()); }},
    {"scope", [](BuildCall& c) { return Json(c.b().scope()); }},
    {"type", [](BuildCall& c) { return json_of(c.x().type()); }},
    {"input",
     [](BuildCall& c) {
       return c.put(
           c.b().input(c.text("name"), c.row_shape("row_shape"), c.dtype("dtype", DType::f32)));
     }},
    {"parameter",
     [](BuildCall& c) {
       return c.put(c.b().parameter(c.text("name"), c.integers("shape"), c.init("init")));
     }},
    {"buffer",
     [](BuildCall& c) {
       return c.put(c.b().buffer(c.text("name"), c.integers("shape"), c.init("init")));
     }},
    {"op",
     [](BuildCall& c) {
       return c.put(c.b().op(c.text("name"), c.all_x(), c.attrs("attributes")));
     }},
    {"random_key", [](BuildCall& c) { return c.put(c.b().random_key()); }},
    {"weighted_mean",
     [](BuildCall& c) {
       const Tensor values = c.x();
       return c.put(c.b().weighted_mean(values, c.optional_x()));
     }},
    {"cross_entropy",
     [](BuildCall& c) {
       const Tensor logits = c.x(), labels = c.x();
       return c.put(c.b().cross_entropy(logits, labels, c.number("label_smoothing", 0)));
     }},
    {"minimize", [](BuildCall& c) { return c.b().minimize(c.x()), Json(); }},
    {"output", [](BuildCall& c) { return c.b().output(c.text("name"), c.x()), Json(); }},
    {"couples_rows", [](BuildCall& c) { return c.b().couples_rows(c.text("reason")), Json(); }},
    {"counts_padding", [](BuildCall& c) { return c.b().counts_padding(c.text("reason")), Json(); }},
    {"begin_scope",
     [](BuildCall& c) {
       c.builder().scopes.push_back(std::make_unique<Scope>(c.b(), c.text("name"), weights_of(c)));
       return Json();
     }},
    {"end_scope",
     [](BuildCall& c) {
       if (c.builder().scopes.empty()) c.fail("no scope is open");
       c.builder().scopes.pop_back();
       return Json();
     }},
    {"begin_part",
     [](BuildCall& c) {
       c.builder().parts.push_back(std::make_unique<CheckpointedPart>(c.b()));
       return Json();
     }},
    {"end_part",
     [](BuildCall& c) {
       if (c.builder().parts.empty()) c.fail("no checkpointed part is open");
       const std::unique_ptr<CheckpointedPart> part = std::move(c.builder().parts.back());
       c.builder().parts.pop_back();
       part->check_used();
       return Json();
     }},
};

// snug/ops.h
constexpr Entry kOps[] = {
    {"add", binary<(operator+)>},
    {"sub", binary<(operator-)>},
    {"mul", binary<(operator*)>},
    {"div", binary<(operator/)>},
    {"neg", unary<(operator-)>},
    {"scale",
     [](BuildCall& c) {
       const double factor = c.number("factor");
       return c.put(factor * c.x());
     }},
    {"exp", unary<exp>},
    {"log", unary<log>},
    {"sqrt", unary<sqrt>},
    {"rsqrt", unary<rsqrt>},
    {"tanh", unary<tanh>},
    {"erf", unary<erf>},
    {"sigmoid", unary<sigmoid>},
    {"relu", unary<relu>},
    {"gelu", unary<gelu>},
    {"where",
     [](BuildCall& c) {
       const Tensor condition = c.x(), a = c.x();
       return c.put(where(condition, a, c.x()));
     }},
    {"cast", [](BuildCall& c) { return c.put(cast(c.x(), c.dtype("to", DType::f32))); }},
    {"equal", binary<equal>},
    {"not_equal", binary<not_equal>},
    {"less", binary<less>},
    {"less_equal", binary<less_equal>},
    {"greater", binary<greater>},
    {"greater_equal", binary<greater_equal>},
    {"fill",
     [](BuildCall& c) { return c.put(fill(c.b(), c.number("value"), c.integers("shape"))); }},
    {"reshape", [](BuildCall& c) { return c.put(reshape(c.x(), c.integers("shape"))); }},
    {"transpose", [](BuildCall& c) { return c.put(transpose(c.x(), c.integers("order"))); }},
    {"slice",
     [](BuildCall& c) {
       return c.put(slice(c.x(), c.integer("axis"), c.integer("start"), c.integer("stop")));
     }},
    {"pad",
     [](BuildCall& c) {
       return c.put(pad(c.x(), c.integer("axis"), c.integer("before"), c.integer("after")));
     }},
    {"concat", [](BuildCall& c) { return c.put(concat(c.all_x(), c.integer("axis"))); }},
    {"broadcast_to", [](BuildCall& c) { return c.put(broadcast_to(c.x(), c.integers("shape"))); }},
    {"upsample_nearest",
     [](BuildCall& c) { return c.put(upsample_nearest(c.x(), c.integer("factor"))); }},
    {"reduce_sum", reduction<reduce_sum>},
    {"reduce_mean", reduction<reduce_mean>},
    {"reduce_max", reduction<reduce_max>},
    {"matmul",
     [](BuildCall& c) {
       const Tensor a = c.x(), b = c.x();
       return c.put(matmul(a, b,
                           {.transpose_a = c.flag("transpose_a", false),
                            .transpose_b = c.flag("transpose_b", false)}));
     }},
    {"softmax", [](BuildCall& c) { return c.put(softmax(c.x(), c.integer("axis", -1))); }},
    {"masked_softmax", binary<masked_softmax>},
    {"max_pool2d",
     [](BuildCall& c) {
       const Window2d otherwise;
       return c.put(max_pool2d(c.x(), {.kernel = c.integer("kernel", otherwise.kernel),
                                       .stride = c.integer("stride", otherwise.stride),
                                       .padding = c.integer("padding", otherwise.padding)}));
     }},
    {"gather_rows", binary<gather_rows>},
    {"gather_sum",
     [](BuildCall& c) {
       const Tensor table = c.x(), ids = c.x();
       return c.put(gather_sum(table, ids, c.x()));
     }},
    {"attention",
     [](BuildCall& c) {
       const Tensor q = c.x(), k = c.x(), v = c.x(), mask = c.x();
       return c.put(attention(q, k, v, mask,
                              {.heads = c.integer("heads", AttentionFlags().heads),
                               .dropout = c.number("dropout", AttentionFlags().dropout)}));
     }},
    {"dropout", [](BuildCall& c) { return c.put(dropout(c.x(), c.number("rate"))); }},
    {"lstm_cell",
     [](BuildCall& c) {
       const Tensor gates = c.x(), h = c.x(), cell = c.x();
       const LstmTensors state = lstm_cell(gates, {.h = h, .c = cell}, c.optional_x());
       return c.put(std::vector<Tensor>{state.h, state.c});
     }},
};

// snug/layers.h and snug/recompute.h
constexpr Entry kLayers[] = {
    {"linear",
     [](BuildCall& c) {
       return c.put(linear(c.b(), c.text("name"), c.x(), c.integer("out_features")));
     }},
    {"conv2d",
     [](BuildCall& c) {
       const ConvOptions otherwise;
       return c.put(conv2d(c.b(), c.text("name"), c.x(), c.integer("out_channels"),
                           {.kernel = c.integer("kernel", otherwise.kernel),
                            .stride = c.integer("stride", otherwise.stride),
                            .padding = c.integer("padding", otherwise.padding),
                            .has_bias = c.flag("has_bias", otherwise.has_bias)}));
     }},
    {"layer_norm",
     [](BuildCall& c) {
       const std::string name = c.text("name");
       const Tensor x = c.x();
       return c.put(c.has("eps") ? layer_norm(c.b(), name, x, c.number("eps"))
                                 : layer_norm(c.b(), name, x));
     }},
    {"batch_norm",
     [](BuildCall& c) {
       const std::string name = c.text("name");
       const Tensor x = c.x();
       if (!c.has("eps") && !c.has("momentum")) return c.put(batch_norm(c.b(), name, x));
       return c.put(batch_norm(c.b(), name, x, c.number("eps"), c.number("momentum")));
     }},
    {"embedding",
     [](BuildCall& c) {
       return c.put(
           embedding(c.b(), c.text("name"), c.x(), c.integer("count"), c.integer("width")));
     }},
    {"embedding_sum",
     [](BuildCall& c) {
       const std::string name = c.text("name");
       const Tensor ids = c.x(), weights = c.x();
       return c.put(
           embedding_sum(c.b(), name, ids, weights, c.integer("count"), c.integer("width")));
     }},
    {"mean_squared_error",
     [](BuildCall& c) {
       const Tensor prediction = c.x();
       return c.put(mean_squared_error(c.b(), prediction, c.x()));
     }},
    {"keep", [](BuildCall& c) { return c.put(keep(c.x())); }},
    {"named", [](BuildCall& c) { return c.put(named(c.text("name"), c.x())); }},
};

const Entry* find(const std::string& name) {
  for (const auto& table : {std::span<const Entry>(kBuilder), std::span<const Entry>(kOps),
                            std::span<const Entry>(kLayers)}) {
    for (const Entry& each : table) {
      if (each.name == name) return &each;
    }
  }
  return nullptr;
}

}  // namespace

std::string build_call(snug_builder& builder, const std::string& name,
                       const std::vector<Tensor>& operands, const Json& attributes) {
  const Entry* entry = find(name);
  if (entry == nullptr)
    throw Error(ErrorCode::invalid_graph, name, "a network's function has no such call");
  BuildCall call(builder, name, operands, attributes);
  const Json result = entry->call(call);
  call.check_used();
  return dumped(result);
}

}  // namespace snug::c_api

extern "C" {

char* snug_build_call(snug_builder* builder, const char* name, const int32_t* tensors, size_t count,
                      const char* attributes) {
  using namespace snug;
  return c_api::answered([&]() -> std::string {
    if (builder == nullptr || name == nullptr || (tensors == nullptr && count > 0))
      throw Error(ErrorCode::invalid_graph, "snug_build_call", "a builder or a name is missing");
    try {
      std::vector<Tensor> operands;
      for (size_t i = 0; i < count; ++i) operands.push_back(builder->tensor(tensors[i]));
      const c_api::Json given = attributes == nullptr
                                    ? c_api::Json::object()
                                    : c_api::Json::parse(attributes, nullptr, false);
      return c_api::build_call(*builder, name, operands, given);
    } catch (const Error& error) {
      builder->last_error = error;
      throw;
    }
  });
}

}  // extern "C"
