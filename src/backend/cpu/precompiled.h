// SPDX-License-Identifier: Apache-2.0
// The headers that every kernel reads before its first line: those of Highway that do not depend on
// the instruction set, and the compiler's intrinsics, the largest of all. Precompiled
// (CMakeLists.txt) and not to be included.
#pragma once

#include <hwy/base.h>
#include <hwy/cache_control.h>
#include <hwy/targets.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
