"""What people do with networks, sessions and progress out of habit: from Python itself, numpy and PyTorch. It works, or is one clear exception."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import common
import numpy as np
import snug
from networks import OPTIONS, WIDTH, batch, digits, refused
from snug import ops
from snug.layers import linear, mean_squared_error


def loss_of(build, **options):
    """Of a step of a network that builds its loss of x and one layer."""

    @snug.network
    def network(b):
        x = b.input("x", [WIDTH])
        b.minimize(build(b, x))

    return snug.Session(network, **{**OPTIONS, **options}).step({"x": batch()["x"]}).loss


def losses(x):
    return [mean_squared_error(linear(f"layer.{i}", x, WIDTH), x) for i in range(3)]


@snug.op
def times(x, y, *, factor=2.0, is_on=True, count=1):
    np.multiply(x, factor * count * is_on, out=y)


@times.gradient
def _(x, y, dy, *, factor, is_on, count):
    return dy * (factor * count * is_on)


class Habits(unittest.TestCase):
    def test_losses_are_summed(self):
        def added(b, x):
            first, second, third = losses(x)
            return first + second + third

        self.assertEqual(loss_of(lambda b, x: sum(losses(x))), loss_of(added))

    def test_constants_are_finite(self):
        for value in (float("inf"), -float("inf"), float("nan"), np.float32("inf")):
            for use in (lambda x, value=value: x * value, lambda x, value=value: x + value, lambda x, value=value: ops.where(x > 0, x, value), lambda x, value=value: x < value):
                refused(self, "invalid_graph", "is not finite", lambda use=use: loss_of(lambda b, x: mean_squared_error(use(linear("a", x, WIDTH)), x)))
        refused(self, "invalid_graph", "is not finite", lambda: loss_of(lambda b, x: b.fill(float("nan"), [2])))

    def test_one_number_where_a_list_belongs_is_named(self):
        for use in (lambda b, x: b.input("z", 6), lambda b, x: ops.reduce_sum(x, 1), lambda b, x: ops.reshape(x, 6), lambda b, x: ops.transpose(x, 1),
                    lambda b, x: b.fill(1.0, 3), lambda b, x: ops.broadcast_to(x, 3), lambda b, x: b.parameter("w", 3, snug.InitRule.zeros())):
            with self.assertRaisesRegex(TypeError, r"is a list, not a int: give \["):
                loss_of(use)

    def test_numbers_of_an_op_are_of_its_defaults_kind(self):
        @snug.network(ops=[times])
        def network(b):
            x = b.input("x", [WIDTH])
            b.minimize(mean_squared_error(use(linear("a", x, WIDTH)), x))

        def loss():
            return snug.Session(network, **OPTIONS).step({"x": batch()["x"]}).loss

        use = lambda x: times(x, factor=3.0)  # noqa: E731
        wanted = loss()
        for each in (3, np.int64(3), np.float32(3)):
            use = lambda x, each=each: times(x, factor=each)  # noqa: E731
            self.assertEqual(loss(), wanted)
        for name, value, fix in (("count", 2.0, "a whole number"), ("count", True, "a whole number"), ("factor", True, "a number"), ("factor", "3", "a number"), ("is_on", 1, "True or False")):
            use = lambda x, name=name, value=value: times(x, **{name: value})  # noqa: E731
            self.assertIn(fix, refused(self, "bad_config", f"'{name}' is {value!r}", loss).hint)

    def test_a_network_that_is_another_each_time_is_refused(self):
        random, count = np.random.default_rng(1), iter(range(1000))
        for build, said in ((lambda x: linear("a", x, WIDTH) * float(random.random()), "scale"), (lambda x: ops.dropout(linear("a", x, WIDTH), float(random.random())), "dropout"),
                            (lambda x: linear("a", x, WIDTH) if next(count) % 5 else ops.relu(linear("a", x, WIDTH)), "")):
            error = refused(self, "invalid_graph", "built", lambda build=build: loss_of(lambda b, x: mean_squared_error(build(x), x)))
            self.assertIn(said, error.message)
        # Between two sessions it may change.
        factor = 1.0
        network = snug.Network("changes", lambda b: b.minimize(mean_squared_error(linear("a", b.input("x", [WIDTH]), 1) * factor, b.input("y", [1]))))
        rows = {"x": batch()["x"], "y": np.zeros((len(batch()["x"]), 1), np.float32)}
        losses = []
        for factor in (1.0, 2.0):
            losses.append(snug.Session(network, **OPTIONS).step(rows).loss)
        self.assertAlmostEqual(losses[1], 4 * losses[0], places=4)

    def test_weights_are_loaded_all_or_none(self):
        session = snug.Session(digits, **OPTIONS)
        before = session.state_dict()
        for value in (np.nan, np.inf, -np.inf):
            state = {name: each + 1 for name, each in before.items()}
            state["out.weight"][1, 1] = value
            refused(self, "numeric", "out.weight", lambda state=state: session.load_state_dict(state))
            for name, each in session.state_dict().items():
                np.testing.assert_array_equal(each, before[name])

    def test_rows_that_are_not_finite_are_named(self):
        for name, shape in (("x", (WIDTH,)), ("weight", ())):

            @snug.network
            def network(b):
                x = b.input("x", [WIDTH])
                difference = linear("a", x, 1)
                b.minimize(b.weighted_mean(ops.reduce_sum(difference * difference, [1]) * b.input("weight")))

            rows = {"x": batch()["x"], "weight": np.ones(len(batch()["x"]), np.float32)}
            rows[name][5] = np.inf
            error = refused(self, "numeric", f"of the rows '{name}' has inf in row 5", lambda rows=rows, network=network: snug.Session(network, **OPTIONS).step(rows))
            self.assertIn("leave such rows out", error.hint)
        huge = {"x": np.full_like(rows["x"], 1e30), "weight": np.ones_like(rows["weight"])}  # finite, and too much for the network
        self.assertNotIn("of the rows", str(refused(self, "numeric", "not finite", lambda: snug.Session(network, **OPTIONS).step(huge))))

    def test_a_process_without_standard_error(self):
        rows = common.make_rows(16)
        keys = dict(model="bert-tiny", vocab_size=200, max_seq_length=16, max_steps=1, memory="1GiB", threads=1, train_file=rows)
        for stream in (None, object()):
            for progress in (None, False) if stream is not None else (None, False, True):
                with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(sys, "stderr", stream):
                    self.assertEqual(snug.train(keys, output_dir=folder, progress=progress)["steps"], 1)

    def test_python_ends_while_threads_are_at_work(self):
        """Daemons are ended in the middle; each call of theirs ends first, and none takes the process along."""
        begin = "import common, os, sys, threading, time\nimport numpy as np, snug\nfrom networks import OPTIONS, batch, digits\n"
        train = begin + """
