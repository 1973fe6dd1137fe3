// SPDX-License-Identifier: Apache-2.0
// Printer and recursive-descent parser of the graph's text form.
#include "graph/text.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/ascii.h"
#include "base/numbers.h"
#include "graph/verify.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr int64_t kMostParts = 1'000'000;

const char* keyword(ValueKind kind) {
  switch (kind) {
    case ValueKind::input:
      return "input";
    case ValueKind::parameter:
      return "parameter";
    case ValueKind::buffer:
      return "buffer";
    case ValueKind::state:
      return "state";
    case ValueKind::cached:
      return "cached";
    case ValueKind::computed:
      break;
  }
  return "";
}

std::string quoted(const std::string& text) { return to_string(AttrValue{text}); }

void print_node(const Graph& graph, const Node& node, std::string& out) {
  out += "  ";
  for (size_t i = 0; i < node.outputs.size(); ++i)
    out += (i ? ", %" : "%") + to_string(node.outputs[i]);
  out += " = " + *node.op->name + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    out += i ? ", " : "";
    out += node.inputs[i] == kNone ? "_" : "%" + to_string(node.inputs[i]);
  }
  out += ")";
  std::string attrs;
  for (const AttrSpec& spec : *node.op->attrs) {
    const AttrValue& value = *node.attrs.find(spec.name);
    if (!spec.is_required && value == spec.default_value) continue;
    attrs += (attrs.empty() ? "" : ", ") + spec.name + "=" + to_string(value);
  }
  if (!attrs.empty()) out += " {" + attrs + "}";
  out += " : ";
  for (size_t i = 0; i < node.outputs.size(); ++i)
    out += (i ? ", " : "") + to_string(graph.type(node.outputs[i]));
  out += " @" + quoted(node.scope) + " " + to_string(node.phase);
  for (size_t i = 0; i < node.parts.size(); ++i)
    out += (i ? ", " : " [") + std::to_string(node.parts[i]);
  out += node.parts.empty() ? "\n" : "]\n";
}

class Parser {
 public:
  Parser(std::string_view text, const OpRegistry& registry) : text_(text), registry_(registry) {}

