"""Sessions in Python: rows from anywhere, weights in and out, plans, options, stops, threads."""
import array
import ctypes
import gc
import mmap
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import weakref

import numpy as np
import snug
from networks import OPTIONS, ROWS, WIDTH, batch, digits, refused
from snug import _session_options, ops
from snug.layers import cross_entropy, embedding, embedding_sum, linear


class Sessions(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def test_evaluation_and_prediction_in_pieces_and_whole(self):
        session = snug.Session(digits, **OPTIONS, micro_batch_size=4)
        rows = batch(3, rows=11)
        pieces = []
        found = session.evaluate(rows, lambda first, out: pieces.append((first, out["logits"])))
        self.assertEqual((found.rows, [first for first, _ in pieces]), (11, [0, 4, 8]))
        whole = session.predict({"x": rows["x"]})["logits"]
        np.testing.assert_array_equal(whole, np.concatenate([piece for _, piece in pieces]))
        logs = whole - np.log(np.exp(whole).sum(1, keepdims=True))
        self.assertAlmostEqual(found.loss, -logs[np.arange(11), rows["label"]].mean(), places=5)
        self.assertEqual(session.evaluate(rows).loss, found.loss)

    def test_gradients(self):
        session = snug.Session(digits, **OPTIONS, only_gradients=True)
        found = session.gradients(batch())
        self.assertEqual(set(found.of), {"hidden.weight", "hidden.bias", "out.weight", "out.bias"})
        self.assertEqual(found.of["hidden.weight"].shape, (12, WIDTH))
        np.testing.assert_allclose(found.of["out.bias"].sum(), 0, atol=1e-6)
        # On a network this small "memory" finds something or nothing, as this machine's speeds have it.
        some = snug.gradients(digits, ["out.*"], "speed", **OPTIONS).gradients(batch())
        self.assertEqual(set(some.of), {"out.weight", "out.bias"})
        np.testing.assert_array_equal(some.of["out.weight"], found.of["out.weight"])

    def test_gradients_that_are_not_finite(self):
        session, rows = snug.Session(digits, **OPTIONS, only_gradients=True), batch()
        wanted = session.gradients(rows)
        rows["x"][3, 2] = np.nan
        refused(self, "numeric", "not finite", lambda: session.gradients(rows))
        np.testing.assert_array_equal(session.gradients(batch()).of["out.weight"], wanted.of["out.weight"])

    def test_a_session_that_trained_is_resumed_to_predict(self):
        def of(function):
            @snug.network(name="wide")
            def build(b):
                y = linear("out", function(linear("hidden", b.input("x", [WIDTH]), 500)), 3)
                b.output("y", y)
                b.minimize(cross_entropy(y, b.input("label", dtype="i32")))

            return build

        options = dict(OPTIONS, optim="adamw")
        trained = snug.Session(of(ops.relu), **options)
        for i in range(3):
            trained.step(batch(i))
        trained.save(self.folder / "saved")
        only = snug.Session.resume(of(ops.relu), self.folder / "saved", **options, only_evaluation=True)
        np.testing.assert_array_equal(only.predict({"x": batch()["x"]})["y"], trained.predict({"x": batch()["x"]})["y"])
        self.assertEqual(only.evaluate(batch()).loss, trained.evaluate(batch()).loss)
        self.assertLess(only.plan.resident_bytes, trained.plan.resident_bytes / 2)
        refused(self, "bad_config", "not the network", lambda: snug.Session.resume(of(ops.tanh), self.folder / "saved", **options, only_evaluation=True))

    def test_a_plan_of_a_larger_batch(self):
        snug.SessionPlan(digits, **OPTIONS).save(self.folder / "plan")
        refused(self, "bad_config", "more than the", lambda: snug.Session(digits, **{**OPTIONS, "batch_rows": ROWS // 2}, plan_file=self.folder / "plan"))

    def test_an_id_or_label_that_is_too_large_is_told_beside_its_table(self):
        @snug.network
        def words(b):
            x = ops.reduce_mean(embedding("words", b.input("ids", [3], "i32"), 7, 4), [1])
            b.minimize(cross_entropy(linear("out", x, 5), b.input("label", dtype="i32")))

        session = snug.Session(words, **OPTIONS, micro_batch_size=ROWS)
        good = {"ids": np.zeros((ROWS, 3), np.int32), "label": np.zeros(ROWS, np.int32)}
        for name, most, part in (("ids", 7, "'ids' holds -2 to 7, beside f32[7,4]"), ("label", 5, f"'label' holds -2 to 5, beside f32[{ROWS},5]")):
            wrong = good[name].copy()
            wrong.ravel()[:2] = -2, most
            refused(self, "bad_data", part, lambda: session.step({**good, name: wrong}))
        session.step(good)

    def test_a_loss_times_and_divided_by_numbers(self):
        def gradients(change):
            def build(b):
                y = linear("out", b.input("x", [WIDTH]), 2)
                b.minimize(change(b.weighted_mean(y * y), b))
            return snug.Session(snug.Network("scaled", build), **{**OPTIONS, "micro_batch_size": 4}, only_gradients=True).gradients({"x": batch()["x"]})

        whole = gradients(lambda loss, b: loss)
        for name, change in {"/": lambda loss, b: loss / 4, "* fill": lambda loss, b: loss * b.fill(0.25), "fill *": lambda loss, b: b.fill(0.25) * loss}.items():
            quarter = gradients(change)
            self.assertEqual(quarter.loss * 4, whole.loss, name)
            np.testing.assert_array_equal(quarter.of["out.weight"] * 4, whole.of["out.weight"], name)

    def test_save_and_resume_to_the_same_bits(self):
        options = dict(OPTIONS, optim="adamw", weight_decay=0.1, max_grad_norm=1, lr_scheduler_type="linear", max_steps=9, warmup_steps=2)
        whole = snug.Session(digits, **options)
        for i in range(9):
            whole.step(batch(i))
        part = snug.Session(digits, **options)
        for i in range(4):
            part.step(batch(i))
        part.save(self.folder / "saved")
        again = snug.Session.resume(digits, self.folder / "saved", **dict(options, memory="1GiB"))
        self.assertEqual((again.updates, again.counts), (4, (4, 4, 4)))
        for i in range(4, 9):
            again.step(batch(i))
        for tensor in whole.tensors():
            np.testing.assert_array_equal(whole.read(tensor.name), again.read(tensor.name), tensor.name)
        refused(self, "bad_config", "the session began with", lambda: snug.Session.resume(digits, self.folder / "saved", **dict(options, weight_decay=0.2)))
        own = snug.Session(digits, **options)
        for tensor in part.tensors():
            own.write(tensor.name, part.read(tensor.name))
        own.set_counts(4, 4, 4)
        self.assertEqual(own.step(batch(4)), part.step(batch(4)))

    def test_weights_go_in_and_out(self):
        session = snug.Session(digits, **OPTIONS, optim="sgd")
        state = session.state_dict()
        self.assertEqual(set(state), {"hidden.weight", "hidden.bias", "out.weight", "out.bias"})
        other = snug.Session(digits, **OPTIONS, optim="sgd", seed=7)
        self.assertTrue(np.any(other.read("out.weight") != state["out.weight"]))
        other.load_state_dict({name: Exported(value) for name, value in state.items()})
        np.testing.assert_array_equal(other.view("out.weight"), state["out.weight"])
        before = other.state_dict()
        lacking = {name: value for name, value in state.items() if name != "out.bias"}
        self.assertIn("missing: out.bias; not the network's: out.b", str(refused(self, "bad_data", "out.b", lambda: other.load_state_dict({**lacking, "out.b": state["out.bias"]}))))
        refused(self, "bad_data", "f32[12, 6]", lambda: other.load_state_dict({**state, "hidden.weight": state["hidden.weight"].T.copy()}))
        np.testing.assert_array_equal(other.view("hidden.weight"), before["hidden.weight"])
        refused(self, "numeric", "element 1 is not finite", lambda: other.write("out.bias", np.array([0, np.nan, 0], np.float32)))
        other.write_rows("out.weight", 1, np.full((1, 12), 3, np.float32))
        row = other.read_rows("out.weight", 1, np.empty(12, np.float32))
        np.testing.assert_array_equal(row, np.full(12, 3))
        other.initialize("out.bias")
        np.testing.assert_array_equal(other.read("out.bias"), np.zeros(3))
        flat = array.array("f", bytes(4 * 36))
        other.read("out.weight", out=flat)
        np.testing.assert_array_equal(np.array(flat).reshape(3, 12), other.read("out.weight"))
        other.edit("out.bias")[1] = np.inf
        self.assertIn("'out.bias' is inf", other.find_not_finite())
        refused(self, "numeric", "here", lambda: other.require_finite("here"))

    def test_views_are_the_tensors_themselves_and_outlive_the_session(self):
        session = snug.Session(digits, **OPTIONS, optim="sgd", learning_rate=0.1)
        view = session.view("out.weight")
        self.assertFalse(view.flags.writeable)
        before = view.copy()
        session.step(batch())
        self.assertTrue(np.any(view != before))
        session.edit("out.weight")[0] = 5
        np.testing.assert_array_equal(session.read("out.weight")[0], np.full(12, 5))
        np.testing.assert_array_equal(np.from_dlpack(session.edit("out.weight")), view)
        raw = session.view_bytes("out.weight")
        self.assertEqual((raw.dtype, raw.nbytes), (np.uint8, 4 * 36))
        held = weakref.ref(session._handle)
        kept = view.tobytes()
        session.close()
        part = view[0:2]
        del session, raw
        gc.collect()
        self.assertIsNotNone(held())
        self.assertEqual(view.tobytes(), kept)
        del view
        gc.collect()
        self.assertIsNotNone(held())
        del part
        gc.collect()
        self.assertIsNone(held())

    def test_plans(self):
        plan = snug.SessionPlan(digits, **OPTIONS)
        for name in ("save", "save_problem", "save_schedule"):
            getattr(plan, name)(self.folder / name)
        self.assertEqual(snug.solve.check(self.folder / "save_problem", self.folder / "save_schedule")["valid"], True)
        first, second = snug.Session(plan), snug.Session(plan)
        replayed = snug.Session(digits, **OPTIONS, plan_file=self.folder / "save")
        self.assertEqual(first.step(batch()), second.step(batch()))
        self.assertEqual(replayed.step(batch()).loss, snug.Session(plan).step(batch()).loss)
        self.assertGreater(plan.summands(), 0)
        self.assertEqual(plan.report.arena_bytes, first.plan.arena_bytes)
        there = pickle.loads(pickle.dumps(first.plan))
        self.assertEqual((there.to_dict(), there.to_html()), (first.plan.to_dict(), first.plan.to_html()))
        refused(self, "unsupported", "SessionPlan(network, ...).save(file)", lambda: there.save(self.folder / "unsaved"))
        report = snug.plan_network(digits, **OPTIONS)
        self.assertTrue(report._repr_html_().startswith("<iframe srcdoc="))
        report.save(self.folder / "again")
        self.assertEqual((self.folder / "again").read_bytes(), (self.folder / "save").read_bytes())
        self.assertGreater(len(report.price_list), 0)
        error = refused(self, "out_of_budget", "smallest budget that works", lambda: snug.Session(digits, batch_rows=ROWS, memory="4KiB"))
        self.assertIsInstance(error, snug.DoesNotFit)
        levers = snug.plan_levers(digits, ["bf16"], **OPTIONS)
        self.assertGreater(len(levers), 1)
        self.assertEqual([each["keys"] for each in snug.plan_allowed_levers(digits, ["bf16"], **OPTIONS)], [{}, {"bf16": "true"}])
        self.assertIsInstance(snug.fastest_levers(digits, ["bf16"], **OPTIONS), dict)
        self.assertEqual([each["keys"] for each in snug.plan_allowed_levers(digits, "bf16", **OPTIONS)], [{}, {"bf16": "true"}])
        self.assertEqual(list(snug.gradients(digits, "out.bias", checkpoints="speed", **OPTIONS).gradients(batch()).of), ["out.bias"])
        explained = snug.explain_network(digits, **OPTIONS)
        self.assertGreater(len(explained["stages"]), 3)
        self.assertAlmostEqual(sum(op["seconds"] for op in explained["step"]["ops"]), snug.plan_network(digits, **OPTIONS).step_seconds)
        self.assertEqual(set(explained["fusion"]), {"ops", "kernels", "saved_bytes", "merged", "apart"})
        self.assertEqual(snug.splits_of(8)[0], 8)
        self.assertEqual(len(snug.every_combination({"a": [2, 4], "b": [3, 5]})), 4)

    def test_a_machine_and_memory_of_the_callers(self):
        machine = snug.Machine(threads=1)
        self.assertEqual(machine.threads, 1)
        block = mmap.mmap(-1, 1 << 20)
        options = dict(batch_rows=ROWS, memory=1 << 20, machine=machine, block=block)
        session = snug.Session(digits, **options)
        place = np.frombuffer(block, np.uint8).__array_interface__["data"][0]
        self.assertTrue(place <= session.view("out.weight").__array_interface__["data"][0] < place + (1 << 20))
        self.assertEqual(session.step(batch()), snug.Session(digits, **OPTIONS).step(batch()))
        with self.assertRaises(BufferError):
            block.close()

    def test_the_options_that_editors_know_are_the_librarys(self):
        with self.assertRaises(snug.Error) as caught:
            snug.Session(digits, no_such=1)
        known = caught.exception.hint.removeprefix("there are: ").split(", ")
        of_python = {"machine", "block", "cancel", "on_planning", "on_message", "wants_picture"}
        self.assertEqual(set(_session_options.Options.__annotations__), {*known, *of_python})

    def test_options_are_those_of_the_library(self):
        for given in (dict(optim="adafactor"), dict(optim_args={"beta1": 0.8}), dict(bf16=True), dict(freeze=["hidden.*"]), dict(two_pass_clip=True, max_grad_norm=1),
                      dict(param_groups=[{"match": "out.*", "learning_rate": 0.5}]), dict(lr_scheduler_type="cosine", max_steps=5),
                      dict(lr_scheduler_type="polynomial", lr_scheduler_kwargs={"power": 2}, max_steps=5), dict(draw_numbering="building"), dict(memory=1 << 25),
                      dict(memory="30%"), dict(loss_scale="dynamic"), dict(precision_overrides=[{"match": "out", "dtype": "bfloat16"}]), dict(has_initial_values=False),
                      dict(fusion="off"), dict(fusion_overrides=[{"match": "*", "level": "off"}]),
                      dict(lora={"match": "hidden.weight", "r": 2}), dict(process_bytes=1 << 20)):
            snug.Session(digits, **{**OPTIONS, **given}).step(batch())
        session = snug.Session(digits, **OPTIONS, fp16=True)
        self.assertTrue(session.has_dynamic_loss_scale)
        session.set_loss_scale(1024, 3, 0)
        self.assertEqual(session.loss_scale, (1024, 3, 0))
        self.assertEqual(snug.Session(digits, **OPTIONS).step(batch(), learning_rate=0.125).learning_rate, 0.125)
        still = snug.Session(digits, **OPTIONS)
        self.assertEqual(still.step(batch(), is_skipped=True).loss, still.step(batch()).loss)

    def test_numbers_and_arrays_of_numpy_are_options(self):
        for given, plain in ((dict(seed=np.int64(3)), dict(seed=3)), (dict(learning_rate=np.float32(0.25)), dict(learning_rate=0.25)),
                             (dict(learning_rate=np.float64(0.1)), dict(learning_rate=0.1)), (dict(memory=np.float64(1 << 25)), dict(memory=1 << 25)),
                             (dict(bf16=np.bool_(True)), dict(bf16=True)), (dict(freeze=np.array(["hidden.*"])), dict(freeze=["hidden.*"])),
                             (dict(freeze=np.array(["hidden.weight", "hidden.bias"])), dict(freeze=["hidden.weight", "hidden.bias"])),
                             (dict(optim_args={"beta1": np.float32(0.5)}), dict(optim_args={"beta1": 0.5})),
                             (dict(lora={"match": "hidden.weight", "r": np.int64(2)}), dict(lora={"match": "hidden.weight", "r": 2}))):
            self.assertEqual(*(snug.Session(digits, **{**OPTIONS, **each}).step(batch()) for each in (given, plain)))
        self.assertEqual(snug.every_combination({"a": np.array([2, 4])}), snug.every_combination({"a": [2, 4]}))
        self.assertEqual(snug.plan(model="bert-tiny", learning_rate=np.float64(0.1), bf16=np.bool_(True), memory=np.float64(1 << 30)).model, "bert-tiny")

    def test_stops(self):
        flag = snug.Cancel()
        session = snug.Session(digits, **OPTIONS, cancel=flag)
        session.step(batch())
        thread = threading.Thread(target=flag.set)
        thread.start()
        thread.join()
        self.assertTrue(flag.is_set())
        refused(self, "cancelled", "stopped on request", lambda: session.step(batch()))
        flag.clear()
        self.assertEqual(session.step(batch()).update, 2)
        flag.set()
        refused(self, "cancelled", "stopped on request", lambda: snug.plan_network(digits, **OPTIONS, cancel=flag))

        class Enough(Exception):
            pass

        def enough(*_words):
            raise Enough

        with self.assertRaises(Enough):
            snug.plan_network(digits, **OPTIONS, on_planning=enough)
        with self.assertRaises(Enough):
            snug.Session(digits, **OPTIONS).evaluate(batch(), enough)
        # Ctrl-C while no Python runs but what the library calls.
        calls = []

        @snug.network
        def interrupted(b):
            calls.append(b.rows)
            if len(calls) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            b.minimize(b.weighted_mean(linear("out", b.input("x", [WIDTH]), 1)))

        with self.assertRaises(KeyboardInterrupt):
            snug.plan_network(interrupted, **OPTIONS)
        snug.plan_network(interrupted, **OPTIONS)

    def test_ctrl_c_while_the_library_works(self):
        """Python hears of it where the library next calls a function of Python's, before any `try` there."""
        session = snug.Session(digits, **OPTIONS)
        count = 400_000
        many = {"x": np.zeros((count, WIDTH), np.float32), "label": np.zeros(count, np.int32)}
        own = lambda *_: heard.append(1)
        heard = []
        for handler in (signal.default_int_handler, own):
            self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, handler))
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                rows = session.evaluate(many).rows
            except KeyboardInterrupt:
                rows = 0
            timer.join()
            self.assertEqual(rows, 0 if handler is not own else count)
            self.assertIs(signal.getsignal(signal.SIGINT), handler)
            self.assertGreater(session.step(batch()).update, 0)
        self.assertEqual(heard, [1])

        def caught(_first, _arrays):  # as anywhere else
            with self.assertRaises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                while True:
                    pass

        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.assertEqual(session.evaluate(batch(), caught).rows, ROWS)

    def test_every_signal_while_the_library_works(self):
        class TimeIsUp(Exception):
            pass

        def ring(number, _frame):
            rung.append(number)
            raise TimeIsUp

        rung = []
        count = 400_000
        many = {"x": np.zeros((count, WIDTH), np.float32), "label": np.zeros(count, np.int32)}
        session = snug.Session(digits, **OPTIONS)
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1):
            self.addCleanup(signal.signal, number, signal.signal(number, ring))
            timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
            timer.start()
            with self.assertRaises(TimeIsUp):
                session.evaluate(many)
            timer.join()
            self.assertIs(signal.getsignal(number), ring)
        self.assertEqual(rung, [signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1])

        # What is called may set a handler, and use the library: also then none is lost.
        def sink(first, _arrays):
            if first:
                return
            signal.signal(signal.SIGUSR2, ring)
            timer.start()
            with self.assertRaises(TimeIsUp):
                other.evaluate(many)

        self.addCleanup(signal.signal, signal.SIGUSR2, signal.getsignal(signal.SIGUSR2))
        other = snug.Session(digits, **OPTIONS)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR2))
        self.assertEqual(session.evaluate(batch(), sink).rows, ROWS)
        self.assertIs(signal.getsignal(signal.SIGUSR2), ring)
        self.assertEqual(rung[3:], [signal.SIGUSR2])

    def test_signals_where_ops_of_ones_own_call_each_other(self):
        """What builds the network calls the op's functions in turn; behind that, handlers are what they were, and Ctrl-C ends a step."""
        @snug.op
        def cube(x, y):
            np.power(x, 3, out=y)

        @cube.gradient
        def _(x, y, dy):
            return dy * x * x * 3.0

        @snug.network(ops=[cube])
        def with_cubes(b):
            b.minimize(cross_entropy(linear("out", cube(linear("hidden", b.input("x", [WIDTH]), 12)), 10), b.input("label", dtype="i32")))

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        session = snug.Session(with_cubes, **OPTIONS)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        for _ in range(3):
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    session.step(batch())
            timer.join()
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertTrue(np.isfinite(session.evaluate(batch()).loss))

    def test_an_alarm_at_any_moment_leaves_other_signals_alone(self):
        class Late(Exception):
            pass

        def late(*_):
            raise Late

        for number, handler in ((signal.SIGALRM, late), (signal.SIGINT, signal.default_int_handler)):
            self.addCleanup(signal.signal, number, signal.signal(number, handler))
        session, rows, count = snug.Session(digits, **OPTIONS), batch(), 0
        random = np.random.default_rng(0)
        for delay in random.uniform(2e-6, 3e-4, 2000):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                session.evaluate(rows)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Late:
                count += 1
            found = None
            while found is None:  # one that another thread has heard may come behind the timer's end
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    found = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)
                except Late:
                    pass
            self.assertEqual(found, (late, signal.default_int_handler))
        self.assertGreater(count, 100)

    def test_sessions_in_threads(self):
        wanted = [snug.Session(digits, **OPTIONS, seed=seed) for seed in range(4)]
        for session in wanted:
            for i in range(20):
                session.step(batch(i))
        found = [None] * 4

        def work(seed):
            session = snug.Session(digits, **OPTIONS, seed=seed)
            for i in range(20):
                session.step(batch(i))
            found[seed] = session.state_dict()

        threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for session, state in zip(wanted, found):
            for name, value in state.items():
                np.testing.assert_array_equal(value, session.read(name))

    def test_a_model_of_the_librarys(self):
        keys = dict(model="bert-tiny", vocab_size=50, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        network = snug.model_network(keys)
        self.assertEqual(network.name, keys["model"])
        session = snug.Session(network, batch_rows=4, memory="256MiB", lengths=[8, 16])
        session.load_weights(**keys)
        for other, said in (({**keys, "num_labels": 4}, "'classifier.weight' is [3,128] there"), ({**keys, "model": "bert-mini"}, "word_embeddings.weight' is [50,128] there")):
            with self.assertRaisesRegex(snug.Error, re.escape(said)):
                session.load_weights(**other)
        with self.assertRaisesRegex(snug.Error, "the session is of another network than bert-tiny"):
            snug.Session(digits, **OPTIONS).load_weights(**keys)
        ids = np.random.RandomState(0).randint(1, 50, (4, 11), np.int32)
        rows = {"input_ids": ids, "attention_mask": np.ones((4, 11), bool), "token_type_ids": np.zeros((4, 11), np.int32), "labels": np.arange(4, dtype=np.int32) % 3}
        first = session.step(rows, length=11)
        self.assertLess([session.step(rows, length=11).loss for _ in range(5)][-1], first.loss)
        self.assertEqual(session.predict({name: rows[name] for name in rows if name != "labels"}, length=11)["logits"].shape, (4, 3))


class Exported:
    """An array that others hand over as PyTorch does."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Source(snug.RowSource):
    def __init__(self, data, length=None):
        self.data, self.asked, self._length = data, [], length

    @property
    def rows(self):
        return len(next(iter(self.data.values())))

    @property
    def length(self):
        return self._length

    @property
    def columns(self):
        return list(self.data)

    def fill(self, slot):
        self.asked.append((slot.input, slot.first_row, slot.values.shape[0]))
        slot.values[...] = slot.padding
        rows = self.data[slot.input][slot.first_row : slot.first_row + slot.values.shape[0]]
        slot.values[tuple(map(slice, rows.shape))] = rows


class FromRows(unittest.TestCase):
    def test_a_source_gives_the_bits_of_arrays(self):
        for columns in (batch(), {**batch()}):
            source = Source(columns)
            one, other = (snug.Session(digits, **OPTIONS, micro_batch_size=4) for _ in range(2))
            self.assertEqual(one.step(source), other.step(columns))
            self.assertIn(("x", 4, 4), source.asked)
            np.testing.assert_array_equal(one.predict(Source({"x": columns["x"]}))["logits"], other.predict({"x": columns["x"]})["logits"])

    def test_arrays_that_are_not_numpys(self):
        rows = batch()
        flat = array.array("f", rows["x"].tobytes())
        given = {"x": memoryview(flat).cast("B").cast("f", (ROWS, WIDTH)), "label": Exported(rows["label"])}
        self.assertEqual(snug.Session(digits, **OPTIONS).step(given), snug.Session(digits, **OPTIONS).step(rows))
        given["x"] = Exported(rows["x"])
        given["x"].is_neg = lambda: True  # as of PyTorch's x.conj().imag
        refused(self, "bad_data", "resolve_neg", lambda: snug.Session(digits, **OPTIONS).step(given))
        given = {"x": (ctypes.c_float * WIDTH * ROWS).from_buffer_copy(rows["x"]), "label": (ctypes.c_int32 * ROWS)(*rows["label"])}  # which say the order of their bytes
        self.assertEqual(snug.Session(digits, **OPTIONS).step(given), snug.Session(digits, **OPTIONS).step(rows))
        readonly = dict(rows)
        readonly["x"] = rows["x"].copy()
        readonly["x"].flags.writeable = False
        self.assertEqual(snug.Session(digits, **OPTIONS).step(readonly), snug.Session(digits, **OPTIONS).step(rows))

    def test_a_python_without_numpy(self):
        script = """
            import array, sys
            sys.modules["numpy"] = None
            import snug
            from snug.layers import linear

            @snug.network
            def plain(b):
                y = linear("out", b.input("x", [2]), 1)
                b.output("y", y)
                b.minimize(b.weighted_mean(y * y))

            session = snug.Session(plain, batch_rows=3, memory="8MiB", threads=1)
            x = memoryview(array.array("f", [1, 2, 3, 4, 5, 6])).cast("B").cast("f", (3, 2))
            losses = [session.step({"x": x}).loss for _ in range(5)]
            assert losses[-1] < losses[0] and session.evaluate({"x": x}).rows == 3
            weight = session.read("out.weight", out=array.array("f", [0, 0]))
            session.write("out.weight", weight)
            try:
                session.view("out.weight")
            except ImportError as error:
                print(error)
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("numpy", done.stdout)

    def test_rows_of_several_lengths(self):
        @snug.network
        def sums(b):
            length = b.length("words")
            self.assertEqual(length.name, "words")
            ids, mask = b.input("ids", [length], "i32"), b.input("mask", [length], "bool")
            y = linear("out", embedding_sum("table", ids, ops.cast(mask, "f32"), 9, 4), 2)
            b.output("y", y)
            b.minimize(b.weighted_mean(y * y, b.input("weight")))

        options = dict(batch_rows=4, memory="16MiB", lengths=[{"words": 4}, {"words": 8}])
        rows = {"ids": np.arange(24, dtype=np.int32).reshape(4, 6) % 9, "mask": np.ones((4, 6), bool), "weight": np.array([1, 0, 2, 1], np.float32)}
        one, other, third = (snug.Session(sums, **options) for _ in range(3))
        found = one.step(rows, length={"words": 6})
        self.assertEqual(other.step(Source(rows, {"words": 6})), found)
        others = snug.Session(sums, **{**options, "lengths": np.array([{"words": np.int64(4)}, {"words": 8}])})
        self.assertEqual(others.step(rows, length={"words": np.int32(6)}), found)

        class Weighed(Source):
            total_weights = {"weight": 4.0}

        weighed = Weighed(rows, {"words": 6})
        self.assertEqual(third.step(weighed), found)
        self.assertEqual(len(one.predict({"ids": rows["ids"][:, :3].copy(), "mask": rows["mask"][:, :3].copy()}, length={"words": 3})["y"]), 4)
        refused(self, "bad_data", "say how long the rows are", lambda: one.step(rows))
        refused(self, "bad_data", "the longest program takes", lambda: one.step(rows, length={"words": 9}))

    def test_what_a_source_raises_comes_out_and_the_session_goes_on(self):
        class Broken(Source):
            def fill(self, slot):
                raise OSError("no more rows")

        session = snug.Session(digits, **OPTIONS)
        with self.assertRaisesRegex(OSError, "no more rows"):
            session.step(Broken(batch()))
        self.assertEqual(session.step(batch()), snug.Session(digits, **OPTIONS).step(batch()))


if __name__ == "__main__":
    unittest.main()
