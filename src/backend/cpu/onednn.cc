// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn.h"

#include <string_view>

#include "base/check.h"
#include "snug/instruction_set.h"

namespace snug {

std::shared_ptr<const Onednn> make_onednn() {
  (void)instruction_set();  // oneDNN can be held to it before its first use only
  dnnl::set_primitive_cache_capacity(0);
  return std::make_shared<const Onednn>();
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::optional<dnnl::matmul::primitive_desc> find_blocked_product(
    const dnnl::matmul::desc& product, const dnnl::primitive_attr& attributes,
    const Onednn& onednn) {
  try {
    dnnl::matmul::primitive_desc result(product, attributes, onednn.engine);
    if (std::string_view(result.impl_info_str()).substr(0, 4) == "brg:") return result;
  } catch (const dnnl::error&) {
    // No implementation: the list's next kernel takes the node.
  }
  return std::nullopt;
}

bool has_blocked_products() { return instruction_set() >= InstructionSet::avx512; }
bool has_bf16_products() { return instruction_set() >= InstructionSet::avx512_bf16; }
bool has_bf16_tiles() { return instruction_set() >= InstructionSet::amx; }

size_t BoundPrimitive::add(int argument, const dnnl::memory::desc& desc) {
  SNUG_CHECK(count_ < arguments_.size(), "a primitive with more than six arguments");
  memories_[count_] = dnnl::memory(desc, onednn_->engine, DNNL_MEMORY_NONE);
  arguments_[count_] = {argument, memories_[count_].get()};
  return count_++;
}

void BoundPrimitive::set(size_t slot, const void* data) const noexcept {
  // The C interface: no exception, no temporary.
  (void)dnnl_memory_set_data_handle(arguments_[slot].memory, const_cast<void*>(data));
}

ErrorCode BoundPrimitive::execute() const noexcept {
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), onednn_->stream.get(),
                                                      static_cast<int>(count_), arguments_.data());
  return status == dnnl_success ? ErrorCode::ok : ErrorCode::device;
}

}  // namespace snug
