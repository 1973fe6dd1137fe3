# SPDX-License-Identifier: Apache-2.0
"""A call of what was compiled runs within a plan, or is refused: a function that Dynamo gives up on, it runs without any backend.

Two places of PyTorch are told so when this is imported. With other backends, nothing of them changes.
"""
from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._dynamo import convert_frame, eval_frame
from torch._dynamo.utils import counters

from .._errors import Error


class _Calls(threading.local):
    """Of one thread: those that run, one within another."""

    def __init__(self) -> None:
        self.running: list[Call] = []


_calls = _Calls()


class Call:
    """One call of what torch.compile made with a backend that has `backend_ctx_ctor`: Dynamo enters what that makes around each."""

    def __enter__(self) -> None:
        self.runs_a_graph = False
        self.is_traced = False  # some frame of it, while which ops are recorded, too
        self.known: Mapping[str, int] = {}  # what Dynamo had met by then that it does not trace
        self.recorded_within = 0  # graphs
        self._error = sys.exc_info()[1]  # that of whoever calls, and may be handling one
        self._recorded = _recorded()
        _calls.running.append(self)

    def __exit__(self, *_: Any) -> None:
        """Dynamo does not say whether there was an error; one that is raised here leaves the call as any other. Raises Error where ops were recorded for a backward part, and no graph ran."""
        _calls.running.remove(self)
        outside = _recorded() - self._recorded - self.recorded_within
        is_asked_for = eval_frame._stance.stance != "default"  # by torch.compiler.set_stance
        if outside == 0 or is_asked_for or sys.exc_info()[1] is not self._error:
            return
        if not self.runs_a_graph:
            reason = next((each for each, times in _not_traced().items() if times > self.known.get(each, 0)), "") if self.is_traced else ""
            hint = "a function or module of your own around one of torch.nn, which PyTorch may skip; torch._dynamo.reset() where another backend has compiled the same code"
            if torch._C._functorch.peek_interpreter_stack() is not None:
                hint = "compile what calls torch.vmap or torch.func.grad, not what they call"
            elif reason:
                hint = "leave that out of what is compiled, or compile the parts around it, which then are several graphs" + "".join("; PyTorch: " + each for each in _part(reason, "Hint"))
            raise Error("unsupported", "torch.compile", f"has run this call without compiling it, so there is no plan for it{_because(reason)}; TORCH_LOGS=dynamo in the environment says more", hint)
        if not self.is_traced:
            warnings.warn("snug.torch: ops that need a gradient ran outside the graphs of this call, so what they keep is in no plan; TORCH_LOGS=graph_breaks in the environment says where a graph "
                          "breaks", stacklevel=2)


def _not_traced() -> Mapping[str, int]:
    """What Dynamo has met in this process that it does not trace, and how often: what it is, "Explanation:", "Hint:", a line each."""
    return counters["unimplemented"] + counters["graph_break"]


def are_apart() -> bool:
    """Whether some of what the calls of this thread run is not in one graph with the rest, as far as Dynamo has met it."""
    met = _not_traced()
    return any(times > each.known.get(reason, 0) for each in _calls.running if each.is_traced for reason, times in met.items())


def _part(reason: str, name: str) -> list[str]:
    return [text for line in reason.splitlines() for start, _, text in [line.strip().partition(": ")] if start == name and text]


def _because(reason: str) -> str:
    return f": {reason.splitlines()[0]}" + "".join(f" ({text})" for text in _part(reason, "Explanation")) if reason else ""


def _recorded() -> int:
    """How many ops autograd has recorded on this thread."""
    return torch._C._autograd._get_sequence_nr()


@contextlib.contextmanager
def graph_runs() -> Iterator[None]:
    """Within the calls of this thread."""
    before = _recorded()
    try:
        yield
    finally:
        for each in _calls.running:
            each.runs_a_graph = True
            each.recorded_within += _recorded() - before


def _hand_on_calls() -> None:
    """torch.compile wraps backends, and loses the attribute."""
    wrapper = torch._TorchCompileWrapper
    init = wrapper.__init__

    @functools.wraps(init)
    def init_with_calls(self: Any, *args: Any, **words: Any) -> None:
        init(self, *args, **words)
        if getattr(self.compiler_fn, "backend_ctx_ctor", None) is Call:
            self.backend_ctx_ctor = Call

    wrapper.__init__ = init_with_calls  # type: ignore[method-assign]


def _note_tracing_and_refuse_at_limit() -> None:
    """Before Dynamo traces a frame, it asks whether it has compiled that too often. Its own setting for an error in that case (fail_on_recompile_limit_hit) would hold for all backends."""
    asked = convert_frame.exceeds_recompile_limit

    @functools.wraps(asked)
    def exceeds(*args: Any) -> tuple[bool, str]:
        for each in _calls.running:
            if not each.is_traced:
                each.is_traced, each.known = True, _not_traced()
        is_exceeded, name = asked(*args)
        if is_exceeded and _calls.running and torch.is_grad_enabled():
            function = "".join(f" ({frame})" for frame in eval_frame.dynamo_tls.traced_frame_infos[-1:])
            raise Error("unsupported", f"torch._dynamo.config.{name}", f"is {getattr(torch._dynamo.config, name)}: so many graphs there are of one function{function}, and the next call of it would run without a plan",
                        "leave out dynamic=False, or keep a number that changes, an argument or a module's own (self.step += 1), in a tensor; torch.compiler.disable around that function, where it needs no gradient; torch._dynamo.reset() where another backend has compiled the same code")
        return is_exceeded, name

    convert_frame.exceeds_recompile_limit = exceeds


_hand_on_calls()
_note_tracing_and_refuse_at_limit()
