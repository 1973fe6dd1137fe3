# SPDX-License-Identifier: Apache-2.0
"""Sessions: networks of your own, planned within a number of bytes and trained in them (include/snug/session.h)."""
from __future__ import annotations

import json
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from . import _callbacks
from ._arrays import array_at, described, elements_of
from ._config import json_of, text_of
from ._errors import Error
from ._library import _EVENT
from ._native import Data, Handle, do, make
from ._network import Network
from ._plan import Plan
from ._row_source import Lengths, RowSource, data_of, not_finite_in, sink_of

if TYPE_CHECKING:
    from ._session_options import Options


class StepResult(NamedTuple):
    update: int
    """Counted from 1."""
    loss: float
    """The batch's, before the update."""
    grad_norm: float
    learning_rate: float
    loss_scale: float
    is_skipped: bool
    """Gradients overflowed under a dynamic loss_scale: nothing moved but that."""


class Evaluation(NamedTuple):
    rows: int
    loss: float


class GradientResult(NamedTuple):
    loss: float
    of: dict[str, Any]
    """By weight, as numpy arrays."""


class TensorInfo(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    """"parameter", "buffer", "optimizer_state" or "scales"."""
    is_trained: bool


class UpdateCounts(NamedTuple):
    drawn: int
    schedule: int
    optimizer: int


class LossScale(NamedTuple):
    value: float
    clean_updates: int
    overflows: int


class Cancel:
    """A flag to stop planning, or the next step before it changes anything, from any thread: Error of the code "cancelled"."""

    def __init__(self) -> None:
        self._handle = make(None, "flag", {})

    def set(self) -> None:
        do(self._handle, "set")

    def clear(self) -> None:
        do(self._handle, "clear")

    def is_set(self) -> bool:
        return do(self._handle, "is_set")


class Machine:
    """This machine's cores and their measured speed, opened once for several plans and sessions."""

    def __init__(self, threads: int = 0, profile_folder: str | os.PathLike[str] | None = None) -> None:
        self._handle = make(None, "machine", options_of({".threads": threads, ".profile_folder": profile_folder}))
        about = do(self._handle, "about")
        self.threads: int = about["threads"]
        self.backend: str = about["backend"]


_LISTS = ("lengths", "optim_args")  # JSON, whatever they hold


def options_of(given: Mapping[str, Any]) -> dict[str, str]:
    """As C takes them; None is not given."""
    options = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in _LISTS:
            value = json_of(name, value if isinstance(value, Mapping) else list(value))
        options[name] = text_of(name.lstrip("."), value)
    return options


class Given:
    """What a session or a plan is made with: options, and what they refer to, which has to live as long."""

    def __init__(self, network: Network, options: Mapping[str, Any]) -> None:
        if not isinstance(network, Network):
            raise TypeError(f"a session is of a network (snug.network), not of a {type(network).__name__}")
        network._begin()
        self.network = network
        rest = dict(options)
        self.data = Data()
        self.kept: list[Any] = [network._handle]
        for name, kind in (("cancel", Cancel), ("machine", Machine)):
            value = rest.pop(name, None)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} is a snug.{kind.__name__}, not a {type(value).__name__}")
            if value is not None:
                setattr(self.data, name, value._handle.address)
                self.kept.append(value._handle)
        block = rest.pop("block", None)
        if block is not None:
            self._take_block(block)
        told = {"progress": rest.pop("on_planning", None), "message": rest.pop("on_message", None)}
        # Told in any case: while planning goes on, this is where Python hears of Ctrl-C.
        event = _EVENT(lambda _context, kind, text: _tell(told, kind, text))
        self.data.event = event
        self.kept.append(event)
        wants_picture = rest.pop("wants_picture", None)
        self.options = options_of(rest)
        self.call_options = dict(self.options)
        if wants_picture is not None:
            self.call_options[".html"] = text_of("wants_picture", wants_picture)

    def _take_block(self, block: Any) -> None:
        view = memoryview(block)
        if not view.c_contiguous or view.nbytes == 0:
            raise Error("bad_data", "block", "is empty, or does not lie in a row", "give writable memory in one piece, such as an mmap")
        view = view.cast("B")
        elements = elements_of("block", view, is_written=True)
        self.data.block, self.data.block_bytes = elements.address, len(view)
        self.kept.append(elements)


def _tell(told: Mapping[str, Callable[..., Any] | None], kind: bytes, text: bytes) -> int:
    try:
        with _callbacks.interruptible:
            function = told.get(kind.decode())
            if function is not None:
                value = json.loads(text)
                if kind == b"progress":
                    function(value["done"], value["total"], value["phase"])
                else:
                    function(value)
        return 0
    except BaseException as error:  # noqa: BLE001: nothing may leave through C
        return _callbacks.failed(error)


