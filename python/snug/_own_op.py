# SPDX-License-Identifier: Apache-2.0
"""Ops of your own (include/snug/custom_op.h): a kernel in numpy, or a C function by its address, with its gradient."""
from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _callbacks
from ._arrays import array_at
from ._errors import Error
from ._native import Ask, Handle, Kernel, library, result_of, text_bytes
from ._network import NetworkBuilder, Tensor, TensorType, _plain, builder_of

Types = Sequence[TensorType]

_LEAST_ADDRESS = 1 << 16  # Linux maps nothing below


def _attribute(op: str, name: str, value: Any) -> Any:
    """As Python's number, or a truth value. It goes through the library as a double."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):  # the library refuses what is no number
        return value
    if not math.isfinite(value) or (isinstance(value, int) and abs(value) > 2**53):
        raise Error("bad_config", op, f"its attribute '{name}' is {value}", "give a finite number, whole ones within 2**53 of 0")
    return value


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, (Tensor, TensorType)) or not isinstance(value, Iterable) else list(value)


def _type_of(op: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, TensorType):
        raise TypeError(f"the shapes of '{op}' are snug.TensorType(dtype, shape), not a {type(value).__name__}")
    return {"dtype": value.dtype, "shape": list(value.shape)}


class Op:
    """An op of a program's own. Make it known with `@snug.network(ops=[op])`, and call it on tensors: `op(x, k=3)`.

    `kernel`: a function of the inputs' arrays and the outputs', which it fills, with the attributes by name; or the address of a
    C function (int, such as numba's cfunc.address) as docs/python.md has it. It works row by row along axis 0, or says
    `couples_rows`; the same operands give the same bytes. Arrays are the library's own memory: they end with the call.
    `shapes(*types, **attributes)`: the outputs' types; without it they are that of the first input.
    `gradient(*inputs, *outputs, *gradients, **attributes)`: builds, by ops, a tensor an input, None for one that has none.
    `backward`: the same in numpy, in place of `gradient`: it fills the gradient of each of `differentiable` (all inputs), which
    are its last arguments.
    `scratch_bytes(*types, **attributes)`: of a buffer that the kernel is given as `scratch`. `flops`: for predictions of time.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable[..., Any] | int,
        *,
        inputs: Sequence[str],
        outputs: Sequence[str] = ("y",),
        attributes: Mapping[str, Any] | None = None,
        shapes: Callable[..., Any] | None = None,
        gradient: Callable[..., Any] | None = None,
        backward: Callable[..., Any] | int | None = None,
        differentiable: Sequence[str] | None = None,
        couples_rows: bool = False,
        scratch_bytes: Callable[..., int] | None = None,
        flops: Callable[..., float] | None = None,
    ) -> None:
        if gradient is not None and backward is not None:
            raise Error("bad_config", name, "it has a gradient and a backward function", "give one of the two")
        self.name = name
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.attributes = {each: _attribute(name, each, value) for each, value in (attributes or {}).items()}
        self._shapes, self._scratch_bytes, self._flops = shapes, scratch_bytes, flops
        self._couples_rows = couples_rows
        self._gradient = gradient
        self._backward: Op | None = None
        if backward is not None:
            self._take_backward(backward, differentiable)
        elif differentiable is not None:
            raise Error("bad_config", name, "differentiable is of a backward function", "omit it")
        self._ask = Ask(self._answer)
        self._kernel: Any = None
        self._address = kernel if isinstance(kernel, int) else 0
        if isinstance(kernel, int) and (isinstance(kernel, bool) or not _LEAST_ADDRESS <= kernel < 2**63):
            raise Error("bad_config", name, f"{kernel} is no address of a kernel", "give a function of arrays, or that of C code: numba's cfunc(...).address")
        if not isinstance(kernel, int):
            if not callable(kernel):
                raise TypeError(f"the kernel of '{name}' is a function or an address, not a {type(kernel).__name__}")
            self._function = kernel
            self._kernel = Kernel(self._run)
            _callbacks.has_kernels = True
            self._address = ctypes.cast(self._kernel, ctypes.c_void_p).value or 0

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates the function that builds its gradient."""
        if self._gradient is not None:
            raise Error("bad_config", self.name, "it has a gradient already")
        self._gradient = function
        return function

    def _take_backward(self, backward: Callable[..., Any] | int, differentiable: Sequence[str] | None) -> None:
        unknown = set(differentiable or ()) - set(self.inputs)
        if unknown:
            raise Error("bad_config", self.name, f"differentiable has '{min(unknown)}', which is none of its inputs", f"there are: {', '.join(self.inputs)}")
        which = [self.inputs.index(name) for name in (self.inputs if differentiable is None else differentiable)]
        op = Op(
            f"{self.name}_backward", backward,
            inputs=[*self.inputs, *self.outputs, *(f"d{name}" for name in self.outputs)], outputs=[f"d{self.inputs[i]}" for i in which],
            attributes=self.attributes, couples_rows=self._couples_rows,
            shapes=lambda *types, **_attributes: [types[i] for i in which])

        def build(*tensors: Tensor | None, **attributes: Any) -> list[Tensor | None]:
            inputs, outputs = tensors[: len(self.inputs)], tensors[len(self.inputs) : -len(self.outputs)]
            given = tensors[-len(self.outputs) :]
            dy = [each if each is not None else of.builder.fill(0.0, of.shape) for each, of in zip(given, outputs)]  # type: ignore[union-attr]
            found = op._called([*inputs, *outputs, *dy], attributes)
            return [found[which.index(i)] if i in which else None for i in range(len(self.inputs))]

        self._gradient = build
        self._backward = op

    def __call__(self, *operands: Tensor, **attributes: Any) -> Any:
        """Appends it to the network of its operands: a tensor, or a tuple of them."""
        found = self._called(operands, attributes)
        return found[0] if len(found) == 1 else tuple(found)

    def _called(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> list[Tensor | None]:
        given = {name: self._given(name, _attribute(self.name, name, value)) for name, value in attributes.items()}
        return builder_of(*operands).op(self.name, operands, given)

    def _given(self, name: str, value: Any) -> Any:
        """Of the default's kind, which is how the library holds it: 3 is 3.0 where that is 1.0."""
        default = self.attributes.get(name, value)
        if type(default) is float and type(value) is int:
            return float(value)
        if type(value) is not type(default):
            kind = {bool: "True or False", int: "a whole number", float: "a number"}.get(type(default), "what its default is")
            raise Error("bad_config", self.name, f"its attribute '{name}' is {value!r}, and its default {default!r}", f"give {kind}")
        return value

    def _add_to(self, network: Handle) -> None:
        definition = {"name": self.name, "inputs": self.inputs, "outputs": self.outputs, "attributes": self.attributes, "couples_rows": self._couples_rows,
                      "has_gradient": self._gradient is not None, "has_scratch_bytes": self._scratch_bytes is not None,
                      "has_flops": self._flops is not None}
        text = text_bytes(self.name, json.dumps(definition))
        result_of(library().snug_network_add(network.address, text, self._address, self._ask, None))
        network.kept = [*network.kept, self._ask, self._kernel]
        if self._backward is not None:
            self._backward._add_to(network)

    # What the library asks.

    def _answer(self, _context: Any, what: bytes, question: bytes, builder: int | None, reply: int) -> int:
        given = None if builder is None else NetworkBuilder(builder)
        try:
            with _callbacks.interruptible:
                answer = self._answered(what.decode(), json.loads(question), given)
            library().snug_reply(reply, json.dumps(answer, default=_plain).encode())
            return 0
        except BaseException as error:  # noqa: BLE001: nothing may leave through C
            return _callbacks.failed(error) if given is None else _callbacks.failed_building(error, given._reported)
        finally:
            if given is not None:
                given._address = None

    def _answered(self, what: str, question: Mapping[str, Any], builder: NetworkBuilder | None) -> Any:
        attributes = question["attributes"]
        if builder is not None:
            return self._built(question, builder, attributes)
        types = [TensorType(each["dtype"], tuple(each["shape"])) for each in question["inputs"]]
        if what != "infer":
            asked = self._scratch_bytes if what == "scratch_bytes" else self._flops
            return asked(*types, **attributes)  # type: ignore[misc]
        if self._shapes is None:
            return [_type_of(self.name, types[0])] * len(self.outputs)
        found = self._shapes(*types, **attributes)
        return [_type_of(self.name, each) for each in _listed(found)]

    def _built(self, question: Mapping[str, Any], builder: NetworkBuilder, attributes: Mapping[str, Any]) -> list[int]:
        tensors = [None if number < 0 else Tensor(builder, number) for part in ("inputs", "outputs", "gradients") for number in question[part]]
        found = self._gradient(*tensors, **attributes)  # type: ignore[misc]
        return [-1 if each is None else builder._number_of(self.name, each) for each in _listed(found)]

    def _run(self, _context: Any, inputs: Any, outputs: Any, dims: Any, numbers: Any, scratch: int | None) -> int:
        try:
            with _callbacks.interruptible:
                self._run_in_numpy(inputs, outputs, dims, numbers, scratch)
            return 0
        except BaseException as error:  # noqa: BLE001: nothing may leave through C
            return _callbacks.failed(error)

    def _run_in_numpy(self, inputs: Any, outputs: Any, dims: Any, numbers: Any, scratch: int | None) -> None:
        types, at = [], 0
        for _ in range(len(self.inputs) + len(self.outputs)):
            types.append(TensorType(_DTYPES[dims[at]], tuple(dims[at + 2 : at + 2 + dims[at + 1]])))
            at += 2 + dims[at + 1]
        split = len(self.inputs)
        arrays = [array_at(inputs[i], *types[i], None) for i in range(split)]
        arrays += [array_at(outputs[i], *types[split + i], None, is_written=True) for i in range(len(self.outputs))]
        for i in range(split, len(types)):
            _ends_of(arrays[i])[:] = _UNWRITTEN
        attributes = {name: type(default)(numbers[i]) for i, (name, default) in enumerate(self.attributes.items())}
        if self._scratch_bytes is not None:
            arrays.append(array_at(scratch or 0, "u8", [self._scratch_bytes(*types[:split], **attributes)], None, is_written=True))
            self._function(*arrays[:-1], scratch=arrays[-1], **attributes)
        else:
            self._function(*arrays, **attributes)
        lacking = [name for i, name in enumerate(self.outputs) if _is_unwritten(arrays[split + i])]
        if lacking:
            raise Error("bad_config", self.name, f"its kernel does not write '{lacking[0]}'", f"write into it: {lacking[0]}[...] = ..., or out={lacking[0]}")
        references = [sys.getrefcount(each) for each in (*arrays, object())]
        del arrays[:]
        if max(references[:-1]) > references[-1] + 1:  # the list's
            raise Error("bad_config", self.name, "its kernel keeps an array beyond the call, whose memory is the library's", "keep a copy: x.copy()")


