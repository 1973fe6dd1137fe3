# SPDX-License-Identifier: Apache-2.0
"""Networks of your own: functions that build them, value by value (include/snug/network.h)."""
from __future__ import annotations

import array
import contextlib
import ctypes
import json
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import _callbacks
from ._errors import Error
from ._native import Build, Handle, library, result_of, text_bytes

_NAMES_OF_TYPES = {"float32": "f32", "int32": "i32"}  # numpy's


def dtype_name(dtype: Any) -> str:
    """"f32", "i32" or "bool", as the library calls it; numpy's types and names are taken, too."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"a type of elements is a name, such as 'f32', not a {type(dtype).__name__}")
    return _NAMES_OF_TYPES.get(name, name)


class TensorType(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


class InitRule(NamedTuple):
    """How a weight starts: `deviation` times a normal variate, within `cutoff` deviations where that is above 0; uniform within
    `bound` of 0 where that is above 0; or `constant` everywhere. One row may be zero. A pure function of seed, name and element."""

    deviation: float = 0.0
    constant: float = 0.0
    zero_row: int = -1
    bound: float = 0.0
    cutoff: float = 0.0

    @staticmethod
    def zeros() -> InitRule:
        return InitRule()

    @staticmethod
    def ones() -> InitRule:
        return InitRule(constant=1.0)

    @staticmethod
    def normal(deviation: float) -> InitRule:
        return InitRule(deviation=deviation)

    @staticmethod
    def uniform(bound: float) -> InitRule:
        return InitRule(bound=bound)

    @staticmethod
    def fan_in(inputs: int, gain: float = 1.0) -> InitRule:
        """Keeps the variance of what goes through, times `gain` (2 before a relu)."""
        return InitRule(deviation=(gain / inputs) ** 0.5)


class Length(int):
    """A length of the rows, as a size that knows its name: the first axis of an input that follows it."""

    name: str

    def __new__(cls, size: int, name: str) -> Length:
        length = super().__new__(cls, size)
        length.name = name
        return length


class Tensor:
    """A value of a network that is being built; valid while its function runs. `+ - * / @`, unary `-` and the comparisons build
    ops; numbers stand for constants."""

    __slots__ = ("_builder", "_number", "_type")
    __array_ufunc__ = None  # numpy's numbers leave operators to us

    def __init__(self, builder: NetworkBuilder, number: int) -> None:
        self._builder = builder
        self._number = number
        self._type: TensorType | None = None

    @property
    def builder(self) -> NetworkBuilder:
        return self._builder

    @property
    def type(self) -> TensorType:
        if self._type is None:
            found = self._builder._call("type", [self])
            self._type = TensorType(found["dtype"], tuple(found["shape"]))
        return self._type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def dim(self, axis: int) -> int:
        """One of its sizes; negative axes count from the last."""
        return self.shape[axis]

    def __repr__(self) -> str:
        return f"<snug.Tensor {self._number}>"

    def __bool__(self) -> bool:
        raise TypeError("a value of a network has no truth value: it is not known while the network is built. Use snug.ops.where")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a value of a network has no elements while the network is built. Use snug.ops.slice")

    def __hash__(self) -> int:
        return id(self)

    def _binary(self, name: str, a: Any, b: Any) -> Any:
        a, b = self._builder._constant(a, self), self._builder._constant(b, self)
        return NotImplemented if a is None or b is None else self._builder._tensor(name, [a, b])

    def __add__(self, other: Any) -> Tensor:
        return self._binary("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        if type(other) is int and other == 0 and self.dtype != "bool":  # what sum() begins with
            return self
        return self._binary("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self._binary("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        if isinstance(other, numbers.Real):
            return self._builder._tensor("scale", [self], factor=_finite(other))
        return self._binary("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Tensor:
        return self._binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._binary("div", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self._builder._tensor("matmul", [self, other]) if isinstance(other, Tensor) else NotImplemented

    def __neg__(self) -> Tensor:
        return self._builder._tensor("neg", [self])

    def __eq__(self, other: Any) -> Any:
        return self._binary("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._binary("not_equal", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return self._binary("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return self._binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return self._binary("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self._binary("greater_equal", self, other)


def builder_of(*tensors: Any) -> NetworkBuilder:
    """Of the first that is a tensor."""
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            return tensor.builder
    raise TypeError(f"an op takes values of a network (snug.Tensor), not a {type(tensors[0]).__name__ if tensors else 'nothing'}")


def _plain(value: Any) -> Any:
    """A number of numpy's as JSON takes it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if hasattr(value, "item"):
        return _plain(value.item())
    raise TypeError(f"a {type(value).__name__} is no attribute of a network")


