// SPDX-License-Identifier: Apache-2.0
#include "base/openmp.h"

#include <dlfcn.h>
#include <omp.h>

#include <cctype>
#include <cstdlib>
#include <string>

namespace snug {

bool openmp_spins() {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  std::string lower = policy == nullptr ? "" : policy;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "passive") return false;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&omp_get_thread_num), &info) == 0 || info.dli_fname == nullptr)
    return false;
  const std::string file = info.dli_fname;
  return file.find("omp.so") != std::string::npos || file.find("omp5.so") != std::string::npos;
}

}  // namespace snug
