"""Wrong uses of networks and sessions in Python: each is one clear exception, none a crash, and the session works on."""
import copy
import ctypes
import functools
import gc
import mmap
import os
import pickle
import sys
import threading
import unittest

import numpy as np
import snug
from snug import layers, ops, recompute
from snug.layers import linear, mean_squared_error

ROWS, WIDTH = 6, 4
OPTIONS = dict(batch_rows=ROWS, memory="16MiB", threads=1)
INF, NAN = float("inf"), float("nan")


@snug.network
def small(b):
    y = linear("out", b.input("x", [WIDTH]), 1)
    b.output("y", y)
    b.minimize(mean_squared_error(y, b.input("t", [1])))


def rows():
    return {"x": np.full((ROWS, WIDTH), 0.5, np.float32), "t": np.ones((ROWS, 1), np.float32)}


def with_x(x):
    return {**rows(), "x": x}


class Misuse(unittest.TestCase):
    cases = 0

    def refuse(self, cases):
        """Each case: the exception's kind or an error's code, a part of its text, the work."""
        Misuse.cases += len(cases)
        for kind, part, work in cases:
            with self.subTest(part):
                with self.assertRaises(snug.Error if isinstance(kind, str) else kind) as caught:
                    work()
                if isinstance(kind, str):
                    self.assertEqual(caught.exception.code, kind, caught.exception)
                    self.assertIs(type(pickle.loads(pickle.dumps(caught.exception))), type(caught.exception))
                self.assertIn(part, str(caught.exception))

    def test_networks_that_are_none(self):
        def network(build):
            return lambda: snug.plan_network(snug.Network("wrong", build), **OPTIONS)

        def used(*work):
            """The network with one thing more."""
            def build(b):
                x = b.input("x", [WIDTH])
                for each in work:
                    each(b, x)
                b.minimize(b.weighted_mean(linear("out", x, 1)))
            return network(build)

        left = []
        other = snug.Network("other", lambda b: (left.append(b.input("x", [WIDTH])), b.minimize(b.weighted_mean(linear("o", left[-1], 1)))))
        snug.plan_network(other, **OPTIONS)
        self.refuse([
            (TypeError, "a function", lambda: snug.network(3)), (TypeError, "a function", lambda: snug.Network("x", None)),
            (TypeError, "not of a dict", lambda: snug.Session({}, **OPTIONS)), (TypeError, "not of a function", lambda: snug.Session(lambda b: None)),
            (TypeError, "snug.Op", lambda: snug.Network("x", print, ops=[print])), ("bad_config", "zero byte", lambda: snug.Network("a\0b", print)),
            ("invalid_graph", "", network(lambda b: None)), ("invalid_graph", "has returned", lambda: ops.relu(left[0])),
            ("invalid_graph", "has returned", lambda: left[0].shape), ("invalid_graph", "another building", used(lambda b, x: ops.relu(x) + left[0])),
            (TypeError, "has no truth value", used(lambda b, x: x if x else x)), (TypeError, "has no truth value", used(lambda b, x: x > 0 and x < 1)),
            (TypeError, "has no elements", used(lambda b, x: list(x))), (TypeError, "not subscriptable", used(lambda b, x: x[0])),
            (TypeError, "unsupported operand", used(lambda b, x: x + "1")), (TypeError, "does not support ufuncs", used(lambda b, x: x + np.ones(4))),
            (TypeError, "unsupported operand", used(lambda b, x: None * x)), (TypeError, "unsupported operand", used(lambda b, x: x @ 3)),
            (TypeError, "not supported", used(lambda b, x: x < "1")), (TypeError, "snug.Tensor", used(lambda b, x: ops.relu(3))),
            (TypeError, "snug.Tensor", used(lambda b, x: ops.matmul(x, np.ones((4, 4))))), (TypeError, "snug.Tensor", used(lambda b, x: ops.concat([], 1))),
            (TypeError, "snug.Tensor", used(lambda b, x: b.minimize(0.5))), (TypeError, "snug.Tensor", used(lambda b, x: b.output("o", [x]))),
            ("shape_mismatch", "", used(lambda b, x: x + b.fill(1, [WIDTH + 1]))), ("shape_mismatch", "", used(lambda b, x: ops.reshape(x, [b.rows, 3]))),
            ("shape_mismatch", "", used(lambda b, x: ops.transpose(x, [0, 0]))), ("shape_mismatch", "", used(lambda b, x: ops.slice(x, 1, 3, 9))),
            ("shape_mismatch", "", used(lambda b, x: ops.softmax(x, 7))), ("shape_mismatch", "", used(lambda b, x: x @ x)),
            ("shape_mismatch", "", used(lambda b, x: ops.reduce_sum(x, [2]))), (IndexError, "out of range", used(lambda b, x: x.dim(5))),
            ("invalid_graph", "2.5 is compared", used(lambda b, x: ops.cast(x, "i32") < 2.5)), ("invalid_graph", "16777217 is compared", used(lambda b, x: 16777217 == ops.cast(x, "i32"))),
            ("invalid_graph", "compared", used(lambda b, x: ops.cast(x, "i32") == 2 ** 31)), ("invalid_graph", "inf is compared", used(lambda b, x: ops.cast(x, "i32") > -INF)),
            ("invalid_graph", "nan is compared", used(lambda b, x: ops.cast(x, "i32") == NAN)), ("invalid_graph", "1.5 is compared", used(lambda b, x: ops.where(x > 0, ops.cast(x, "i32"), 1.5))),
            ("invalid_graph", "give true or false", used(lambda b, x: ops.where(x > 0, x > 1, 2))),
            (TypeError, "not a ndarray", used(lambda b, x: ops.where(x > 0, x, np.ones(4)))), (TypeError, "not a str", used(lambda b, x: ops.where(x > 0, "1", x))),
            (TypeError, "not a NoneType", used(lambda b, x: ops.less(x, None))), ("invalid_graph", "rate inf", used(lambda b, x: ops.dropout(x, np.longdouble("inf")))),
            ("invalid_graph", "'axes' has 1.5", used(lambda b, x: ops.reduce_sum(x, [1.5]))), ("invalid_graph", "'axis' is \"1\"", used(lambda b, x: ops.softmax(x, "1"))),
            ("invalid_graph", "'rate' is \"0.1\"", used(lambda b, x: ops.dropout(x, "0.1"))), ("shape_mismatch", "rate must be", used(lambda b, x: ops.dropout(x, 1.5))),
            ("invalid_graph", "rate nan", used(lambda b, x: ops.dropout(x, NAN))), ("invalid_graph", "inf is not finite", used(lambda b, x: b.fill(INF, [2]))),
            (TypeError, "no attribute", used(lambda b, x: ops.dropout(x, {1, 2}))), (TypeError, "give [3]", used(lambda b, x: ops.reshape(x, 3))),
            ("invalid_graph", "no type of elements", used(lambda b, x: ops.cast(x, "f99"))), (TypeError, "a type of elements", used(lambda b, x: ops.cast(x, 3))),
            ("invalid_graph", "i64", used(lambda b, x: b.input("y", [2], "i64"))), ("invalid_graph", "no type of elements", used(lambda b, x: b.input("y", [2], np.float64))),
            ("invalid_graph", "cannot be", used(lambda b, x: b.input("y", [0]))), ("invalid_graph", "cannot be", used(lambda b, x: b.input("y", [-1]))),
            ("invalid_graph", "no size", used(lambda b, x: b.input("y", ["2"]))), ("invalid_graph", "no size", used(lambda b, x: b.input("y", [2.5]))),
            ("invalid_graph", "needs a name", used(lambda b, x: b.input("", [2]))), ("invalid_graph", "'name' is 3", used(lambda b, x: b.input(3, [2]))),
            ("invalid_graph", "taken by training", used(lambda b, x: b.input("loss", [2]))),
            ("invalid_graph", "", used(lambda b, x: b.input("x", [WIDTH + 1]))), (TypeError, "snug.InitRule", used(lambda b, x: b.parameter("p", [2], 0.1))),
            ("invalid_graph", "no initial value", used(lambda b, x: b.parameter("p", [2], snug.InitRule.normal(-1)))),
            ("invalid_graph", "a number is not finite", used(lambda b, x: b.parameter("p", [2], snug.InitRule.normal(NAN)))),
            ("invalid_graph", "no initial value", used(lambda b, x: b.parameter("p", [2], snug.InitRule(constant=1e39)))),
            ("invalid_graph", "no row 2", used(lambda b, x: b.parameter("p", [2], snug.InitRule(deviation=1, zero_row=2)))),
            ("invalid_graph", "a file of weights", used(lambda b, x: b.parameter("__metadata__", [2], snug.InitRule.ones()))),
            ("invalid_graph", "more than f32 holds", used(lambda b, x: x * 1e39)), ("invalid_graph", "more than f32 holds", used(lambda b, x: b.fill(1e39, [2]))),
            ("invalid_graph", "out.weight", used(lambda b, x: linear("out", x, 2))), ("invalid_graph", "needs a name", used(lambda b, x: linear("", x, 2))),
            ("invalid_graph", "cannot be", used(lambda b, x: linear("w", x, 0))), ("invalid_graph", "'out_features' is 2.5", used(lambda b, x: linear("w", x, 2.5))),
            ("invalid_graph", "cannot be", used(lambda b, x: linear("w", x, 1 << 40))), (TypeError, "positional argument", used(lambda b, x: linear("w", x))),
            ("invalid_graph", "twice", used(lambda b, x: b.minimize(b.weighted_mean(x)))), ("invalid_graph", "must be (rows, ...)", used(lambda b, x: b.output("o", b.fill(1, [])))),
            ("invalid_graph", "is not computed", used(lambda b, x: b.output("o", x))), ("invalid_graph", "needs a reason", used(lambda b, x: b.couples_rows(""))),
            ("invalid_graph", "needs a reason", used(lambda b, x: b.counts_padding(""))), ("invalid_graph", "no length is called", used(lambda b, x: b.length("words"))),
            ("invalid_graph", "no_such", used(lambda b, x: b.op("no_such", [x]))), ("invalid_graph", "", used(lambda b, x: b.op("relu", [x, x]))),
            ("invalid_graph", "no such call", used(lambda b, x: b._call("no_such"))), ("invalid_graph", "it has no 'speed'", used(lambda b, x: b._call("relu", [x], speed=1))),
            ("invalid_graph", "operands", used(lambda b, x: b._call("relu", [x, x]))), ("invalid_graph", "is not given", used(lambda b, x: b._call("add", [x]))),
            ("invalid_graph", "no scope is open", used(lambda b, x: b._call("end_scope"))), ("invalid_graph", "no checkpointed part", used(lambda b, x: b._call("end_part"))),
            ("invalid_graph", "is not ended", used(lambda b, x: b._call("begin_scope", name="left"))), ("invalid_graph", "is not ended", used(lambda b, x: b._call("begin_part"))),
            ("invalid_graph", "weights of a mean", used(lambda b, x: b.weighted_mean(x, ops.relu(x)))), ("invalid_graph", "labels", used(lambda b, x: layers.cross_entropy(x, x))),
            ("invalid_graph", "segments", used(lambda b, x: recompute.checkpoint_sequential([ops.relu], 2, x))), ("invalid_graph", "a name is empty", used(lambda b, x: recompute.named("", ops.relu(x)))),
            (ZeroDivisionError, "division", used(lambda b, x: 1 / 0)), (StopIteration, "", used(lambda b, x: next(iter(())))), (SystemExit, "3", used(lambda b, x: sys.exit(3))),
        ])

    def test_options_that_are_none(self):
        def session(**options):
            return lambda: snug.Session(small, **{**OPTIONS, **options})

        plan = snug.SessionPlan(small, **OPTIONS)
        self.refuse([
            ("bad_config", "no such option", session(learning_rat=1)), ("bad_config", "no whole number", session(batch_rows="many")), ("bad_config", "no whole number", session(batch_rows=2.5)),
            ("bad_config", "no whole number", session(batch_rows=True)), ("bad_config", "batch_rows", session(batch_rows=0)), ("bad_config", "batch_rows", session(batch_rows=-3)),
            ("bad_config", "batch_rows", session(batch_rows=1 << 40)), ("bad_config", "no whole number", session(batch_rows=1 << 70)), ("bad_config", "memory", session(memory="much")),
            ("bad_config", "memory", session(memory=[])), ("bad_config", "memory", session(memory="0")), ("out_of_budget", "smallest budget", session(memory=4096)), ("out_of_budget", "smallest budget", session(memory=1)),
            ("bad_config", "no number", session(learning_rate="fast")), ("bad_config", "learning_rate", session(learning_rate=-1)), ("bad_config", "learning_rate", session(learning_rate=NAN)),
            ("bad_config", "weight_decay", session(weight_decay=INF)), ("bad_config", "neither true nor false", session(bf16=1)), ("bad_config", "neither true nor false", session(wants_picture="no")), ("bad_config", "optim", session(optim="adamx")),
            ("bad_config", "optim", session(optim=3)), ("bad_config", "has no names", session(optim_args=["a"])), ("bad_config", "no number", session(optim_args={"beta1": "x"})),
            ("bad_config", "beta", session(optim_args={"beta9": 1})), ("bad_config", "lr_scheduler_type", session(lr_scheduler_type="zigzag")), ("bad_config", "param_groups", session(param_groups=[3])),
            ("bad_config", "freeze", session(freeze=["nothing.*"])), ("bad_config", "lora", session(lora={"rank": 3})), ("bad_config", "lengths", session(lengths=["long"])),
            ("bad_config", "lengths", session(lengths=[0])), (TypeError, "not iterable", session(lengths=3)), ("bad_config", "no JSON", session(lora={"match": {1, 2}})),
            ("bad_config", "no JSON", session(optim_args={"beta1": 1j})), ("bad_config", "draw_numbering", session(draw_numbering="dice")),
            ("bad_config", "recompute", session(recompute="never")), ("bad_config", "micro_batch_size", session(micro_batch_size=ROWS + 1)), ("bad_config", "seed", session(seed=-1)),
            ("bad_config", "threads", session(threads=-1)), ("bad_config", "takes no object", session(seed=object())), ("bad_config", "loss_scale", session(loss_scale="often")),
            ("bad_config", "takes no complex", session(seed=1j)), ("bad_config", "zero byte", session(optim="sg\0d")),
            ("io", "no_such_plan", session(plan_file="/no_such_plan")), (TypeError, "snug.Cancel", session(cancel=threading.Event())), (TypeError, "snug.Machine", session(machine=2)),
            ("bad_config", "not within", lambda: snug.Machine(threads=-1)), ("bad_config", "not within", lambda: snug.Machine(threads=1025)),
            (TypeError, "", session(block=3)), ("bad_data", "read-only", session(block=b"1234")), ("bad_data", "is empty", session(block=bytearray())),
            ("bad_data", "in a row", session(block=np.zeros((4096, 2), np.uint8)[:, 0])), ("out_of_budget", "has 100 bytes", session(block=bytearray(100))),
            (TypeError, "not callable", session(on_planning=3)), ("bad_config", "has the plan's options", lambda: snug.Session(plan, batch_rows=3)),
            ("bad_data", "no complete saved session", lambda: snug.Session.resume(small, "/no_such_folder", **OPTIONS)), (TypeError, "missing", lambda: snug.Session.resume(small)),
            ("bad_config", "no lever", lambda: snug.plan_levers(small, ["bf61"], **OPTIONS)), ("bad_config", "no text", lambda: snug.plan_levers(small, [3], **OPTIONS)),
            ("bad_config", "no_such", lambda: snug.gradients(small, ["no_such"], **OPTIONS)), ("bad_config", "checkpoints", lambda: snug.gradients(small, [], "often", **OPTIONS)),
            ("bad_config", "neither true nor false", lambda: snug.explain_network(small, stages="no", **OPTIONS)),
            ("bad_config", "checkpoints", lambda: snug.gradients(small, [], [], **OPTIONS)), ("bad_config", "", lambda: snug.every_combination({"a": []})),
            ("bad_config", "no batch", lambda: snug.splits_of(0)), ("bad_config", "no batch", lambda: snug.splits_of(np.int64(-2))),
            ("bad_config", "no batch", lambda: snug.splits_of(1 << 62)), ("bad_config", "no batch", lambda: snug.splits_of("0")), ("bad_config", "no batch", lambda: snug.splits_of(2.5)),
            ("bad_config", "no length", lambda: snug.every_combination({"a": ["b"]})), ("bad_config", "model", lambda: snug.model_network(model="bert-tny")),
            (TypeError, "not a NoneType", lambda: snug.every_combination(None)),
            ("bad_config", "is no length", lambda: plan.summands("long")), (AttributeError, "no 'speed'", lambda: plan.report.speed), ("io", "", lambda: plan.save("/no/such/folder/plan")),
            ("unsupported", "is not written", lambda: snug.Session(small, **OPTIONS).plan.save("plan")),
        ])

    def test_objects_of_the_library_are_not_copied(self):
        plan = snug.SessionPlan(small, **OPTIONS)
        self.refuse([(TypeError, "neither copied nor pickled", lambda each=each, work=work: work(each))
                     for each in (snug.Cancel(), snug.Machine(threads=1), plan, {"cancel": snug.Cancel()}) for work in (copy.deepcopy, pickle.dumps)])
        self.assertIs(copy.copy(plan)._handle, plan._handle)

    def test_rows_and_arrays_that_are_none(self):
        session = snug.Session(small, **OPTIONS)
        before = session.state_dict()
        good = rows()["x"]

        def step(given, **options):
            return lambda: session.step(given, **options)

        class NoRows(snug.RowSource):
            pass

        class Some(snug.RowSource):
            rows = ROWS

            def __init__(self, columns=None, length=None, rows=ROWS, fill=None, total_weights={}):
                self.__dict__.update(_columns=columns, _length=length, rows=rows, _fill=fill, _total_weights=total_weights)

            columns = property(lambda self: self._columns)
            length = property(lambda self: self._length)
            total_weights = property(lambda self: self._total_weights)

            def fill(self, slot):
                slot.values[...] = 1
                if self._fill:
                    self._fill(slot)

        class Silent(Some):
            """Writes what `_written` says of a slot."""
            _written = 0

            def fill(self, slot):
                slot.values[: self._written] = 1

        self.refuse([
            ("bad_data", "cannot be read", step(with_x(np.zeros((ROWS, WIDTH), "M8[s]")))), ("bad_data", "masked", step(with_x(np.ma.masked_less(good, 1)))),
            ("bad_data", "masked", lambda: session.write("out.weight", np.ma.masked_less(np.ones((1, WIDTH), np.float32), 2))),
            ("bad_data", "there are none", step({name: value[:0] for name, value in rows().items()})),
            (TypeError, "not a list", lambda: session.load_state_dict([good])), ("bad_data", "not the network's: 3", lambda: session.load_state_dict({**before, 3: good})),
            ("bad_data", "there are none", step({})), (TypeError, "snug.RowSource", step(None)), (TypeError, "snug.RowSource", step([good])), (TypeError, "snug.RowSource", step(good)),
            ("bad_data", "t", step({"x": good})), ("bad_data", "y", step({**rows(), "y": good})), ("bad_data", "float64", step(with_x(good.astype(float)))),
            ("bad_data", "float16", step(with_x(good.astype(np.float16)))), ("bad_data", "int64", step(with_x(good.astype(int)))), ("bad_data", "the input is f32", step(with_x(good.astype(np.int32)))),
            ("bad_data", "float32, int32 or bool", step(with_x(good.astype(">f4")))), ("bad_data", "float32, int32 or bool", step(with_x(good.astype(complex)))),
            ("bad_data", "order of other machines", step(with_x(good.astype(">f4")))), ("bad_data", "newbyteorder", step(with_x((ctypes.c_float.__ctype_be__ * WIDTH * ROWS)()))),
            ("bad_data", "multiples of their size", step(with_x(np.frombuffer(b"0" + good.tobytes(), np.float32, offset=1).reshape(ROWS, WIDTH)))),
            ("bad_data", "multiples of their size", step(with_x(memoryview(bytearray(1 + good.nbytes))[1:].cast("f", (ROWS, WIDTH))))),
            (TypeError, "not a bool", step(rows(), learning_rate=True)), ("bad_config", "neither true nor false", step(rows(), is_skipped="no")),
            ("bad_data", "float32, int32 or bool", step(with_x(np.full((ROWS, WIDTH), "x")))), (Exception, "", step(with_x(np.full((ROWS, WIDTH), None)))),
            ("bad_data", "do not lie in a row", step(with_x(np.asfortranarray(good)))), ("bad_data", "do not lie in a row", step(with_x(np.ones((2 * ROWS, WIDTH), np.float32)[::2]))),
            ("bad_data", "do not lie in a row", step(with_x(good[::-1]))), ("bad_data", "do not lie in a row", step(with_x(np.broadcast_to(np.float32(1), (ROWS, WIDTH))))),
            ("bad_data", "the input takes", step(with_x(np.ones((ROWS, WIDTH + 1), np.float32)))), ("bad_data", "the input takes", step(with_x(np.ones((ROWS, 2, 2), np.float32)))),
            ("bad_data", "the input takes", step({**rows(), "t": np.ones(ROWS, np.float32)})), ("bad_data", "not of 6 rows", step({**rows(), "t": np.ones((ROWS - 1, 1), np.float32)})),
            ("bad_data", "more than the batch", step({name: np.repeat(each, 2, 0) for name, each in rows().items()})), ("bad_data", "", step({name: each[:0] for name, each in rows().items()})),
            ("bad_data", "there are none", step({"x": np.float32(1)})), ("bad_data", "not of 6 rows", step({**rows(), "t": np.float32(1)})), (TypeError, "no elements", step(with_x([[1.0]]))),
            (TypeError, "no elements", step(with_x(3))), (TypeError, "no elements", step(with_x(None))), (TypeError, "no elements", step(with_x("text"))), ("bad_data", "float32, int32 or bool", step(with_x(np.zeros((ROWS, WIDTH), "i2")))),
            ("bad_config", "3 is no text", step({3: good})), ("bad_config", "zero byte", step({**rows(), "a\0": good})), ("bad_data", "the programs have none", step(rows(), length=4)),
            ("bad_data", "words", step(rows(), length={"words": 4})), ("bad_config", "no length", step(rows(), length=-1)),
            ("bad_config", "no length", step(rows(), length="x")), ("bad_config", "no JSON", step(rows(), length=object())), ("bad_config", "learning_rate", step(rows(), learning_rate=-1)),
            ("bad_config", "learning_rate", step(rows(), learning_rate=NAN)), (TypeError, "learning_rate is a number", step(rows(), learning_rate="fast")), (TypeError, "learning_rate is a number", step(rows(), learning_rate=[])),
            ("bad_config", "only_gradients", lambda: session.gradients(rows())), (TypeError, "not callable", lambda: session.evaluate(rows(), 3)), (TypeError, "not callable", lambda: session.predict(rows(), 3)),
            *[("bad_data", "weighs no mean", step(Some(total_weights={name: 6.0}))) for name in ("weight", "x")], (NotImplementedError, "rows", step(NoRows())), ("bad_data", "t", step(Some(columns=["x"]))), ("bad_data", "y", step(Some(columns=["x", "t", "y"]))), ("bad_data", "", step(Some(rows=0))),
            ("bad_data", "", step(Some(rows=-1))), (TypeError, "", step(Some(rows="six"))), ("bad_data", "the programs have none", step(Some(length=3))), ("bad_data", "says how long", step(Some(), length=3)), ("bad_config", "3 is no text", step(Some(columns=[3]))),
            ("bad_data", "from 1 to 2^63 - 1", step(Some(rows=2**70))), ("bad_data", "[x] row 0 (from 0) was not written", step(Silent())), ("bad_data", "[x] row 2 (from 0) was not written", step(type("Part", (Silent,), {"_written": 2})())),
            (ValueError, "could not broadcast", step(Some(fill=lambda slot: slot.values.__setitem__(..., np.ones((2, 9)))))), (RecursionError, "", step(Some(fill=lambda slot: (lambda f: f(f))(lambda f: f(f))))),
            ("bad_config", "no tensor", lambda: session.read("no.such")), ("bad_config", "no tensor", lambda: session.view("no.such")), ("bad_config", "no tensor", lambda: session.write("no", good)),
            ("bad_config", "no tensor", lambda: session.initialize("no")), ("bad_config", "no tensor", lambda: session.read(3)),
            ("bad_data", "float32", lambda: session.read("out.bias", np.empty(1))), ("bad_config", "elements are given", lambda: session.read("out.weight", np.empty(3, np.float32))),
            ("bad_data", "read-only", lambda: session.read("out.weight", session.view("out.weight"))), ("bad_data", "the tensor [1, 4]", lambda: session.read("out.weight", np.empty((4, 1), np.float32))),
            ("bad_data", "give float32", lambda: session.write("out.bias", np.ones(1, np.int32))), ("numeric", "not finite", lambda: session.write("out.bias", np.array([NAN], np.float32))),
            (TypeError, "no elements", lambda: session.write("out.bias", [1.0])), (TypeError, "no elements", lambda: session.write("out.bias", 1.0)), ("bad_config", "no rows of a weight", lambda: session.write_rows("out.weight", 1, np.ones((1, 4), np.float32))),
            ("bad_config", "no rows of a weight", lambda: session.write_rows("out.weight", -1, np.ones((1, 4), np.float32))), ("bad_config", "no whole number", lambda: session.read_rows("out.weight", 0.5, np.empty(4, np.float32))),
            (ValueError, "read-only", lambda: session.view("out.weight").__setitem__(0, 1)), ("bad_data", "missing", lambda: session.load_state_dict({})), ("bad_data", "out.bias", lambda: session.load_state_dict({"out.weight": good})),
            (TypeError, "not a NoneType", lambda: session.load_state_dict(None)), ("bad_config", "", lambda: session.set_counts(1, 2, 3)), ("bad_config", "no whole number", lambda: session.set_counts(1.5, 1, 1)),
            ("bad_config", "never changes", lambda: session.set_loss_scale(8)), ("io", "", lambda: session.save("/proc/no")), ("bad_config", "takes no object", lambda: session.save(object())),
            ("bad_config", "no such verb", lambda: session._do("dance")), ("bad_config", "no such option", lambda: session._do("tensors", quickly=True)),
        ])
        for name, value in before.items():
            np.testing.assert_array_equal(value, session.read(name))
        self.assertEqual(session.step(rows()), snug.Session(small, **OPTIONS).step(rows()))

    def test_ops_that_are_none(self):
        def used(op, call=None):
            def build(b):
                y = (call or op)(linear("in", b.input("x", [WIDTH]), 3))
                b.output("y", y)
                b.minimize(b.weighted_mean(y))
            return lambda: snug.Session(snug.Network("own", build, ops=[op]), **OPTIONS).step({"x": rows()["x"]})

        def copy(x, y):
            y[...] = x

        def op(kernel=copy, **options):
            return snug.Op("mine", kernel, **{"inputs": ["x"], "gradient": lambda x, y, dy: dy, **options})

        twice = op()
        twice_used = lambda: snug.Network("own", lambda b: None, ops=[twice, twice])
        self.refuse([
            (TypeError, "a function or an address", lambda: op(kernel="mine")), ("bad_config", "give inputs, then y", lambda: snug.op(lambda x: x)), ("bad_config", "has no default", lambda: snug.op(lambda x, y, *, k: None)), ("bad_config", "give it one: name=", lambda: snug.op(functools.partial(copy))),
            ("bad_config", "one of the two", lambda: op(backward=copy)), ("bad_config", "a gradient already", lambda: op().gradient(copy)), ("bad_config", "omit it", lambda: op(differentiable=["x"])),
            ("bad_config", "no address", lambda: snug.Op("mine", True, inputs=["x"])), ("bad_config", "no address", lambda: snug.Op("mine", -1, inputs=["x"])),
            ("bad_config", "no address", lambda: snug.Op("mine", copy, inputs=["x"], backward=1)),
            ("bad_config", "none of its inputs", lambda: snug.Op("mine", copy, inputs=["x"], backward=copy, differentiable=["z"])),
            ("bad_config", "'k' is inf", lambda: op(attributes={"k": INF})), ("bad_config", "'k' is nan", lambda: op(attributes={"k": np.float32(NAN)})),
            ("bad_config", "within 2**53", lambda: op(attributes={"k": 2 ** 53 + 1})), ("bad_config", "'k' is inf", used(number := op(attributes={"k": 1.0}), lambda x: number(x, k=INF))), ("bad_config", "a number or a truth value", used(op(attributes={"k": "text"}))),
            ("bad_config", "there is an op of this name", used(snug.Op("relu", copy, inputs=["x"]))), ("bad_config", "has no name", used(snug.Op("", copy, inputs=["x"]))),
            ("bad_config", "no inputs", used(op(inputs=[]))), ("invalid_graph", "no_such", used(op(), lambda x: x.builder.op1("no_such", [x]))), ("unsupported", "gives no gradient", used(op(gradient=None))),
            ("invalid_graph", "", used(op(), lambda x: op()(x, k=3))), ("invalid_graph", "", used(op(), lambda x: x.builder.op1("mine", [x, x]))), (TypeError, "snug.TensorType", used(op(shapes=lambda x: (3, 4)))),
            (TypeError, "not a int", used(op(shapes=lambda x: 3))), ("invalid_graph", "no type of elements", used(op(shapes=lambda x: snug.TensorType("f9", (3,))))), ("invalid_graph", "no type of a tensor", used(op(shapes=lambda x: snug.TensorType("f32", (-3,))))),
            ("invalid_graph", "infer gives 2 types", used(op(shapes=lambda x: [x, x]))), (ZeroDivisionError, "", used(op(shapes=lambda x: 1 / 0))), (TypeError, "positional argument", used(op(shapes=lambda: None))),
            ("invalid_graph", "gives 2 tensors", used(op(gradient=lambda x, y, dy: [dy, dy]))), ("shape_mismatch", "the gradient of its input", used(op(gradient=lambda x, y, dy: ops.reduce_sum(dy, [1])))),
            (TypeError, "snug.Tensor", used(op(gradient=lambda x, y, dy: [3]))), ("invalid_graph", "rows()", used(op(gradient=lambda x, y, dy: dy.builder.rows * dy))), ("invalid_graph", "parameter()", used(op(gradient=lambda x, y, dy: dy.builder.parameter("p", [2], snug.InitRule.ones())))),
            ("bad_config", "scratch_bytes", used(op(kernel=lambda x, y, scratch: None, scratch_bytes=lambda x: -1))), ("bad_config", "give a number", used(op(kernel=lambda x, y, scratch: None, scratch_bytes=lambda x: "1"))),
            (ZeroDivisionError, "", used(op(kernel=lambda x, y, scratch: None, scratch_bytes=lambda x: 1 // 0))), (ZeroDivisionError, "", used(op(flops=lambda x: 1 / 0))),
            (ZeroDivisionError, "", used(op(gradient=lambda x, y, dy: 1 / 0))), (ValueError, "broadcast", used(op(kernel=lambda x, y: np.copyto(y, np.ones((2, 9)))))), (TypeError, "argument", used(op(kernel=lambda x: None))), (ValueError, "read-only", used(op(kernel=lambda x, y: x.__setitem__(0, 1)))),
            (MemoryError, "", used(op(kernel=lambda x, y: (_ for _ in ()).throw(MemoryError())))), ("bad_config", "other bytes", lambda: self.repeats(op)), ("bad_config", "an op of this name", lambda: (snug.plan_network(twice_used(), **OPTIONS))),
        ])

    def repeats(self, op):
        count = [0]

        def counting(x, y):
            count[0] += 1
            y[...] = x + count[0]

        def build(b):
            b.minimize(b.weighted_mean(op(counting)(linear("in", b.input("x", [WIDTH]), 3))))

        snug.Session(snug.Network("own", build, ops=[op(counting)]), **OPTIONS, repeats_own_ops=True).step({"x": rows()["x"]})

    def test_objects_that_are_dead_or_busy(self):
        closed = snug.Session(small, **OPTIONS)
        closed.close()
        closed.close()
        session = snug.Session(small, **OPTIONS)
        inside = []

        def again(_first, _out):
            try:
                session.step(rows())
            except snug.Error as error:
                inside.append(error)

        session.evaluate(rows(), again)
        self.assertIn("while it computes", str(inside[0]))

        class Slow(snug.RowSource):
            rows = ROWS

            def __init__(self):
                self.begun, self.may_end = threading.Event(), threading.Event()

            def fill(self, slot):
                self.begun.set()
                self.may_end.wait(60)
                slot.values[...] = 1

        slow = Slow()
        thread = threading.Thread(target=session.step, args=[slow])
        thread.start()
        slow.begun.wait(60)
        self.refuse([("bad_config", "two threads", work) for work in
                     (lambda: session.step(rows()), lambda: session.read("out.bias"), lambda: session.edit("out.bias"), lambda: session.tensors(), lambda: session.save("/tmp/no"))])
        slow.may_end.set()
        thread.join()
        self.assertEqual(session.step(rows()).update, 2)
        kept = []

        class Keeping(Slow):
            def fill(self, slot):
                slot.values[...] = 1
                kept.append(slot.values)

        session.step(Keeping())
        held = session.view("out.weight")
        network, options = snug.Network("n", small._function), dict(OPTIONS, cancel=snug.Cancel(), on_planning=lambda *_: None)
        orphan = snug.Session(network, **options)
        del session, network, options
        gc.collect()
        for array_of in kept:
            array_of[...] = 0  # the session's memory is there as long as something looks at it
        self.assertTrue(np.isfinite(held).all())
        orphan.step(rows())
        block = mmap.mmap(-1, 1 << 20)
        plan = snug.SessionPlan(small, batch_rows=ROWS, memory=1 << 20, block=block)
        first = snug.Session(plan)
        self.refuse([("bad_config", "is closed", work) for work in
                     (lambda: closed.step(rows()), lambda: closed.plan, lambda: closed.updates, lambda: closed.read("out.bias"), lambda: closed.save("x"), lambda: closed.tensors(), lambda: closed.view("out.bias"))]
                    + [("bad_config", "block", lambda: snug.Session(plan)), (TypeError, "save it to a folder", lambda: pickle.dumps(first)), (TypeError, "not pickled", lambda: pickle.dumps(small)),
                       (TypeError, "", lambda: snug.Session()), (TypeError, "", lambda: snug.Tensor())])

    def test_a_forked_child(self):
        session = snug.Session(small, **dict(OPTIONS, threads=2))
        session.step(rows())
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                session.step(rows())
                text = "no error"
            except snug.Error as error:
                text = f"{error.code}: {error}"
            except BaseException as error:  # noqa: BLE001: a child must not run the other tests
                text = repr(error)
            os.write(writing, text.encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as file:
            text = file.read()
        os.waitpid(child, 0)
        self.assertTrue(text.startswith("unsupported"), text)
        session.step(rows())

    @classmethod
    def tearDownClass(cls):
        assert cls.cases > 200, cls.cases

    @unittest.skipIf(os.environ.get("SNUG_SANITIZED"), "a sanitizer keeps what is freed")
    def test_nothing_is_left_behind(self):
        """Errors by the thousand hold no memory."""
        session = snug.Session(small, **OPTIONS)

        def fail():
            for _ in range(200):
                try:
                    session.evaluate(rows(), lambda *_: 1 / 0)
                except ZeroDivisionError:
                    pass
                try:
                    session.read("no")
                except snug.Error:
                    pass

        from snug._callbacks import _raised
        from snug._host import resident_bytes

        fail()
        before = resident_bytes()
        for _ in range(5):
            fail()
        self.assertLess(resident_bytes() - before, 1 << 20)
        self.assertEqual(_raised, {})


if __name__ == "__main__":
    unittest.main()
