#!/usr/bin/env bash
# Builds Snug and runs its tests.
#   ./test.sh         release build, all tests, kernels, models and bits again under AVX2 where the processor has more, and the
#                     ASan + UBSan build of the parts that read foreign bytes
#   ./test.sh --all   also: the whole suite under AVX2, both compilers, ARM under an emulator, the whole suite under
#                     ASan + UBSan, TSan, all of the backend of torch.compile, under PyTorch 2.11 as well, and the long runs
#   ./test.sh --torch the backend of torch.compile alone, its shorter part, in an environment that it makes under build/torch (6.5 GB)
set -euo pipefail
cd "$(dirname "$0")"
all=0
torch=0
for argument in "$@"; do
  case "$argument" in
    --all) all=1 ;;
    --torch) torch=1 ;;
    *) echo "usage: ./test.sh [--all] [--torch]" >&2; exit 1 ;;
  esac
done
jobs=$(nproc)
export SNUG_NOT_RUN="$PWD/build/not_run.txt"
mkdir -p build
: >"$SNUG_NOT_RUN"
step() { printf '\n== %s\n' "$*"; }
# Whether the environment reaches PyPI; where it does not, that these tests are not run is said.
reaches_pypi() {
  local environment=$1 tests=$2
  "$environment/bin/pip" download --quiet --no-deps --dest "$environment/reached" six==1.16.0 && return
  echo "not run: PyPI cannot be reached: $tests" | tee -a "$SNUG_NOT_RUN"
  return 1
}
# Whatever the python3 above had of them.
test_python_packages() {
  step "Python beside pandas, polars, PyArrow, datasets, scikit-learn, matplotlib, numba and mypy, under build/python"
  tools/install_packages.sh torch
  [ -x build/python/bin/python ] || /usr/bin/python3 -m venv build/python
  reaches_pypi build/python tests/python || return 0
  build/python/bin/pip install --quiet --requirement tests/python/requirements.txt
  local test
  for test in tests/python/*_test.py; do
    SNUG="$PWD/build/release/snug" SNUG_LIBRARY="$PWD/build/release/libsnug_c.so" PYTHONPATH="$PWD/python:$PWD/tests/e2e" XDG_CACHE_HOME="$PWD/build/release/cache" \
      build/python/bin/python "$test"
  done
}
# ENVIRONMENT, and names. Two of these run at once, so a thread each: most of their time is Python that compiles.
torch_tests() {
  local environment=$1 test
  shift
  for test in "$@"; do
    SNUG_LIBRARY="$PWD/build/release/libsnug_c.so" PYTHONPATH="$PWD/python:$PWD/tests/torch" XDG_CACHE_HOME="$PWD/build/release/cache" TRANSFORMERS_VERBOSITY=error \
      OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 "$environment/bin/python" "tests/torch/${test}_test.py" || return 1
  done
}
# ENVIRONMENT, and a version of PyTorch where it is not that of requirements.txt.
test_torch() {
  local environment=$1 version=${2:-}
  tools/install_packages.sh torch
  step "the library in C, for Python"
  cmake --preset ci >/dev/null
  cmake --build build/release -j "$jobs" --target snug_c
  step "PyTorch $version, under $environment: 6.5 GB, of which some 3 GB are loaded"
  [ -x "$environment/bin/python" ] || /usr/bin/python3 -m venv "$environment"
  reaches_pypi "$environment" tests/torch || return 0
  sed "${version:+s/^torch==.*/torch==$version/}" tests/torch/requirements.txt >"$environment/requirements.txt"
  "$environment/bin/pip" install --quiet --requirement "$environment/requirements.txt"
  step "PyTorch models within budgets: bits, bytes, refusals; what transformers and datasets bring and load"
  local log="$environment/second.log" second
  torch_tests "$environment" exact uses own_ops optimizers graphs frozen measuring masked huggingface gradients limit >"$log" 2>&1 &
  second=$!
  torch_tests "$environment" inductor layers trainer ranks || { wait "$second" || cat "$log"; return 1; }
  wait "$second" || { cat "$log"; return 1; }
  cat "$log"
  step "a session beside PyTorch, numpy and pandas in one process, in turns and at once: the same losses"
  SNUG_LIBRARY="$PWD/build/release/libsnug_c.so" PYTHONPATH=python XDG_CACHE_HOME="$PWD/build/release/cache" "$environment/bin/python" bench/python_beside_torch.py --rounds 3
}
if [ "$torch" -eq 1 ] && [ "$all" -eq 0 ]; then
  test_torch build/torch
  printf '\nall is well\n'
  exit
fi

extra=()
[ "$all" -eq 0 ] || extra=(clang arm)
tools/install_packages.sh "${extra[@]}"
step "rules: includes, namespaces, families, tasks, traps, files, numbers, sizes, results, docs, names in Python, phrases, format"
python3 tools/check_includes.py --test
python3 tools/check_includes.py
python3 tools/check_namespaces.py --test
python3 tools/check_namespaces.py
python3 tools/check_families.py
python3 tools/check_tasks.py
python3 tools/check_traps.py
python3 tests/mutants/run_mutants.py --list
python3 tools/check_files.py --test
python3 tools/check_files.py
python3 tools/check_numbers.py --test
python3 tools/check_numbers.py
python3 tools/check_sizes.py
python3 tools/results_page.py --test
python3 tools/results_page.py --check
python3 tools/check_docs.py --test
python3 tools/check_docs.py
python3 tools/python_names.py --test
python3 tools/python_names.py --check
python3 tools/check_phrases.py --test
python3 tools/check_phrases.py
tools/check_format.sh

