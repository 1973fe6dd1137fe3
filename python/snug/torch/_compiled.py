# SPDX-License-Identifier: Apache-2.0
"""A graph for one set of shapes, op by op: its plan, and the two programs that run in the planned order."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.convert_frame import compile_lock  # tracing changes what the whole process has, and another thread may be at it
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._errors import DoesNotFit, Error
from ._calls import are_apart
from ._dropout import OWN_OPS, take_apart
from ._gradients import leave_larger_storages
from ._joint import NUMBER_HINT, Joint, Price, draws, list_forward_part, place_in
from ._marks import make_again
from ._masked import put_in_place
from ._memory import shown, shown_apart
from ._numbers import Numbers
from ._prices import Prices
from ._program import Program, Watch
from ._region import Allowance, RegionPlan, plan_region, refusal, retained_fits, warn_of_what_is_not_seen
from ._resident import parameters_of
from ._split import split

if TYPE_CHECKING:
    from ._backend import Backend

ONE_NUMBER = 16  # bytes at most: who has the loss of an earlier call needs no room
Held = tuple[StorageWeakRef, int]  # a storage, for as long as somebody has it, and its bytes


def held(tensor: torch.Tensor) -> Held:
    storage = tensor.untyped_storage()
    return StorageWeakRef(storage), storage.nbytes()


def leaves_of(args: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
    """Inputs on the device that nothing computes a gradient for, or where gradients end."""
    return [each for each in args if isinstance(each, torch.Tensor) and each.is_leaf and each.device.type == device.type]


def held_with_gradient(leaf: torch.Tensor) -> Held:
    storage, count = held(leaf)
    return storage, count + leaf.nbytes * (leaf.requires_grad or leaf.grad is not None)


def waiting_gradients(shared: Mapping[int, int]) -> int:
    """Bytes beside a backward part whose parameters have gradients of another already: these, and the largest of the sums, which autograd adds in place only where nobody else has them."""
    return sum(shared.values()) + max(shared.values(), default=0)


def there(storages: list[Held]) -> dict[int, int]:
    """Those that somebody has still; the others leave the list."""
    storages[:] = [each for each in storages if not each[0].expired()]
    return {storage.cdata: count for storage, count in storages}


def nothing_donated() -> contextlib.AbstractContextManager[Any]:
    """Nothing is written into what crosses, so it may be used again. PyTorch's switch for that (donated_buffer) is asked in each backward part, too, and so would have to stay off."""
    return mock.patch("torch._functorch._aot_autograd.graph_compile.collect_bw_donated_buffer_idxs", lambda *_: [])


@contextlib.contextmanager
def refused_by_name() -> Iterator[None]:
    """Of a graph that is traced: what its numbers decide, which PyTorch refuses by errors of its own."""
    try:
        yield
    except DataDependentOutputException as error:
        raise Error("unsupported", "graph", f"has a number of the host ({_op_and_place(error)})", NUMBER_HINT) from error
    except DynamicOutputShapeException as error:
        raise Error("unsupported", "graph", f"has an op whose result has as many rows as its numbers say ({_op_and_place(error)})",
                    "torch.where or a product with a mask in its place, also for x[mask, 3] = y and x[:, mask] = y, where the gradient of y has such rows; or capture_dynamic_output_shape_ops off and graphs=\"several\"") from error


def _op_and_place(error: Exception) -> str:
    return ", ".join([str(error).split("\n", 1)[0], *place_in(str(error))])


def refuse_wrapped(args: Sequence[Any]) -> None:
    """Tensors whose numbers lie in tensors of their own: what a graph gets are those, and in another order than its arguments."""
    for each in args:
        if isinstance(each, torch.Tensor) and each.is_nested:
            raise Error("unsupported", "inputs", "have a nested tensor, whose bytes lie in tensors of its own", "hand over its .values() and .offsets(), or rows that are padded")
        if is_traceable_wrapper_subclass(each):
            kind, what = type(each), "parameters" if isinstance(each, torch.nn.Parameter) else "inputs"
            hint = ".to_local() of it, or snug.torch.checkpoint, which counts this rank's part" if isinstance(getattr(each, "_local_tensor", None), torch.Tensor) else "plain tensors (.dequantize() where it has that)"
            raise Error("unsupported", what, f"have a {kind.__module__}.{kind.__qualname__} of shape {tuple(each.shape)}, whose bytes lie in tensors of its own", hint)