def _cannot_save(_file: Any) -> None:
    raise Error("unsupported", "plan", "a session's plan is not written", "SessionPlan(network, ...).save(file) does, and sessions open it")


class SessionPlan:
    """A plan, made once, of which any number of sessions may be opened. Options are those of Session.

    Raises DoesNotFit with the proof, the smallest budget and the cheapest ways to fit.
    """

    def __init__(self, network: Network, **options: Unpack[Options]) -> None:
        given = Given(network, options)
        self._handle = make(network._handle, "plan_session", given.call_options, given.data, given.kept)

    @property
    def report(self) -> Plan:
        return Plan(do(self._handle, "report"), save=self.save, page=lambda: do(self._handle, "report", {".html": "true"})["html"])

    def save(self, file: str | os.PathLike[str]) -> None:
        """A file for the option plan_file."""
        do(self._handle, "save", options_of({".file": file}))

    def save_problem(self, file: str | os.PathLike[str]) -> None:
        """The training program of the longest rows as a problem for snug.solve."""
        do(self._handle, "save_problem", options_of({".file": file}))

    def save_schedule(self, file: str | os.PathLike[str]) -> None:
        """Its planned schedule."""
        do(self._handle, "save_schedule", options_of({".file": file}))

    def summands(self, length: Lengths | None = None) -> float:
        """Over all ops of the training program for rows of this length, how many numbers an element of the output is the sum of."""
        return do(self._handle, "summands", {} if length is None else {".length": json_of("length", length)})