def _finite(value: Any) -> float:
    """Of a number that stands for a constant. Of one that is none nothing could be learned: 0 * inf is no number."""
    if not math.isfinite(value):
        raise Error("invalid_graph", "constant", f"{value} is not finite", "give a number far from all others, such as -1e9 where a softmax leaves places out")
    return float(value)


def _text_of(name: str, attributes: Mapping[str, Any]) -> bytes:
    try:
        return text_bytes(name, json.dumps(attributes, default=_plain, allow_nan=False))
    except ValueError:
        said = ", ".join(f"{key} {value}" for key, value in attributes.items())
        raise Error("invalid_graph", name, f"a number is not finite: {said}") from None


def _listed(name: str, what: str, values: Any) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise TypeError(f"{what} of {name} is a list, not a {type(values).__name__}: give [{values!r}]")
    return list(values)


def _is_whole_in_f32(value: Any) -> bool:
    return -(2**31) <= value < 2**31 and value == int(value) == ctypes.c_float(value).value


class NetworkBuilder:
    """What a network's function is given. Every error names the scope or the value that it is about."""

    def __init__(self, address: int | None) -> None:
        self._address = address
        self._reported: Error | None = None
        self._lengths: dict[str, int] = {}
        self._calls: list[tuple[str, tuple[int, ...], bytes | None]] = []

    def _call(self, name: str, operands: Sequence[Tensor | None] = (), /, **attributes: Any) -> Any:
        if self._address is None:
            raise Error("invalid_graph", name, "the network's function has returned: its values are no longer there",
                        "build all of the network in the function")
        given = (ctypes.c_int32 * max(len(operands), 1))()
        for i, operand in enumerate(operands):
            given[i] = -1 if operand is None else self._number_of(name, operand)
        text = _text_of(name, attributes) if attributes else None
        self._calls.append((name, tuple(given), text))
        try:
            return result_of(library().snug_build_call(self._address, name.encode(), given, len(operands), text))
        except Error as error:
            self._reported = error
            raise

    def _number_of(self, name: str, operand: Any) -> int:
        if not isinstance(operand, Tensor):
            raise TypeError(f"{name} takes values of a network (snug.Tensor), not a {type(operand).__name__}")
        if operand._builder is not self:
            raise Error("invalid_graph", name, "an operand belongs to another building", "build it anew in the function")
        return operand._number

    def _tensors(self, name: str, operands: Sequence[Tensor | None] = (), /, **attributes: Any) -> list[Tensor | None]:
        numbers_of = self._call(name, operands, **attributes)["tensors"]
        return [None if number < 0 else Tensor(self, number) for number in numbers_of]

    def _tensor(self, name: str, operands: Sequence[Tensor | None] = (), /, **attributes: Any) -> Any:
        return self._tensors(name, operands, **attributes)[0]

    def _constant(self, value: Any, like: Tensor) -> Tensor | None:
        """A tensor, or a number as one of the other operand's type."""
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, numbers.Real):
            return None
        # It is made as f32 and cast.
        if like.dtype != "f32" and value not in (0, 1) and not (like.dtype == "i32" and _is_whole_in_f32(value)):
            fix = "give a whole number within 16777216 of 0, cast the other to f32, or feed the number as an input"
            raise Error("invalid_graph", "constant", f"{value} is compared or joined with {like.dtype}, and is none that f32 holds",
                        "give true or false" if like.dtype == "bool" else fix)
        constant = self.fill(float(value), [])
        return constant if like.dtype == "f32" else self._tensor("cast", [constant], to=like.dtype)

    @property
    def rows(self) -> int:
        """Rows of a micro-batch."""
        return self._call("rows")

    @property
    def training(self) -> bool:
        """True for the step that trains: dropout and batch statistics belong to it only."""
        return self._call("training")

    @property
    def scope_name(self) -> str:
        return self._call("scope")

    def length(self, name: str = "") -> Length:
        """The length that rows are padded to, where the session's `lengths` has any; otherwise 0."""
        length = Length(self._call("length", name=name), name)
        self._lengths[name] = int(length)
        return length

    def input(self, name: str, row_shape: Sequence[int] = (), dtype: Any = "f32") -> Tensor:
        """Fed with every batch: (rows, *row_shape) of "f32", "i32" or "bool". Where rows are filled up to a length, that is the
        first axis: `b.input("ids", [b.length()], "i32")`."""
        shape = [{"length": size.name} if isinstance(size, Length) else size for size in _listed("input", "row_shape", row_shape)]
        return self._tensor("input", name=name, row_shape=shape, dtype=dtype_name(dtype))

    def parameter(self, name: str, shape: Sequence[int], init: InitRule) -> Tensor:
        """A weight, called SCOPE.name."""
        return self._tensor("parameter", name=name, shape=_listed("parameter", "shape", shape), init=self._rule(init))

    def buffer(self, name: str, shape: Sequence[int], init: InitRule) -> Tensor:
        """A part of the network that is saved with it and that no gradient moves."""
        return self._tensor("buffer", name=name, shape=_listed("buffer", "shape", shape), init=self._rule(init))

    @staticmethod
    def _rule(init: InitRule) -> dict[str, Any]:
        if not isinstance(init, InitRule):
            raise TypeError(f"initial values are a snug.InitRule, not a {type(init).__name__}")
        return init._asdict()

    def fill(self, value: float, shape: Sequence[int] = ()) -> Tensor:
        """f32 of one value everywhere."""
        return self._tensor("fill", value=_finite(value), shape=_listed("fill", "shape", shape))

    def op(self, name: str, operands: Sequence[Tensor | None], attributes: Mapping[str, Any] | None = None) -> list[Tensor | None]:
        """Any op by name; an absent optional operand is None."""
        return self._tensors("op", operands, name=name, attributes=dict(attributes or {}))

    def op1(self, name: str, operands: Sequence[Tensor | None], attributes: Mapping[str, Any] | None = None) -> Tensor:
        """One with a single output."""
        found = self.op(name, operands, attributes)
        if len(found) != 1:
            raise Error("invalid_graph", name, "it has several outputs", "use op")
        return found[0]  # type: ignore[return-value]

    def random_key(self) -> Tensor | None:
        """A key of random numbers for an op of your own, i64(3); None in evaluation."""
        return self._tensor("random_key")

    def weighted_mean(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """The weighted mean of (rows, ...) over all rows of the global batch. `weights` is an input."""
        return self._tensor("weighted_mean", [values, weights])

    def minimize(self, loss: Tensor) -> None:
        """What training minimizes, once: a sum of means, each times a constant."""
        self._call("minimize", [loss])

    def output(self, name: str, value: Tensor) -> None:
        """A value f32(rows, ...) that evaluation and prediction hand out."""
        self._call("output", [value], name=name)

    def couples_rows(self, reason: str) -> None:
        """Says that a row's result depends on the other rows of its batch, and why."""
        self._call("couples_rows", reason=reason)

    def counts_padding(self, reason: str) -> None:
        """Says that what fills shorter rows up to a length may count in its results, and why."""
        self._call("counts_padding", reason=reason)

    @contextlib.contextmanager
    def scope(self, name: str, *, shared: bool = False) -> Iterator[None]:
        """Names of the values that follow begin with it. With `shared` a second part of the network in a scope of the same name
        has the weights of the first."""
        self._call("begin_scope", name=name, shared=shared)
        try:
            yield
        finally:
            self._call("end_scope")


class Network:
    """A network: a name and the function that builds it. The function is called several times, for several numbers of rows, in
    training and in evaluation; it must build the same network each time."""

    def __init__(self, name: str, function: Callable[[NetworkBuilder], None], ops: Sequence[Any] = ()) -> None:
        if not callable(function):
            raise TypeError(f"a network is a function of its builder, not a {type(function).__name__}")
        self.name = name
        self._function = function
        self._begin()
        place = ctypes.c_void_p()
        build = Build(self._build)
        result_of(library().snug_network_new(text_bytes("network", name), build, None, place))
        self._handle = Handle(place.value, [build])  # type: ignore[arg-type]
        for op in ops:
            self.add(op)

    @staticmethod
    def _of(name: str, handle: Handle) -> Network:
        """A network of the library's."""
        network = Network.__new__(Network)
        network.name = name
        network._begin()
        network._handle = handle
        return network

    def add(self, op: Any) -> Network:
        """Makes an op of your own (snug.op) known to the function."""
        from ._own_op import Op

        if not isinstance(op, Op):
            raise TypeError(f"an op of a network is a snug.Op, not a {type(op).__name__}")
        op._add_to(self._handle)
        return self

    def _begin(self) -> None:
        """A session or a plan begins: what the function refers to may have changed since the last one."""
        self._built: dict[tuple[Any, ...], array.array[int]] = {}

    def _require_same(self, builder: NetworkBuilder) -> None:
        """What trains and what evaluates are built by calls of their own: a function that draws numbers would make two networks."""
        calls = builder._calls
        hashes = array.array("q", map(hash, calls))
        key = (builder.rows, builder.training, *sorted(builder._lengths.items()))
        before = self._built.setdefault(key, hashes)
        for (name, _operands, text), now, then in zip(calls, hashes, before):
            if now != then:
                said = f"{name} {text.decode()}" if text else name
                raise Error("invalid_graph", self.name, f"its function was called twice for {key[0]} rows, and built another network: {said}",
                            "let it depend on b.rows, b.training and b.length() only: draw no numbers in it, and count nothing")
        if len(hashes) != len(before):
            raise Error("invalid_graph", self.name, f"its function was called twice for {key[0]} rows, and built {len(before)} and {len(hashes)} parts",
                        "let it depend on b.rows, b.training and b.length() only")

    def _build(self, _context: Any, address: int) -> int:
        builder = NetworkBuilder(address)
        try:
            with _callbacks.interruptible:
                self._function(builder)
                self._require_same(builder)
            return 0
        except BaseException as error:  # noqa: BLE001: nothing may leave through C
            return _callbacks.failed_building(error, builder._reported)
        finally:
            builder._address = None

    def __reduce__(self) -> Any:
        raise TypeError("a network is not pickled: it is a function, which the other process imports")

    def __repr__(self) -> str:
        return f"<snug.Network {self.name}>"


def network(function: Callable[[NetworkBuilder], None] | None = None, *, name: str | None = None, ops: Sequence[Any] = ()) -> Any:
    """Makes a function of a builder a network: `@snug.network`, or `@snug.network(name="blocks", ops=[my_op])`."""

    def of(function: Callable[[NetworkBuilder], None]) -> Network:
        return Network(name or str(getattr(function, "__name__", "network")), function, ops)

    return of if function is None else of(function)
