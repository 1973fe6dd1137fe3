// SPDX-License-Identifier: Apache-2.0
// Values refer to one another by index and live as long as the machine: a pickle may hold cycles.
#include "io/torch_pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <span>

#include "base/utf8.h"
#include "io/json_tree.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr size_t kBytesPerValue = 4;
constexpr size_t kBytesPerTensor = 32;  // its name and where it is kept, at the least
constexpr size_t kFew = 64;             // of either, in any file
constexpr size_t kMaxTensorRank = 8;
constexpr uint8_t kMaxProtocol = 5;
constexpr uint32_t kNone = 0xffffffff;  // no value, no entry

enum class PickleKind : uint8_t {
  none,
  boolean,
  integer,
  text,
  tuple,
  dict,
  global,
  storage,
  tensor
};

constexpr const char* name_of(PickleKind kind) {
  constexpr std::array<const char*, 9> kNames = {"None",     "a truth value", "a number",
                                                 "a text",   "a tuple",       "a dict",
                                                 "a global", "a storage",     "a tensor"};
  return kNames[static_cast<size_t>(kind)];
}

/// What a pickle of tensors may name.
enum class Global : uint8_t { ordered_dict, rebuild_tensor, rebuild_parameter, storage_type };
struct GlobalRow {
  std::string_view module;
  std::string_view name;
  Global global;
  StoredType type = StoredType::f32;  // of storage_type
};
constexpr GlobalRow kGlobals[] = {
    {"collections", "OrderedDict", Global::ordered_dict},
    {"torch._utils", "_rebuild_tensor_v2", Global::rebuild_tensor},
    {"torch._utils", "_rebuild_parameter", Global::rebuild_parameter},
    {"torch", "FloatStorage", Global::storage_type, StoredType::f32},
    {"torch", "HalfStorage", Global::storage_type, StoredType::f16},
    {"torch", "BFloat16Storage", Global::storage_type, StoredType::bf16},
    {"torch", "DoubleStorage", Global::storage_type, StoredType::f64},
    {"torch", "LongStorage", Global::storage_type, StoredType::i64},
    {"torch", "IntStorage", Global::storage_type, StoredType::i32},
    {"torch", "ShortStorage", Global::storage_type, StoredType::i16},
    {"torch", "CharStorage", Global::storage_type, StoredType::i8},
    {"torch", "ByteStorage", Global::storage_type, StoredType::u8},
    {"torch", "BoolStorage", Global::storage_type, StoredType::boolean}};

struct PickleValue {
  PickleKind kind = PickleKind::none;
  uint8_t detail = 0;  // of a global its row
  uint32_t first = 0;  // text: its first byte; tuple: its first item; dict: its first entry;
                       // storage: its type and key, a tuple; tensor: its arguments, a tuple
  uint32_t count = 0;  // text: bytes; tuple: items; dict: its last entry
  int64_t number = 0;  // of booleans, integers; elements of a storage
};

/// An entry of a dict. They are chained, since entries of several dicts are made in turns.
struct Entry {
  uint32_t key = 0;
  uint32_t value = 0;
  uint32_t next = kNone;
};

// The operations that torch's files have, of protocols 2 to 5 (pickletools.opcodes).
constexpr uint8_t kMark = '(';
constexpr uint8_t kStop = '.';
constexpr uint8_t kPop = '0';
constexpr uint8_t kPopMark = '1';
constexpr uint8_t kNewNone = 'N';
constexpr uint8_t kBinInt = 'J';
constexpr uint8_t kBinInt1 = 'K';
constexpr uint8_t kBinInt2 = 'M';
constexpr uint8_t kReduce = 'R';
constexpr uint8_t kBinUnicode = 'X';
constexpr uint8_t kBuild = 'b';
constexpr uint8_t kGlobal = 'c';
constexpr uint8_t kEmptyDict = '}';
constexpr uint8_t kBinGet = 'h';
constexpr uint8_t kLongBinGet = 'j';
constexpr uint8_t kBinPut = 'q';
constexpr uint8_t kLongBinPut = 'r';
constexpr uint8_t kSetItem = 's';
constexpr uint8_t kTuple = 't';
constexpr uint8_t kEmptyTuple = ')';
constexpr uint8_t kSetItems = 'u';
constexpr uint8_t kBinPersId = 'Q';
constexpr uint8_t kProto = 0x80;
constexpr uint8_t kTuple1 = 0x85;
constexpr uint8_t kTuple2 = 0x86;
constexpr uint8_t kTuple3 = 0x87;
constexpr uint8_t kNewTrue = 0x88;
constexpr uint8_t kNewFalse = 0x89;
constexpr uint8_t kLong1 = 0x8a;
constexpr uint8_t kShortBinUnicode = 0x8c;
constexpr uint8_t kBinUnicode8 = 0x8d;
constexpr uint8_t kStackGlobal = 0x93;
constexpr uint8_t kMemoize = 0x94;
constexpr uint8_t kFrame = 0x95;