def device_of(args: Sequence[Any]) -> torch.device:
    devices = {each.device for each in args if isinstance(each, torch.Tensor) and each.dim()} or {each.device for each in args if isinstance(each, torch.Tensor)}
    if len(devices) > 1:
        raise Error("unsupported", "devices", f"are several: {', '.join(sorted(map(str, devices)))}", "put model and batch on one device")
    device = next(iter(devices), torch.device("cpu"))
    if device.type not in ("cpu", "cuda"):
        raise Error("unsupported", "device", f"is {device}", "one of cpu, cuda")
    return device


def joint_of(module: GraphModule, num_forward_outputs: int, prices: Prices, count: str) -> Joint:
    """The problem of a joint graph, which is made ready for it."""
    def price(node: Any) -> Price:
        found = prices.of(node)
        return found if count == "workspace" else found._replace(scratch=0)

    module.graph.eliminate_dead_code()
    leave_larger_storages(module.graph, num_forward_outputs)
    take_apart(module.graph)
    list_forward_part(module.graph, num_forward_outputs)
    make_again(module.graph, num_forward_outputs, lambda node: draws(node) or OWN_OPS.get(node.target, False))
    module.recompile()
    joint = Joint(module.graph, num_forward_outputs, price, holds_tangents=True, own_ops=OWN_OPS)
    prices.save()
    return joint


