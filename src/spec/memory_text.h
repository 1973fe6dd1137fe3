// SPDX-License-Identifier: Apache-2.0
// Amounts of memory as text: the part of snug/memory.h that needs no machine, and what does not
// throw of it, for the kinds of options, which word their own errors.
#pragma once

#include <optional>
#include <string_view>

#include "snug/memory.h"

namespace snug::spec {

inline constexpr std::string_view kMemoryForms =
    "write for example 900MiB, 2GiB, 2GB (or 2G: powers of 1000), 1073741824 (bytes), 60%, -512MiB "
    "(all but that) or auto";

[[nodiscard]] std::optional<MemorySpec> try_parse_memory(std::string_view text);

}  // namespace snug::spec
