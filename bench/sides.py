"""The sides of a comparison: processes that are asked in turns, held to one instruction set, and the check that they are."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

PRODUCTS = pathlib.Path(__file__).resolve().parent.parent / "build/release/bench/snug_bench_products"
TOLERANCE = 1.03  # between two measurements a processor's clock may rise by so much


def cpu_name():
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown processor"


def is_intel():
    return "GenuineIntel" in pathlib.Path("/proc/cpuinfo").read_text()


def environment_for(isa, threads):
    """The environment of all sides. Under avx2 each library's own variable keeps it there. Under avx512 nothing is set, and OpenBLAS takes the
    kernels that it thinks best for the processor."""
    held = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "SNUG_MAX_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY",
            "MKL_ENABLE_INSTRUCTIONS"}
    environment = {key: value for key, value in os.environ.items() if key not in held}
    # OpenBLAS's threads spin for 2^20 cycles when they have nothing to do, not for 2^26, which would go on while the next side is measured.
    environment.update(OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), OPENBLAS_THREAD_TIMEOUT="20")
    # What makes PyTorch fastest: tensors in large pages, as Snug's are by themselves, and memory that is used again instead of given back.
    tunables = {"hugetlb": 1, "mmap_threshold": 2**34, "trim_threshold": 2**34}
    environment.update(THP_MEM_ALLOC_ENABLE="1", GLIBC_TUNABLES=":".join(f"glibc.malloc.{key}={value}" for key, value in tunables.items()))
    if isa == "avx2":
        environment.update(SNUG_MAX_ISA="avx2", ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2", OPENBLAS_CORETYPE="Haswell")
        if is_intel():
            environment.update(MKL_ENABLE_INSTRUCTIONS="AVX2")
    return environment


def check_limit(isa, what, rates, limit):
    """Ends the program where a side is faster than registers alone: it uses wider instructions than the comparison is about."""
    for side, rate in rates.items():
        if limit and rate > TOLERANCE * limit:
            sys.exit(f"\n{what}: {side} computes {rate / 1e9:.1f} GFLOP/s, more than the {limit / 1e9:.1f} of {isa} registers only. "
                     f"It is not held to {isa}, so nothing is compared.")


class Side:
    """A process that answers a line with a line of JSON."""

    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, line):
        time.sleep(0.02)  # until the threads of whoever was asked before sleep
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            sys.exit(f"{self.name} ended: exit status {self.process.wait()}")
        return json.loads(answer)


class Limit(Side):
    """The arithmetic limit of a number of threads, in FLOP/s: registers alone (fma_limit.h)."""

    def __init__(self, threads):
        super().__init__("limit", [PRODUCTS, "limit", "--threads", threads], os.environ)

    def of(self, isa):
        return self.ask(f"{isa} 0.02")["flops_per_second"]  # None where the processor has no such instructions

    def best_isa(self):
        return "avx512" if self.of("avx512") else "avx2"
