# SPDX-License-Identifier: Apache-2.0
"""What the backward part finds and what it makes again, said by the network's author, under the names of
include/snug/recompute.h. A session follows such marks exactly unless its `recompute` says otherwise."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._errors import Error
from ._network import NetworkBuilder, Tensor, builder_of


def keep(x: Tensor) -> Tensor:
    """Marks a tensor to be kept. Returns x."""
    return builder_of(x)._tensor("keep", [x])


def named(name: str, x: Tensor) -> Tensor:
    """Gives a computed tensor the name SCOPE.name, for reports and recompute="marks:NAME". Returns x."""
    return builder_of(x)._tensor("named", [x], name=name)


@contextlib.contextmanager
def checkpointed_part(b: NetworkBuilder) -> Iterator[None]:
    """What is built in it is one checkpointed part: nothing that is made in it is kept, but what the rest of the network needs,
    and it is run again before its backward part."""
    b._call("begin_part")
    try:
        yield
    except BaseException:
        with contextlib.suppress(Error):  # that nothing was built in it
            b._call("end_part")
        raise
    b._call("end_part")


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """torch.utils.checkpoint: what `function` builds of its inputs is one part; gives what it gives."""
    with checkpointed_part(builder_of(*inputs)):
        return function(*inputs)


def checkpoint_sequential(functions: Sequence[Callable[[Tensor], Tensor]], segments: int, x: Tensor) -> Tensor:
    """torch.utils.checkpoint.checkpoint_sequential: segments of len(functions) // segments functions each, the last with what is
    left over; the last is not checkpointed."""
    if not 1 <= segments <= len(functions):
        raise Error("invalid_graph", "checkpoint_sequential", f"{segments} segments of {len(functions)} functions", f"give 1 to {len(functions)}")
    size = len(functions) // segments

    def run(part: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        return functools.reduce(lambda y, function: function(y), part, x)

    for i in range(segments - 1):
        x = checkpoint(functools.partial(run, functions[i * size : (i + 1) * size]), x)
    return run(functions[(segments - 1) * size :], x)


def recompute_grad(layer: Callable[..., Any]) -> Callable[..., Any]:
    """recompute_grad of Keras, as a decorator: a function each of whose calls is a checkpointed part."""

    @functools.wraps(layer)
    def of(*inputs: Any) -> Any:
        return checkpoint(layer, *inputs)

    return of