_DTYPES = ("f32", "i32", "i64", "bool")  # as DType has them

_UNWRITTEN = 0x7FA5DEAD  # as f32 one of the many that are not a number


def _ends_of(y: Any) -> Any:
    """The first and the last element of an output as whole numbers, in its memory: a kernel that binds its name, y = 2 * x, leaves both."""
    return y.reshape(-1)[:: max(1, y.size - 1)].view("u4") if y.itemsize == 4 else y.reshape(-1)[:0]


def _is_unwritten(y: Any) -> bool:
    ends = _ends_of(y)
    return bool(ends.size and (ends == _UNWRITTEN).all())


def op(function: Callable[..., Any] | None = None, *, name: str | None = None, outputs: Sequence[str] = ("y",), **options: Any) -> Any:
    """Makes a function of numpy arrays an op: `@snug.op def keep_largest(x, y, *, k=1): ...` fills y. Its positional parameters are
    the inputs and, last, the outputs; its keywords are the attributes with their defaults. Options are those of Op."""

    import inspect

    def of(function: Callable[..., Any]) -> Op:
        called = name or getattr(function, "__name__", None)
        if called is None:
            raise Error("bad_config", "op", f"a {type(function).__name__} has no name", "give it one: name=")
        parameters = inspect.signature(function).parameters.values()
        names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        attributes = {each.name: each.default for each in parameters if each.kind == each.KEYWORD_ONLY and each.name != "scratch"}
        split = len(names) - len(outputs)
        if names[split:] != list(outputs) or split < 1:
            raise Error("bad_config", called, f"its parameters are {', '.join(names)}", f"give inputs, then {', '.join(outputs)}")
        lacking = [name for name, default in attributes.items() if default is inspect.Parameter.empty]
        if lacking:
            raise Error("bad_config", called, f"the attribute '{lacking[0]}' has no default", "give it one")
        return Op(called, function, inputs=names[:split], outputs=outputs, attributes=attributes, **options)

    return of if function is None else of(function)
