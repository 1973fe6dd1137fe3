// SPDX-License-Identifier: Apache-2.0
#include "base/heap.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>

#include <cstdlib>

namespace snug {

std::string foreign_allocator() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {};
#else
  Dl_info of_malloc{};
  Dl_info of_library{};
  if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc) == 0 ||
      dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &of_library) == 0)
    return {};
  if (of_malloc.dli_fbase == of_library.dli_fbase || of_malloc.dli_fname == nullptr) return {};
  return of_malloc.dli_fname;
#endif
}

}  // namespace snug
