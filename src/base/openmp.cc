// SPDX-License-Identifier: Apache-2.0
#include "base/openmp.h"

#include <dlfcn.h>
#include <omp.h>

#include <cstdlib>
#include <string>

#include "base/ascii.h"

namespace snug {

bool openmp_spins() {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  if (ascii::lowered(policy == nullptr ? "" : policy) == "passive") return false;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&omp_get_thread_num), &info) == 0 || info.dli_fname == nullptr)
    return false;
  const std::string file = info.dli_fname;
  return file.find("omp.so") != std::string::npos || file.find("omp5.so") != std::string::npos;
}

}  // namespace snug
