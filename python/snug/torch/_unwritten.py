# SPDX-License-Identifier: Apache-2.0
"""Kernels on a CPU that nobody will run, without their text: Inductor is told what each of them reads and writes, so that it makes the same choices of
buffers, and of operands in each call, in three quarters of the time.

Kernels whose outer loops are merged keep their text: which of their buffers become local depends on how their loops are cut. So do templates, which Inductor
may run to choose among them.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from torch._inductor.codegen import cpp
from torch._inductor.dependencies import WeakDep
from torch._inductor.virtualized import V


@contextlib.contextmanager
def kernels_without_text() -> Iterator[None]:
    merged, written = cpp.CppScheduling.codegen_outer_loop_node, cpp.CppKernelProxy.codegen_nodes
    is_merging = False

    def codegen_outer_loop_node(scheduling: cpp.CppScheduling, node: Any) -> None:
        nonlocal is_merging
        is_merging = True
        try:
            merged(scheduling, node)
        finally:
            is_merging = False

    def codegen_nodes(proxy: cpp.CppKernelProxy, nodes: Sequence[Any]) -> None:
        (written if is_merging else _account)(proxy, nodes)

    with mock.patch.object(cpp.CppScheduling, "codegen_outer_loop_node", codegen_outer_loop_node), mock.patch.object(cpp.CppKernelProxy, "codegen_nodes", codegen_nodes):
        yield


def _account(proxy: cpp.CppKernelProxy, nodes: Sequence[Any]) -> None:
    """As the text of a kernel is made: node by node, and what is read and written in one kernel only is removed at its end."""
    proxy.codegen_loops = lambda *_: None  # type: ignore[method-assign]
    proxy.legalize_lowp_fp_dtype(nodes)  # its conversions are counted as arithmetic
    with proxy.kernel_group.new_kernel(proxy.kernel_cls) as kernel:
        for node in nodes:
            node.decide_inplace_update()
            node.mark_run()
            for read in node.read_writes.reads:
                if not isinstance(read, WeakDep):  # which says an order, and reads nothing
                    kernel.args.input(read.name)
            for write in node.read_writes.writes:
                kernel.store_buffer_names.add(write.name)
                if write.name not in V.graph.removed_buffers:  # of a check, which is made for nobody
                    kernel.args.output(write.name)
    V.graph.removed_buffers |= kernel.removed_buffers
    V.graph.inplaced_to_remove |= kernel.inplaced_to_remove