class Compiled:
    """A graph for one set of shapes: its plan, and the two programs."""

    def __init__(self, backend: Backend, module: GraphModule, args: Sequence[Any], share: Allowance | None = None, numbers: Numbers | None = None) -> None:
        """Raises Constant where one of the numbers has to be."""
        refuse_wrapped(args)
        put_in_place(module)
        backend.has_breaks |= getattr(getattr(module, "compile_subgraph_reason", None), "graph_break", False) or are_apart()
        self.backend = backend
        self.numbers = numbers or Numbers()
        self.plan: RegionPlan | None = None  # none of what only evaluates
        self.is_of_step = torch.is_grad_enabled()
        self.is_outdated = False  # ops have taken what the plan does not know
        self.has_run = False  # without one: in this step
        self.share = self.planned_share = share
        self.forward: Program | None = None
        self.backward: Program | None = None
        self.counted: set[str] = set()  # inputs of the backward part that ops of the forward part made
        self.leaves: list[list[Held]] = []  # inputs of calls, the first in `plan.resident`: what other graphs run beside
        self.trained: dict[int, int] = {}  # by storage: bytes of inputs that end where gradients do
        self.shared: dict[int, int] = {}  # those of them that graphs behind this one read as well, or this one at a later call of a step
        self.is_sure = False  # of what the plan has learned: a backward part ran while this graph's was still to come
        self.saved_inputs: list[int] = []  # places of inputs that the backward part reads
        self.num_results = 0
        self.made_results: list[int] = []  # places of results that ops made: others are resident, such as a buffer that is assigned to
        self.saved_places: list[int] = []  # and where they stand among the results of the forward part
        self.saved: list[Held] = []
        self.pending: list[list[Held]] = []  # of each forward part whose backward part has not run: what it hands to that, and its results
        self.results: list[Held] = []  # of the forward part
        self.returned: list[Held] = []  # the same of all calls, while somebody has them; none where a step has several graphs
        self._args: Sequence[Any] | None = args  # while it is compiled
        with refused_by_name(), compile_lock:
            self.run = self._compile(module, args)
        self._args = None
        backend.parts.append(self)

    @property
    def trains(self) -> bool:
        return self.plan is not None and self.plan.has_backward_part

    def __call__(self, args: Sequence[Any]) -> Any:
        if self.trains:
            self._check_grads(args)
        return self.run(*args)

    def waiting(self) -> dict[int, int]:
        """By storage: what the forward part has handed to a backward part that has not run."""
        return there(self.saved)

    def learn(self, later_bytes: int, also_read: Iterable[int]) -> None:
        """Of a graph that runs before this one's backward part does: inputs that were not known, and what of this one's parameters it reads."""
        assert self.plan is not None
        self.shared |= {key: self.trained[key] for key in also_read if key in self.trained}
        self.plan.learn(later_bytes, waiting_gradients(self.shared))

    def make_sure(self) -> None:
        """While a backward part runs. A step that is given up (a loss that is not finite) looks like one whose backward part is to come."""
        assert self.plan is not None
        self.is_sure = self.is_sure or (self.plan.has_learned and self.is_open())
        self.has_run = False

    def forget(self) -> None:
        assert self.plan is not None
        self.plan.forget()
        self.shared = {}

    def handed(self) -> dict[int, int]:
        """By storage: what forward parts have handed to backward parts that are to come, and to whoever called, as far as somebody still has it."""
        self.pending = [each for each in self.pending if there(each)]
        return {key: count for each in self.pending for key, count in there(each).items()}

    def is_pending(self) -> bool:
        """Whether a backward part is to come; not where nobody has anything of its forward part any more."""
        return bool(self.handed())

    def lies_there(self) -> list[list[Held]]:
        """What other graphs run beside, by call. Without a backward part, what it makes lies there as a batch does."""
        if self.trains:
            return self.leaves
        first, *more = self.leaves or [[]]
        return [first + self.results, *more]

    def is_open(self) -> bool:
        """Whether it has run in this step, as far as its backward part is to come; where it has none, until one of another graph runs."""
        return self.has_run or self.is_pending()

    def held_results(self) -> dict[int, int]:
        """By storage: results that are still there, numbers aside."""
        return {key: count for key, count in there(self.returned).items() if count > ONE_NUMBER}

    def share_of_call(self, args: Sequence[Any]) -> Allowance | None:
        """What this call is planned for: that of the step, or, once, what leaves room for what graphs behind this one read, or for results of
        earlier calls. Most loops have these until the next call has given others."""
        if self.plan is None or self.backend.graphs == "several":
            return self.share
        if self.plan.has_learned and not self.is_sure and not self.is_pending():
            self.forget()
        if self.is_sure and self.plan.learned is not None:
            return self.plan.learned
        if self.share is not None:
            return self.share
        waiting, results = self.backend.waiting(args), self.backend.held_results(args, self)
        if any(key not in results and count > ONE_NUMBER for key, count in waiting.items()) or self._needed_beside(sum(results.values())) <= self.backend.memory:
            return None
        return replace(self.plan.known_allowance, waiting_bytes=sum(results.values()))

    # --- while it is compiled

    def allowance(self) -> Allowance:
        """Of a graph that has no share of the memory yet: what is there now."""
        assert self._args is not None
        if self.share is None and self.backend.graphs == "several":
            self.backend.is_learning = True
        return self.share or Allowance(waiting_bytes=sum(self.backend.handed(self._args).values()), inputs_of_others=self.backend.inputs_of_others(self._args))

    def _compile(self, module: GraphModule, args: Sequence[Any]) -> Callable[..., Any]:
        compiler = aot_autograd(fw_compiler=self._compile_forward, bw_compiler=self._compile_backward, inference_compiler=self._compile_inference,
                                partition_fn=self._partition, keep_inference_input_mutations=True)
        with nothing_donated():
            if not self.numbers.free:
                return compiler(module, list(args))
            with self.numbers.traced(args) as given:
                return compiler(module, given)

    def _partition(self, module: GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **more: Any) -> tuple[GraphModule, GraphModule]:
        joint = self._joint(module, num_fwd_outputs)
        warn_of_what_is_not_seen(self.backend, joint, self._args or ())
        forward, backward, saved = self._planned(module, joint)
        self.counted = {node.name for node in saved if joint.base_of(joint.names[node][0]) not in joint.resident}
        self._note_saved_inputs(joint, {node.name for node in saved})
        self.saved_places = [num_fwd_outputs + i for i, node in enumerate(saved) if node.name in self.counted]
        return forward, backward

    def _joint(self, module: GraphModule, num_forward_outputs: int) -> Joint:
        assert self._args is not None
        self.device = device_of(self._args)
        return joint_of(module, num_forward_outputs, self.backend.prices(self.device), self.backend.count)

    def _planned(self, module: GraphModule, joint: Joint) -> tuple[GraphModule, GraphModule, list[Node]]:
        assert self._args is not None
        allowance = self.allowance()
        self.plan = plan_region(self.backend, joint, self._args, self.device, allowance, hands_least=self.backend.is_learning and self.share is None)
        self.num_results = len(joint.forward_outputs)
        self.made_results = [i for i, node in enumerate(joint.forward_outputs) if isinstance(node, Node) and any(joint.base_of(name) not in joint.resident for name in joint.names[node])]
        report = self.plan.report
        return split(module, joint, report["schedule"], report["boundary_step"], report["crossing"])

    def _note_saved_inputs(self, joint: Joint, saved: set[str]) -> None:
        """`saved`: names of what crosses."""
        inputs = [node for node in joint.graph.nodes if node.op == "placeholder" and node not in joint.tangents]
        self.saved_inputs = [i for i, node in enumerate(inputs) if node.name in saved]

    def _compile_forward(self, module: GraphModule, _: Any) -> Any:
        self.forward = Program(module)
        return boxed(self._run_forward)

    def _compile_backward(self, module: GraphModule, _: Any) -> Any:
        self.backward = Program(module)
        return boxed(self._run_backward)

    def _compile_inference(self, module: GraphModule, _: Any) -> Any:
        """What computes no gradient: it only evaluates, or has what other graphs of a step read (a frozen encoder), and is planned beside them."""
        if not self.is_of_step:
            return boxed(Program(module))
        self.forward = Program(self._planned(module, self._joint(module, num_outputs(module)))[0])
        return boxed(self._run_forward)

    # --- while it runs

    def _check_grads(self, args: Sequence[Any]) -> None:
        if self.backend.grads != "none" or self.backend.waiting_bytes():
            return
        for each in (*args, *parameters_of(self.backend.optimizer)):
            if isinstance(each, torch.Tensor) and each.is_leaf and each.requires_grad and each.grad is not None:
                raise Error("out_of_budget", "grads", 'is "none", but a parameter has a gradient when the forward part begins',
                            'call optimizer.zero_grad(set_to_none=True) before, or plan with grads="accumulate"')

    def _needed_beside(self, waiting: int) -> int:
        assert self.plan is not None
        return self.plan.forward_peak_bytes - self.plan.allowance.waiting_bytes + waiting

    def _check_room(self, args: Sequence[Any]) -> None:
        """Before the forward part: beside what earlier ones keep."""
        assert self.plan is not None
        kept = self.backend.waiting(args)
        waiting = sum((kept | self.backend.held_results(args, self)).values())
        needed = self._needed_beside(waiting)
        if self.backend.graphs == "several" and not self.backend.is_learning:  # other shapes of the graphs before may keep more than this plan has room for
            needed = max(needed, self.plan.backward_peak_bytes - self.plan.allowance.waiting_bytes + sum(kept.values()))
        if needed > self.backend.memory:
            hint = "call backward first, or let go of the earlier result"
            if self.backend.graphs == "one":
                hint += '; where one step has several graphs, plan with graphs="several"'
            raise DoesNotFit("out_of_budget", "memory", f"{shown(self.backend.memory)} does not hold this forward part, which takes {shown(needed)} with the {shown(waiting)} that "
                             "earlier ones keep for backward parts that have not run, or that whoever called them still has", hint)

    def _kept_inputs(self, args: Sequence[Any]) -> list[Held]:
        """Of what is kept for the backward part, what other graphs made. Blocks that are alike have one graph: what the first of them reads may be a batch,
        which stays, and what the others read is made by it."""
        assert self.plan is not None
        kept = [held(args[i]) for i in self.saved_inputs if isinstance(args[i], torch.Tensor) and not args[i].is_leaf]
        self.plan.kept_input_bytes = max(self.plan.kept_input_bytes, sum(count for _, count in kept))
        return kept

    def _note_inputs(self, args: Sequence[Any]) -> None:
        """At the first run, and while the step's graphs are not all known: what others of them run beside, and what others have made."""
        assert self.plan is not None
        is_first, is_again = self.plan.measured_forward_bytes is None, self.is_pending()
        if self.backend.is_learning:
            results = self.backend.result_bytes(args)
            known = self.plan.result_input_bytes
            self.plan.result_input_bytes = results if known is None else min(known, results)
        if not (is_first or is_again or self.backend.is_learning):
            return
        leaves = leaves_of(args, self.device)
        if is_first or self.backend.is_learning:
            made = self.backend.handed()
            self.leaves.append([held_with_gradient(each) for each in leaves if each.untyped_storage()._cdata not in made])
        if not (is_first or is_again):
            return
        trained = {each.untyped_storage()._cdata: each.nbytes for each in leaves if each.requires_grad}
        if is_first:
            self.trained = trained
        if self.backend.graphs == "one":
            self.backend.tell_earlier(self, trained, is_first and self.planned_share is None)

    def _run_forward(self, args: list[Any]) -> Any:
        assert self.plan is not None and self.forward is not None
        self._check_room(args)
        handed_on = self._kept_inputs(args)
        self._note_inputs(args)
        if self.plan.measured_forward_bytes is None:
            watch = self._watch()
            results = self.forward.watched(args, watch, set())
            self._learn_prices(watch)
            self.plan.measure_forward(watch.peak, is_outdated=self.is_outdated)
        else:
            results = self.forward(args)
        self._note_forward(handed_on + [held(results[place]) for place in self.saved_places], [results[i] for i in self.made_results])
        return results

    def _note_forward(self, saved: list[Held], made: Sequence[torch.Tensor]) -> None:
        """What the forward part has handed to the backward part, and made for who called."""
        self.saved += saved
        self.results = [held(each) for each in made]
        if self.trains:
            self.pending.append(saved + self.results)
        else:
            self.has_run = True
        if self.backend.graphs == "one":
            self.returned += self.results
        else:
            self.backend.note(self)

    def _run_backward(self, args: list[Any]) -> Any:
        assert self.plan is not None and self.backward is not None
        del self.pending[-1:]  # none where it runs again, with retain_graph=True
        self.backend.make_sure()
        if self._is_retained(args) or self.plan.measured_backward_bytes is not None:
            return self.backward(args)
        watch = self._watch()
        for each in self.results:
            watch.add_held(*each)
        results = self.backward.watched(args, watch, self.counted)
        self._learn_prices(watch)
        self.plan.measure_backward(watch.peak, is_outdated=self.is_outdated)
        return results

    def _watch(self) -> Watch:
        return Watch(self.backend.prices(self.device), counts_scratch=self.backend.count == "workspace")

    def _learn_prices(self, watch: Watch) -> None:
        """Of ops that do not run on made-up operands."""
        self.backend.prices(self.device).save()
        self.is_outdated |= watch.is_plan_outdated

    def _is_retained(self, args: Sequence[Any]) -> bool:
        """Whether what crosses stays behind the backward part that begins, as retain_graph=True wants.

        Raises DoesNotFit where it does, and the memory does not hold that.
        """
        assert self.plan is not None
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            return False
        # What graphs behind this one have kept stays as well.
        counted = {storage.cdata for storage, _ in self.results} if self.backend.graphs == "one" else set()
        beside = sum(count for key, count in self.backend.handed(args).items() if key not in counted)
        needed = self.plan.retained_peak_bytes - self.plan.allowance.waiting_bytes + beside
        if needed > self.backend.memory:
            raise self._refusal_of_retained(needed)
        return True

    def _refusal_of_retained(self, needed: int) -> DoesNotFit:
        assert self.plan is not None
        given, taken = shown_apart(self.backend.memory, needed)
        message = f"{given} does not hold a backward part with retain_graph=True, which takes {taken}"
        if self.backend.graphs == "several":
            return DoesNotFit("out_of_budget", "memory", message, "call backward once, on the sum of the losses, or give more memory: it is divided among all graphs of the step")
        fits = max(needed, retained_fits(self.plan))
        return refusal(fits, message, f"call backward once, on the sum of the losses, or memory={fits}, which holds all that is kept to the end")


def num_outputs(module: GraphModule) -> int:
    return len(torch.utils._pytree.tree_leaves(module.graph.output_node().args[0], is_leaf=lambda each: each is None))


def boxed(run: Callable[[list[Any]], Any]) -> Any:
    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