class Session:
    """A network planned within a number of bytes, and trained in them on rows that you hold. Used from one thread at a time; any
    number of sessions work in threads of their own.

    `batch_rows`, `memory` ("64MiB"), `micro_batch_size`, `optim`, `learning_rate`, `lengths`, `seed`, `threads`, ...: every field of
    SessionOptions (include/snug/train_fields.inc), by its name; and `plan_file`, `profile_folder`, `repeats_own_ops`,
    `wants_picture`, `block` (writable memory of yours, page-aligned), `machine`, `cancel`, `on_planning(done, total, phase)`,
    `on_message(text)`. Raises DoesNotFit before anything is allocated.
    """

    def __init__(self, network: Network | SessionPlan, **options: Unpack[Options]) -> None:
        if isinstance(network, SessionPlan):
            if options:
                raise Error("bad_config", next(iter(options)), "a session of a plan has the plan's options", "give it to SessionPlan")
            self._open(make(network._handle, "open", {}, kept=[network._handle]))
        else:
            given = Given(network, options)
            self._open(make(network._handle, "open", given.call_options, given.data, given.kept))

    def _open(self, handle: Handle) -> None:
        self._held: Handle | None = handle

    @classmethod
    def _of(cls, handle: Handle) -> Session:
        session = cls.__new__(cls)
        session._open(handle)
        return session

    @classmethod
    def resume(cls, network: Network, folder: str | os.PathLike[str], **options: Unpack[Options]) -> Session:
        """Goes on where save() was called, to the same bits. Options that decide the result may not differ. With only_evaluation=True, to evaluate and
        predict, in fewer bytes."""
        given = Given(network, options)
        return cls._of(make(network._handle, "resume", {**given.call_options, **options_of({".folder": folder})}, given.data, given.kept))

    @property
    def _handle(self) -> Handle:
        if self._held is None:
            raise Error("bad_config", "session", "it is closed", "open another one")
        return self._held

    def close(self) -> None:
        """Gives its memory back, once no view refers to it. Every later call is an error."""
        self._held = None

    def __reduce__(self) -> Any:
        raise TypeError("a session is not pickled: save it to a folder, and resume it")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def _do(self, verb: str, **options: Any) -> Any:
        return do(self._handle, verb, options_of({"." + name: value for name, value in options.items()}))

    # What it is.

    @property
    def plan(self) -> Plan:
        return Plan(self._do("plan"), save=_cannot_save, page=lambda: self._do("plan", html=True)["html"])

    @property
    def updates(self) -> int:
        return self._do("about")["updates"]

    @property
    def counts(self) -> UpdateCounts:
        return UpdateCounts(**self._do("about")["counts"])

    def set_counts(self, drawn: int, schedule: int, optimizer: int) -> None:
        """To go on from a checkpoint of your own, with its weights and states."""
        self._do("set_counts", drawn=drawn, schedule=schedule, optimizer=optimizer)

    @property
    def loss_scale(self) -> LossScale:
        return LossScale(**self._do("about")["loss_scale"])

    @property
    def has_dynamic_loss_scale(self) -> bool:
        return self._do("about")["has_dynamic_loss_scale"]

    def set_loss_scale(self, value: float, clean_updates: int = 0, overflows: int = 0) -> None:
        self._do("set_loss_scale", value=value, clean_updates=clean_updates, overflows=overflows)

    def has_input(self, name: str) -> bool:
        return self._do("has_input", input=name)

    # Work. Rows are {input: array (rows, ...)}, or a RowSource; `length` is that of the rows, where they have any: 12, or
    # {"source": 12, "target": 20}. Arrays are read where they are.

    def step(self, rows: Mapping[str, Any] | RowSource, *, length: Lengths | None = None, learning_rate: float | None = None, is_skipped: bool = False) -> StepResult:
        """One update on at most batch_rows rows. `learning_rate`: in place of the schedule's. `is_skipped`: loss and norm only.

        Raises Error{bad_data} for rows that cannot be, Error{numeric} where the loss or the gradients are not finite: the weights are
        then lost, `resume` what you saved. Which rows are not finite it names.
        """
        options = {}
        if learning_rate is not None:
            if isinstance(learning_rate, bool) or not isinstance(learning_rate, numbers.Real):
                raise TypeError(f"learning_rate is a number, not a {type(learning_rate).__name__}")
            options[".learning_rate"] = repr(float(learning_rate))
        if is_skipped is not None and is_skipped is not False:
            options[".is_skipped"] = text_of("is_skipped", is_skipped)
        found = self._with_rows("step", rows, length, options)
        return StepResult(found["update"], float(found["loss"]), float(found["grad_norm"]), float(found["learning_rate"]),
                          float(found["loss_scale"]), found["is_skipped"])

    def gradients(self, rows: Mapping[str, Any] | RowSource, *, length: Lengths | None = None) -> GradientResult:
        """The gradients of the mean loss; for sessions with only_gradients=True. What is not finite is an error; a dynamic loss_scale falls until gradients are."""
        of: dict[str, Any] = {}
        found = self._with_rows("gradients", rows, length, {}, sink_of(lambda _first, arrays: of.update(arrays)))
        return GradientResult(float(found["loss"]), of)

    def evaluate(self, rows: Mapping[str, Any] | RowSource, sink: Callable[[int, dict[str, Any]], Any] | None = None, *, length: Lengths | None = None) -> Evaluation:
        """The loss over any number of rows. `sink(first_row, {output: array})` is called micro-batch by micro-batch."""
        found = self._with_rows("evaluate", rows, length, {}, sink_of(sink))
        return Evaluation(found["rows"], float(found["loss"]))

    def predict(self, rows: Mapping[str, Any] | RowSource, sink: Callable[[int, dict[str, Any]], Any] | None = None, *, length: Lengths | None = None) -> dict[str, Any]:
        """The outputs of any number of rows by name, (rows, ...) each, or piece by piece to `sink`. Inputs that only the loss reads
        may be absent."""
        pieces: list[dict[str, Any]] = []
        self._with_rows("predict", rows, length, {}, sink_of(sink or (lambda _first, arrays: pieces.append(arrays))))
        if not pieces:
            return {}
        import numpy

        return {name: numpy.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _with_rows(self, verb: str, rows: Any, length: Any, options: dict[str, str], sink: Any = None) -> Any:
        data, _kept = data_of(rows, length, options, self._handle)
        if sink is not None:
            data.sink = sink
        try:
            return do(self._handle, verb, options, data)
        except Error as error:
            if error.code == "numeric" and (found := not_finite_in(rows)):
                moved = ", and go back to what you saved" if verb == "step" and ".is_skipped" not in options else ""
                raise Error("numeric", error.where, f"{error.message}; of the rows {found}", f"leave such rows out{moved}") from None
            raise

    # Tensors.

    def tensors(self) -> list[TensorInfo]:
        """Weights, buffers and optimizer states, in order of name."""
        return tensor_infos(self._do("tensors"))

    def _shape(self, name: str) -> tuple[int, ...]:
        for tensor in self.tensors():
            if tensor.name == name:
                return tensor.shape
        raise Error("bad_config", name, "the session has no tensor of this name", "tensors() lists them")

    def read(self, name: str, out: Any = None) -> Any:
        """A tensor's values: a new array, or into `out`, a writable one of float32 with as many elements."""
        if out is None:
            import numpy

            out = numpy.empty(self._shape(name), numpy.float32)
        self._copy("read", name, out, is_written=True)
        return out

    def write(self, name: str, values: Any) -> None:
        """Raises Error{numeric} for values that are not finite."""
        self._copy("write", name, values)

    def read_rows(self, name: str, first_row: int, out: Any) -> Any:
        """Whole rows of a weight or buffer from this one into `out`, for weights that are not in memory as f32."""
        self._copy("read", name, out, first_row, is_written=True)
        return out

    def write_rows(self, name: str, first_row: int, values: Any) -> None:
        self._copy("write", name, values, first_row)

    def _copy(self, verb: str, name: str, values: Any, first_row: int | None = None, *, is_written: bool = False) -> None:
        elements = elements_of(name, values, is_written=is_written)
        if elements.dtype != "f32":
            raise Error("bad_data", name, f"its elements are {elements.dtype}", "give float32")
        shape = self._shape(name)
        wanted = shape if first_row is None else (elements.shape[:1] + shape[1:])
        if len(elements.shape) > 1 and elements.shape != wanted:
            raise Error("bad_data", name, f"the array is {list(elements.shape)}, the tensor {list(wanted)}", "give one of its shape, or flat")
        data = Data()
        data.arrays, _kept = described({name: elements})
        data.array_count = 1
        do(self._handle, verb, {} if first_row is None else {".first_row": text_of("first_row", first_row)}, data)

    def view(self, name: str) -> Any:
        """The tensor's own elements as a read-only array, without a copy. They change with the session, and live as long as the array."""
        return self._place("view", name, is_bytes=False)

    def edit(self, name: str) -> Any:
        """The same to be written to, before the next call of the session: it takes no notice of a later change. What is written is
        not checked."""
        return self._place("edit", name, is_bytes=False)

    def view_bytes(self, name: str) -> Any:
        """The bytes of a tensor of any type."""
        return self._place("view", name, is_bytes=True)

    def edit_bytes(self, name: str) -> Any:
        return self._place("edit", name, is_bytes=True)

    def _place(self, verb: str, name: str, *, is_bytes: bool) -> Any:
        place = self._do(verb, name=name)
        if is_bytes:
            return array_at(place["address"], "u8", [place["bytes"]], self._handle, is_written=verb == "edit")
        if place["dtype"] != "f32":
            raise Error("bad_config", name, f"its elements are stored as {place['dtype']}",
                        "view_bytes and edit_bytes give them, read and write their values")
        return array_at(place["address"], "f32", place["shape"], self._handle, is_written=verb == "edit")

    def state_dict(self) -> dict[str, Any]:
        """Weights and buffers by name, as numpy arrays of their own."""
        return {tensor.name: self.read(tensor.name) for tensor in self._weights()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Writes all weights and buffers from arrays (numpy, PyTorch) of float32. Names that are missing or too many, and
        values that are not finite, are errors, by name, before anything is written."""
        if not isinstance(state, Mapping):
            raise TypeError(f"a state is {{name: array}}, not a {type(state).__name__}")
        import numpy

        weights = {tensor.name: tensor for tensor in self._weights()}
        missing, surplus = sorted(weights.keys() - state.keys()), sorted(map(str, state.keys() - weights.keys()))
        if missing or surplus:
            said = [f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("not the network's", surplus)) if names]
            raise Error("bad_data", "state", "; ".join(said), "give exactly the weights and buffers of tensors()")
        for name, tensor in weights.items():
            elements = elements_of(name, state[name])
            if elements.dtype != "f32" or elements.shape != tensor.shape:
                raise Error("bad_data", name, f"the array is {elements.dtype}{list(elements.shape)}, the tensor f32{list(tensor.shape)}")
            # Here, since write() would refuse it when others are written.
            values = numpy.asarray(elements.view)
            if not (numpy.isfinite(values.min()) and numpy.isfinite(values.max())):
                raise Error("numeric", name, "an element is not finite", "give weights that are: nothing was written")
        for name in weights:
            self.write(name, state[name])

    def _weights(self) -> list[TensorInfo]:
        return [tensor for tensor in self.tensors() if tensor.kind in ("parameter", "buffer")]

    def initialize(self, name: str) -> None:
        """Gives a weight or buffer its initial values."""
        self._do("initialize", name=name)

    def load_weights(self, config: Any = None, **keys: Any) -> None:
        """Fills the weights of a model_network's session from the model's folder (keys as of model_network)."""
        from ._config import options_of as config_options

        do(self._handle, "load_weights", config_options(config, keys))

    def find_not_finite(self) -> str:
        """Names the first value that is not finite; empty where all are."""
        return self._do("find_not_finite")

    def require_finite(self, where: str) -> None:
        self._do("require_finite", where=where)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """A folder that appears whole or not at all."""
        self._do("save", folder=folder)

    def measured_arena_bytes(self) -> int:
        """The arena's bytes that were really touched, as plan.arena_bytes counts them."""
        return self._do("measured_arena_bytes")

    def set_poisoning(self, is_on: bool) -> None:
        """For tests: from now on every byte that is dead before an op is NaN, and ops of your own run twice."""
        self._do("set_poisoning", is_on=is_on)


def tensor_infos(found: Sequence[Mapping[str, Any]]) -> list[TensorInfo]:
    return [TensorInfo(each["name"], tuple(each["shape"]), each["dtype"], each["kind"], each["is_trained"]) for each in found]