/// What other operations make; none of it belongs to a tensor.
struct Foreign {
  std::string_view ops;
  const char* what;
};
constexpr Foreign kForeign[] = {{"]lae", "a list"},
                                {"\x8f\x90\x91", "a set"},
                                {"GF", "a real number"},
                                {"L\x8b", "a number beyond 64 bits"},
                                {"TUSBC\x8e\x96\x97\x98", "bytes"},
                                {"io\x81\x92", "an object of a class"},
                                {"\x82\x83\x84", "an object of the extension registry"}};

class PickleMachine {
 public:
  PickleMachine(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text.size() >= kNone) refuse("the pickle has more than 4 GiB");
  }

  std::vector<PickledTensor> run() {
    while (true) {
      op_begin_ = at_;
      const auto op = take<uint8_t>();
      if (op == kStop) break;
      if (!run_constant(op) && !run_memo(op) && !run_container(op) && !run_object(op))
        refuse_op(op);
    }
    return tensors_of(pop());
  }

 private:
  // ---- errors ----

  [[noreturn]] void refuse(const std::string& what,
                           const char* hint =
                               "the file is damaged, or no dict of tensors: save it "
                               "again with torch.save(model.state_dict(), FILE)") {
    throw Error(ErrorCode::bad_data, path_,
                "data.pkl, byte " + std::to_string(op_begin_) + ": " + what, hint);
  }

  [[noreturn]] void refuse_op(uint8_t op) {
    for (const Foreign& foreign : kForeign) {
      if (foreign.ops.find(static_cast<char>(op)) != std::string_view::npos)
        refuse("the pickle holds " + std::string(foreign.what) + "; tensors have none");
    }
    refuse("the operation " + std::to_string(op) + " of pickle is not understood");
  }

  [[nodiscard]] static std::string shown(std::string_view text) {
    return quote_json(clip_text(text, 200));
  }

  void require_kind(uint32_t id, PickleKind kind, const char* what) {
    if (values_[id].kind != kind)
      refuse(std::string(what) + " is " + name_of(values_[id].kind) + ", not " + name_of(kind));
  }

  // ---- the text ----

  std::string_view take_bytes(uint64_t count) {
    if (count > text_.size() - at_) refuse("the pickle ends within an operation");
    const std::string_view bytes = text_.substr(at_, static_cast<size_t>(count));
    at_ += bytes.size();
    return bytes;
  }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view take_line() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) refuse("the pickle ends within a name");
    const std::string_view line = take_bytes(end - at_);
    ++at_;
    return line;
  }

  [[nodiscard]] std::string_view text_of(uint32_t id) const {
    return text_.substr(values_[id].first, values_[id].count);
  }

  // ---- the stack ----

  uint32_t make(const PickleValue& value) {
    if (values_.size() >= text_.size() / kBytesPerValue + kFew)
      refuse("the pickle makes more values than a file of tensors needs");
    values_.push_back(value);
    return static_cast<uint32_t>(values_.size() - 1);
  }
  void push(const PickleValue& value) { stack_.push_back(make(value)); }
  void push_number(int64_t number) { push({.kind = PickleKind::integer, .number = number}); }

  void push_text(uint64_t bytes) {
    const auto begin = at_;
    if (first_invalid_utf8(take_bytes(bytes))) refuse("a text is no UTF-8");
    push({.kind = PickleKind::text,
          .first = static_cast<uint32_t>(begin),
          .count = static_cast<uint32_t>(bytes)});
  }

  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  uint32_t pop() {
    if (stack_.size() <= floor()) refuse("the stack of the pickle is empty");
    const uint32_t id = stack_.back();
    stack_.pop_back();
    return id;
  }
  [[nodiscard]] uint32_t top() {
    if (stack_.size() <= floor()) refuse("the stack of the pickle is empty");
    return stack_.back();
  }

  size_t pop_mark() {
    if (marks_.empty()) refuse("a mark is missing");
    const size_t begin = marks_.back();
    marks_.pop_back();
    return begin;
  }

  // ---- operations ----

  bool run_constant(uint8_t op) {
    switch (op) {
      case kProto:
        if (const auto protocol = take<uint8_t>(); protocol > kMaxProtocol)
          refuse("protocol " + std::to_string(protocol) + " of pickle is not understood");
        return true;
      case kFrame:
        (void)take<uint64_t>();
        return true;
      case kNewNone:
        push({.kind = PickleKind::none});
        return true;
      case kNewTrue:
      case kNewFalse:
        push({.kind = PickleKind::boolean, .number = op == kNewTrue ? 1 : 0});
        return true;
      case kBinInt:
        push_number(take<int32_t>());
        return true;
      case kBinInt1:
        push_number(take<uint8_t>());
        return true;
      case kBinInt2:
        push_number(take<uint16_t>());
        return true;
      case kLong1:
        push_long(take_bytes(take<uint8_t>()));
        return true;
      case kBinUnicode:
        push_text(take<uint32_t>());
        return true;
      case kShortBinUnicode:
        push_text(take<uint8_t>());
        return true;
      case kBinUnicode8:
        push_text(take<uint64_t>());
        return true;
      default:
        return false;
    }
  }

  // Two's complement, lowest byte first.
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) refuse("the pickle holds a number beyond 64 bits");
    uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;)
      number = number << 8 | static_cast<unsigned char>(bytes[i]);
    push_number(static_cast<int64_t>(number));
  }

  bool run_memo(uint8_t op) {
    switch (op) {
      case kBinPut:
        keep(take<uint8_t>());
        return true;
      case kLongBinPut:
        keep(take<uint32_t>());
        return true;
      case kMemoize:
        keep(memo_.size());
        return true;
      case kBinGet:
        recall(take<uint8_t>());
        return true;
      case kLongBinGet:
        recall(take<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  // Writers number what they keep, so no number is larger than the values that there are.
  void keep(size_t number) {
    if (number > values_.size()) refuse("memo " + std::to_string(number) + " is out of order");
    if (number >= memo_.size()) memo_.resize(number + 1, kNone);
    memo_[number] = top();
  }
  void recall(size_t number) {
    if (number >= memo_.size() || memo_[number] == kNone)
      refuse("memo " + std::to_string(number) + " is empty");
    stack_.push_back(memo_[number]);
  }

  bool run_container(uint8_t op) {
    switch (op) {
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kPop:
        if (stack_.size() == floor() && !marks_.empty()) {  // pops the mark
          marks_.pop_back();
        } else {
          (void)pop();
        }
        return true;
      case kPopMark:
        stack_.resize(pop_mark());
        return true;
      case kEmptyDict:
        push({.kind = PickleKind::dict, .first = kNone, .count = kNone});
        return true;
      case kEmptyTuple:
        push_tuple(stack_.size());
        return true;
      case kTuple:
        push_tuple(pop_mark());
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3: {
        const size_t count = op - kTuple1 + size_t{1};
        if (stack_.size() - floor() < count) refuse("the stack of the pickle is empty");
        push_tuple(stack_.size() - count);
        return true;
      }
      case kSetItem:
        if (stack_.size() - floor() < 3) refuse("the stack of the pickle is empty");
        set_items(stack_.size() - 2);
        return true;
      case kSetItems:
        set_items(pop_mark());
        return true;
      default:
        return false;
    }
  }

  // Makes a tuple of all that lies on the stack from `begin` on.
  void push_tuple(size_t begin) {
    const PickleValue tuple{.kind = PickleKind::tuple,
                            .first = static_cast<uint32_t>(items_.size()),
                            .count = static_cast<uint32_t>(stack_.size() - begin)};
    items_.insert(items_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    push(tuple);
  }

  void set_items(size_t begin) {
    if ((stack_.size() - begin) % 2 != 0) refuse("a key has no value");
    if (begin <= floor()) refuse("the stack of the pickle is empty");
    const uint32_t dict = stack_[begin - 1];
    require_kind(dict, PickleKind::dict, "what gets an entry");
    for (size_t i = begin; i < stack_.size(); i += 2) {
      const auto entry = static_cast<uint32_t>(entries_.size());
      entries_.push_back({.key = stack_[i], .value = stack_[i + 1]});
      PickleValue& value = values_[dict];
      (value.first == kNone ? value.first : entries_[value.count].next) = entry;
      value.count = entry;
    }
    stack_.resize(begin);
  }

  bool run_object(uint8_t op) {
    switch (op) {
      case kGlobal: {
        const std::string_view module = take_line();
        push_global(module, take_line());
        return true;
      }
      case kStackGlobal: {
        const uint32_t name = pop();
        const uint32_t module = pop();
        require_kind(name, PickleKind::text, "the name of a global");
        require_kind(module, PickleKind::text, "the module of a global");
        push_global(text_of(module), text_of(name));
        return true;
      }
      case kReduce: {
        const uint32_t arguments = pop();
        const uint32_t callee = pop();
        require_kind(arguments, PickleKind::tuple, "what a call is given");
        call(callee, arguments);
        return true;
      }
      case kBuild:
        build(pop());
        return true;
      case kBinPersId:
        push_storage(pop());
        return true;
      default:
        return false;
    }
  }

  void push_global(std::string_view module, std::string_view name) {
    for (size_t i = 0; i < std::size(kGlobals); ++i) {
      if (kGlobals[i].module == module && kGlobals[i].name == name) {
        push({.kind = PickleKind::global, .detail = static_cast<uint8_t>(i)});
        return;
      }
    }
    refuse("the pickle names " + shown(std::string(module) + "." + std::string(name)) +
               ", which is no part of a tensor that Snug reads; nothing of it was run",
           "save the tensors alone: torch.save(model.state_dict(), FILE)");
  }

  // ---- what tensors are made of ----

  [[nodiscard]] std::span<const uint32_t> items_of(uint32_t tuple) const {
    return std::span(items_).subspan(values_[tuple].first, values_[tuple].count);
  }
  [[nodiscard]] std::optional<GlobalRow> global_of(uint32_t id) const {
    if (values_[id].kind != PickleKind::global) return std::nullopt;
    return kGlobals[values_[id].detail];
  }
  [[nodiscard]] bool is_empty_dict(uint32_t id) const {
    return values_[id].kind == PickleKind::dict && values_[id].first == kNone;
  }

  // ("storage", type, key, device, elements)
  void push_storage(uint32_t id) {
    require_kind(id, PickleKind::tuple, "what persistent data are asked for with");
    const std::span<const uint32_t> items = items_of(id);
    if (items.size() != 5 || values_[items[0]].kind != PickleKind::text ||
        text_of(items[0]) != "storage")
      refuse("the pickle asks for persistent data that are no storage");
    const auto type = global_of(items[1]);
    if (!type || type->global != Global::storage_type)
      refuse("a storage has no type that is known");
    require_kind(items[2], PickleKind::text, "the key of a storage");
    require_kind(items[4], PickleKind::integer, "the size of a storage");
    push({.kind = PickleKind::storage, .first = id, .number = values_[items[4]].number});
  }

  void call(uint32_t callee, uint32_t arguments) {
    const auto global = global_of(callee);
    if (!global || global->global == Global::storage_type)
      refuse("the pickle calls " + std::string(name_of(values_[callee].kind)));
    const std::span<const uint32_t> given = items_of(arguments);
    if (global->global == Global::ordered_dict) {
      if (!given.empty()) refuse("OrderedDict is called with arguments");
      push({.kind = PickleKind::dict, .first = kNone, .count = kNone});
    } else if (global->global == Global::rebuild_parameter) {  // (tensor, needs gradient, hooks)
      if (given.size() != 3) refuse("_rebuild_parameter has three arguments");
      require_kind(given[0], PickleKind::tensor, "a parameter");
      if (!is_empty_dict(given[2])) refuse("a parameter has hooks");
      stack_.push_back(given[0]);
    } else {
      check_tensor(given);
      push({.kind = PickleKind::tensor, .first = arguments});
    }
  }

  // (storage, offset, shape, strides, needs gradient, hooks[, conjugation and the like])
  void check_tensor(std::span<const uint32_t> given) {
    if (given.size() != 6 && given.size() != 7)
      refuse("_rebuild_tensor_v2 has six or seven arguments");
    require_kind(given[0], PickleKind::storage, "the storage of a tensor");
    require_kind(given[1], PickleKind::integer, "the offset of a tensor");
    for (const size_t i : {size_t{2}, size_t{3}}) {
      const char* const what = i == 2 ? "the shape of a tensor" : "the strides of a tensor";
      require_kind(given[i], PickleKind::tuple, what);
      for (const uint32_t id : items_of(given[i])) require_kind(id, PickleKind::integer, what);
    }
    const uint32_t rank = values_[given[2]].count;
    if (rank > kMaxTensorRank || values_[given[3]].count != rank)
      refuse("a tensor has a shape of " + std::to_string(rank) + " and strides of " +
             std::to_string(values_[given[3]].count) + " dimensions");
    if (!is_empty_dict(given[5])) refuse("a tensor has hooks");
    if (given.size() == 7 && values_[given[6]].kind != PickleKind::none && !is_empty_dict(given[6]))
      refuse("a tensor has marks (conjugated, negated) that are not understood");
  }

  // The attributes of a dict: torch's _metadata, the versions of modules, says nothing of tensors.
  void build(uint32_t state) {
    require_kind(top(), PickleKind::dict, "what gets attributes");
    require_kind(state, PickleKind::dict, "a set of attributes");
    for (uint32_t i = values_[state].first; i != kNone; i = entries_[i].next) {
      const uint32_t key = entries_[i].key;
      require_kind(key, PickleKind::text, "the name of an attribute");
      if (text_of(key) != "_metadata")
        refuse("the attribute " + shown(text_of(key)) + " is not understood");
    }
  }

  // ---- the result ----

  std::vector<PickledTensor> tensors_of(uint32_t root) {
    if (values_[root].kind != PickleKind::dict)
      refuse("the file holds " + std::string(name_of(values_[root].kind)) + ", no dict of tensors");
    std::vector<PickledTensor> tensors;
    std::set<std::string_view> names;
    for (uint32_t i = values_[root].first; i != kNone; i = entries_[i].next) {
      const auto [key, value, next] = entries_[i];
      require_kind(key, PickleKind::text, "a key");
      if (!names.insert(text_of(key)).second) refuse(shown(text_of(key)) + " stands twice");
      if (names.size() > text_.size() / kBytesPerTensor + kFew)
        refuse("the pickle has more names for its tensors than a file needs");
      if (values_[value].kind != PickleKind::tensor)
        refuse(shown(text_of(key)) + " is " + name_of(values_[value].kind) + ", no tensor",
               "save the tensors alone: torch.save(model.state_dict(), FILE)");
      tensors.push_back(tensor_of(text_of(key), items_of(values_[value].first)));
    }
    return tensors;
  }

  [[nodiscard]] PickledTensor tensor_of(std::string_view name, std::span<const uint32_t> given) {
    const PickleValue& storage = values_[given[0]];
    const std::span<const uint32_t> parts = items_of(storage.first);
    const auto numbers = [&](uint32_t tuple) {
      std::vector<int64_t> all;
      for (const uint32_t id : items_of(tuple)) all.push_back(values_[id].number);
      return all;
    };
    return {.name = std::string(name),
            .dtype = global_of(parts[1])->type,
            .storage = std::string(text_of(parts[2])),
            .storage_elements = storage.number,
            .offset = values_[given[1]].number,
            .shape = numbers(given[2]),
            .strides = numbers(given[3])};
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  size_t op_begin_ = 0;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> items_;  // of tuples
  std::vector<Entry> entries_;   // of dicts
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
};

}  // namespace

std::vector<PickledTensor> read_torch_pickle(std::string_view text, const std::string& path) {
  return PickleMachine(text, path).run();
}

}  // namespace snug::io