step "release build"
# On, whatever demo.sh left in the cache of this folder.
cmake --preset ci -DSNUG_BUILD_TESTS=ON -DSNUG_BUILD_BENCHMARKS=ON >/dev/null
cmake --build build/release -j "$jobs"
step "all tests"
ctest --no-tests=error --test-dir build/release --output-on-failure -j "$jobs"

step "under AVX2, where the processor has more: kernels, models and the tests of bits; with --all the whole suite"
own=$(build/release/snug --version)
if [[ $own == *"(neon)" ]] || [ "$own" = "$(SNUG_MAX_ISA=avx2 build/release/snug --version)" ]; then
  echo "not run again: nothing is above the instruction set of the tests above, which ran with $own"
else
  below=()
  [ "$all" -eq 1 ] || below=(-R '^(cpu|cpu_simd|cpu_allocation|ops_cpu|nn_optimizers|session|train|e2e_(bits|instruction_set|precision|state_bits))$')
  SNUG_MAX_ISA=avx2 ctest --no-tests=error --test-dir build/release --output-on-failure -j "$jobs" "${below[@]}"
fi

step "ASan + UBSan: what reads foreign bytes"
foreign=(graph text io config data)
cmake --preset asan -DSNUG_BUILD_BENCHMARKS=OFF >/dev/null
cmake --build build/asan -j "$jobs" --target "${foreign[@]/%/_test}" fuzz_replay
ctest --no-tests=error --test-dir build/asan --output-on-failure -j "$jobs" -R "^($(IFS='|'; echo "${foreign[*]}")|fuzz_replay)\$"

if [ "$all" -eq 1 ]; then
  step "clang"
  cmake --preset clang -DSNUG_WERROR=ON >/dev/null
  cmake --build build/clang -j "$jobs"
  ctest --no-tests=error --test-dir build/clang --output-on-failure -j "$jobs"
  step "clang-tidy"
  tools/check_tidy.sh build/clang
  step "ARM under an emulator: kernels, and a training run beside this machine's own"
  if [ "$(uname -m)" = x86_64 ]; then
    tools/make_arm_sysroot.sh
    emulated=(cpu cpu_simd cpu_allocation ops_cpu)
    cmake --preset arm >/dev/null
    cmake --build build/arm -j "$jobs" --target "${emulated[@]/%/_test}" snug_cli
    # Without the two tests that measure this machine's speeds: more than seven minutes each under the emulator, whose speeds they would be.
    GTEST_FILTER='-ProfileCache.*' \
      ctest --no-tests=error --test-dir build/arm --output-on-failure -j "$jobs" -R "^($(IFS='|'; echo "${emulated[*]}")|e2e_emulated)\$"
  else
    echo "not run: the cross compiler and the emulator are for x86-64"
  fi
  step "the whole suite under ASan + UBSan"
  cmake --build build/asan -j "$jobs" --target all fuzz_replay
  ctest --no-tests=error --test-dir build/asan --output-on-failure -j "$jobs"
  step "TSan: what runs threads"
  threaded=(cpu cpu_simd ops_cpu nn_models data session train team)
  cmake --preset tsan -DSNUG_BUILD_BENCHMARKS=OFF >/dev/null
  cmake --build build/tsan -j "$jobs" --target "${threaded[@]/%/_test}" snug snug_cli
  TSAN_OPTIONS="suppressions=$PWD/tools/tsan.supp" \
    ctest --no-tests=error --test-dir build/tsan --output-on-failure -R "^($(IFS='|'; echo "${threaded[*]}")|package)\$"
  test_python_packages
  export SNUG_WHOLE_MATRIX=1
  test_torch build/torch
  test_torch build/torch-oldest 2.11.0
  step "costs: every kind of op that takes 1/250 of a step and 100 us or more within a factor of two of what it takes"
  for case in "mlp 256 128 --rounds 15" "bert-mini 32 128" "lstm 32 200" "resnet-56 64 1 --optim sgd" \
    "vgg-16 32 1 --optim sgd --image_size 32" "vgg-16 4 1 --optim sgd --image_size 224 --rounds 5"; do
    # shellcheck disable=SC2086
    build/release/bench/snug_bench_costs $case --within 2
  done
  step "Python: a step's overhead, and the resident set over 100,000 steps"
  SNUG_LIBRARY="$PWD/build/release/libsnug_c.so" PYTHONPATH=python /usr/bin/python3 bench/python_step.py --steps 100000 --within 50
  step "traps: each mistake is made, and its test fails"
  python3 tests/mutants/run_mutants.py
  step "long runs"
  python3 tests/long/run_all.py build/release/snug
  step "the portable wheel in an empty Debian"
  tests/python/empty_root.sh
  step "the planner's frozen problems"
  CORPUS_TOOL=build/release/tests/corpus/corpus_tool python3 tests/corpus/corpus_test.py
fi
if [ -s "$SNUG_NOT_RUN" ]; then
  step "tests that could not run here"
  sort -u "$SNUG_NOT_RUN"
fi
printf '\nall is well\n'