  Graph parse() {
    expect_word("graph");
    graph_.name = string();
    expect('{');
    while (!accept('}')) {
      statement();
      made_ = graph_.values.end_id();
    }
    skip();
    if (at_ < text_.size()) fail("text after the closing brace");
    verify(graph_);
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::string line() const {
    int number = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) number += text_[i] == '\n' ? 1 : 0;
    return "line " + std::to_string(number);
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCode::invalid_graph, line(), message);
  }
  void skip() {
    while (at_ < text_.size() && ascii::is_space(text_[at_])) ++at_;
  }
  [[nodiscard]] char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "' expected");
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (ascii::is_alphanumeric(text_[at_]) || text_[at_] == '_')) ++at_;
    if (at_ == begin) fail("a word is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  void expect_word(const std::string& wanted) {
    if (word() != wanted) fail("'" + wanted + "' expected");
  }
  std::string string() {
    expect('"');
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out += text_[at_++];
    }
    expect('"');
    return out;
  }
  int64_t integer() {
    skip();
    int64_t value = 0;
    const auto [end, status] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc()) fail("a whole number is expected");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  ValueId fresh_id() {
    expect('%');
    if (integer() != graph_.values.end_id().number())
      fail("values are numbered in order: %" + to_string(graph_.values.end_id()) + " expected");
    return graph_.values.add({});
  }
  ValueId used_id() {
    if (accept('_')) return kNone;
    expect('%');
    const int64_t id = integer();
    if (id < 0 || id >= made_.number()) fail("%" + std::to_string(id) + " is not made yet");
    return ValueId(id);
  }
  TensorType type() {
    const std::string name = word();
    TensorType result;
    const std::optional<DType> dtype = dtype_of(name);
    if (!dtype) fail("there is no element type '" + name + "'");
    result.dtype = *dtype;
    expect('[');
    while (!accept(']')) {
      const int64_t dim = integer();
      if (dim < 0) fail("a dimension is negative");
      result.shape.push_back(dim);
      if (peek() != ']') expect(',');
    }
    if (result.shape.size() > 8) fail("more than 8 dimensions");
    int64_t bytes = element_bytes(result.dtype);
    for (int64_t dim : result.shape) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) fail("the tensor has more than 2^63 bytes");
    }
    return result;
  }
  AttrValue attr_value() {
    const char first = peek();
    if (first == '"') return string();
    if (first == '[') {
      std::vector<int64_t> items;
      expect('[');
      while (!accept(']')) {
        items.push_back(integer());
        if (peek() != ']') expect(',');
      }
      return items;
    }
    size_t end = at_;
    while (end < text_.size() &&
           std::string_view(",} \n\t").find(text_[end]) == std::string_view::npos)
      ++end;
    const std::string token(text_.substr(at_, end - at_));
    if (token == "true" || token == "false") {
      at_ = end;
      return token == "true";
    }
    if (token.find_first_of(".en") == std::string::npos) return integer();
    const std::optional<double> value = number_in<double>(token);
    if (!value) fail("'" + token + "' is not an attribute value");
    at_ = end;
    return *value;
  }
  Phase phase() {
    const std::string name = word();
    if (const std::optional<Phase> found = find_phase(name)) return *found;
    fail("there is no phase '" + name + "'");
  }
  void resident(ValueId id, ValueKind kind) {
    Value value{.type = {}, .kind = kind, .name = string()};
    expect(':');
    value.type = type();
    graph_.values[id] = std::move(value);
  }
  [[nodiscard]] std::vector<TensorType> infer(const Node& node) const {
    return infer_types(*node.op, input_types(graph_, node), node.attrs, line());
  }
  void node(std::vector<ValueId> outputs, const std::string& name) {
    Node result{.op = registry_.find(name),
                .inputs = {},
                .outputs = std::move(outputs),
                .attrs = {},
                .scope = {}};
    if (result.op == nullptr) fail("there is no op named '" + name + "'");
    expect('(');
    while (!accept(')')) {
      result.inputs.push_back(used_id());
      if (peek() != ')') expect(',');
    }
    Attrs attrs;
    if (accept('{')) {
      while (!accept('}')) {
        const std::string key = word();
        if (attrs.has(key)) fail("attribute '" + key + "' is given twice");
        expect('=');
        attrs.set(key, attr_value());
        if (peek() != '}') expect(',');
      }
    }
    result.attrs = complete_attrs(*result.op, std::move(attrs), line());
    const std::vector<TensorType> inferred = infer(result);
    if (inferred.size() != result.outputs.size()) {
      fail(name + " has " + std::to_string(inferred.size()) + " outputs, not " +
           std::to_string(result.outputs.size()));
    }
    expect(':');
    for (size_t i = 0; i < result.outputs.size(); ++i) {
      if (i > 0) expect(',');
      Value& value = graph_.values[result.outputs[i]];
      value.type = type();
      if (value.type != inferred[i])
        fail("the type is " + to_string(inferred[i]) + ", not " + to_string(value.type));
      value.producer = graph_.nodes.end_id();
      value.output_index = static_cast<int32_t>(i);
    }
    expect('@');
    result.scope = string();
    result.phase = phase();
    if (accept('[')) {
      while (!accept(']')) {
        const int64_t part = integer();
        if (part < 0 || part > kMostParts) fail(std::to_string(part) + " is not a part");
        result.parts.push_back(static_cast<int32_t>(part));
        if (peek() != ']') expect(',');
      }
    }
    graph_.nodes.push_back(std::move(result));
  }
  void statement() {
    if (peek() == '%') {
      std::vector<ValueId> outputs{fresh_id()};
      while (accept(',')) outputs.push_back(fresh_id());
      expect('=');
      const std::string name = word();
      for (ValueKind kind : {ValueKind::input, ValueKind::parameter, ValueKind::buffer,
                             ValueKind::state, ValueKind::cached}) {
        if (name == keyword(kind) && outputs.size() == 1 && peek() == '"')
          return resident(outputs[0], kind);
      }
      return node(std::move(outputs), name);
    }
    const std::string kind = word();
    if (kind == "mark") {
      const ValueId id = used_id();
      if (id == kNone) fail("a mark needs a value");
      graph_.values[id].is_marked = true;
      return;
    }
    if (kind != "output" && kind != "name" && kind != "cached") fail("'output' expected");
    const std::string name = string();
    const ValueId id = used_id();
    if (id == kNone) fail("an output needs a value");
    if (name.empty()) fail("an output needs a name");
    if (!graph_.value(id).name.empty())
      fail("%" + to_string(id) + " has the name '" + graph_.value(id).name + "' already");
    graph_.values[id].name = name;
    if (kind == "output") graph_.outputs.push_back(id);
    if (kind == "cached") graph_.values[id].kind = ValueKind::cached;
  }

  std::string_view text_;
  const OpRegistry& registry_;
  Graph graph_;
  ValueId made_{0};  // the end of the values of the statements before this one
  size_t at_ = 0;
};

}  // namespace

std::string scoped_name(const Node& node) {
  return (node.scope.empty() ? "" : node.scope.str() + "/") + *node.op->name;
}

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string first = node.outputs.empty() ? "_" : to_string(node.outputs[0]);
  return "%" + first + " " + scoped_name(node);
}

std::string print(const Graph& graph) {
  std::string out = "graph " + quoted(graph.name) + " {\n";
  // Values are numbered in order of appearance, so residents are printed where they were made.
  auto next_node = graph.nodes.begin();
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    if (value.producer == kNone) {
      out += "  %" + to_string(id) + " = " + keyword(value.kind) + " " + quoted(value.name) +
             " : " + to_string(value.type) + "\n";
    } else if (value.output_index == 0) {
      print_node(graph, *next_node++, out);
    }
  }
  for (ValueId id : graph.outputs)
    out += "  output " + quoted(graph.value(id).name) + " %" + to_string(id) + "\n";
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.values[id];
    const bool is_output =
        std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
    const bool is_cached = value.kind == ValueKind::cached;
    if (value.producer != kNone && !value.name.empty() && !is_output)
      out +=
          (is_cached ? "  cached " : "  name ") + quoted(value.name) + " %" + to_string(id) + "\n";
    if (value.is_marked) out += "  mark %" + to_string(id) + "\n";
  }
  return out + "}\n";
}

Graph parse_graph(std::string_view text, const OpRegistry& registry) {
  return Parser(text, registry).parse();
}

}  // namespace snug