keys = dict(model="bert-tiny", vocab_size=200, max_seq_length=16, max_steps=10**6, memory="1GiB", threads=1, train_file=common.make_rows(16))
begun = threading.Event()
threading.Thread(target=lambda: snug.train(keys, output_dir=sys.argv[1], progress=False, logging_steps=1, on_update=lambda _: begun.set()), daemon=True).start()
begun.wait(60)
"""
        evaluate = begin + """
begun = threading.Event()
rows = {name: np.concatenate([each] * 10**5) for name, each in batch().items()}
threading.Thread(target=lambda: snug.Session(digits, **OPTIONS).evaluate(rows, lambda *_: begun.set()), daemon=True).start()
begun.wait(60)
"""
        fork = train + """
if os.fork() == 0:
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 5
"""
        for program in (train, evaluate, fork):
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
                ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program, folder], env=environment, capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual((ended.returncode, ended.stderr), (0, ""))
                if program is not evaluate:  # as at any other stop
                    self.assertTrue(os.path.isdir(os.path.join(folder, "last")))

    def test_processes_that_are_forked_in_callbacks(self):
        """The run and its folder are the parent's, however the child leaves the callback, and for as long as it lives."""
        keys = dict(model="mlp", hidden_sizes=[8], vocab_size=200, max_seq_length=16, memory="1GiB", threads=1, train_file=common.make_rows(16), logging_steps=1,
                    save_steps=2, seed=1)
        codes = []

        def forks(line):
            child = os.fork()
            if child:
                if line["step"] < 4:
                    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                else:
                    alive.append(child)
            elif line["step"] == 1:
                sys.exit(5)
            elif line["step"] == 2:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # for what it prints
                raise ValueError("of the child's")
            elif line["step"] == 3:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            else:
                signal.pause()
                os._exit(0)

        alive = []
        with tempfile.TemporaryDirectory() as folder:
            wanted, found = os.path.join(folder, "wanted"), os.path.join(folder, "found")
            snug.train(keys, output_dir=wanted, max_steps=4)
            snug.train(keys, output_dir=found, max_steps=4, on_update=forks)
            self.assertEqual(codes, [5, 1, 1])
            snug.train(keys, output_dir=found, max_steps=6, resume=True)  # nobody holds the folder
            snug.train(keys, output_dir=wanted, max_steps=6, resume=True)
            for child in alive:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            weights = [pathlib.Path(each, "last", "model.safetensors").read_bytes() for each in (wanted, found)]
            self.assertEqual(*weights)

    def test_a_callback_that_changes_the_working_directory(self):
        keys = dict(model="mlp", hidden_sizes=[8], vocab_size=200, max_seq_length=16, memory="1GiB", threads=1, train_file=common.make_rows(16), logging_steps=1, save_steps=2, max_steps=6)
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            self.addCleanup(os.chdir, here)
            os.mkdir(os.path.join(folder, "other"))
            os.chdir(folder)
            snug.train(keys, output_dir="run", on_update=lambda line: os.chdir("other") if line["step"] == 3 else None)
            self.assertEqual(os.listdir(), [])
            os.chdir(folder)
            self.assertEqual(sorted(os.listdir()), ["other", "run"])
            self.assertTrue(os.path.exists("run/summary.json"))
            os.chdir(here)

    def test_a_subinterpreter(self):
        """Its first thread is called a main one, and gets no signals."""
        program = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
error = interpreters.run_string(interpreters.create(), 'import snug; snug.solve.remat({"storages": [{"id": "a", "bytes": 4}], "keep": ["a"], "ops": [{"id": "make", "inputs": [], "outputs": ["a"], "cost": 1}]}, memory=64)')
assert error is None, error
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_callbacks_that_are_none_are_refused_before_the_run(self):
        for name, call in (("on_update", snug.train), ("on_plan", snug.train), ("on_message", snug.plan), ("sink", snug.predict)):
            with self.assertRaisesRegex(TypeError, f"{name} is a function, not a int"):
                call(model="none", **{name: 3})


if __name__ == "__main__":
    unittest.main()
