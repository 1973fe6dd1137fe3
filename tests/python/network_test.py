"""Networks of your own in Python: what a function builds, what it raises, ops of one's own."""
import ctypes
import traceback
import unittest

import common
import numpy as np
import snug
from networks import CLASSES, OPTIONS, ROWS, WIDTH, batch, digits, refused
from snug import ops, recompute
from snug._native import Kernel
from snug.layers import batch_norm, conv2d, cross_entropy, embedding, embedding_sum, layer_norm, linear, mean_squared_error


class First(unittest.TestCase):
    def test_a_network_is_planned_trained_and_read(self):
        session = snug.Session(digits, **OPTIONS, learning_rate=0.05)
        self.assertIn("planned peak", str(session.plan))
        self.assertEqual(session.plan.model, "digits")
        first = session.step(batch())
        self.assertEqual((first.update, first.is_skipped), (1, False))
        self.assertAlmostEqual(first.learning_rate, 0.05)
        for _ in range(60):
            last = session.step(batch())
        self.assertLess(last.loss, 0.8 * first.loss)
        weight = session.read("out.weight")
        self.assertEqual((weight.shape, weight.dtype), ((CLASSES, 12), np.float32))
        self.assertEqual(session.updates, 61)
        self.assertEqual(session.measured_arena_bytes(), snug.Session(digits, **OPTIONS).plan.arena_bytes)


class Building(unittest.TestCase):
    def value_of(self, build, feeds):
        """What a network of these inputs hands out as "y", in evaluation."""
        def function(b):
            inputs = {name: b.input(name, each.shape[1:], "bool" if each.dtype == bool else each.dtype) for name, each in feeds.items()}
            y = build(b, **inputs)
            b.output("y", y)
            b.minimize(b.weighted_mean(linear("trained", b.input("fed", [1]), 1)))

        session = snug.Session(snug.Network("ops", function), batch_rows=4, memory="32MiB", threads=1)
        return session.predict(feeds)["y"]

    def test_every_op_takes_its_operands_and_attributes_to_their_places(self):
        random = np.random.RandomState(1)
        x, z = (random.rand(4, 3, 2).astype(np.float32) + 0.5 for _ in range(2))
        flags = random.rand(4, 3, 2) < 0.5
        images = random.rand(4, 4, 4, 2).astype(np.float32)
        ids = random.randint(0, 5, (4, 3), np.int32)
        table = random.rand(5, 2).astype(np.float32)
        matrices, others = random.rand(4, 3, 2).astype(np.float32), random.rand(4, 3, 5).astype(np.float32)
        mask = np.ones((4, 3), bool)
        mask[:, 2] = False
        tables = lambda b: ops.reshape(b.fill(1, [5, 2]), [5, 2]) * 0.5

        def softmax(a, axis):
            e = np.exp(a - a.max(axis, keepdims=True))
            return e / e.sum(axis, keepdims=True)

        cases = {
            "add": (lambda b, x, z: x + z, x + z), "sub": (lambda b, x, z: x - z, x - z), "mul": (lambda b, x, z: x * z, x * z),
            "div": (lambda b, x, z: x / z, x / z), "neg": (lambda b, x, z: -x, -x), "scale": (lambda b, x, z: 3 * x + x * 2, 5 * x),
            "numbers": (lambda b, x, z: (1 - x) + 2 / (x + 1) - x / 4, (1 - x) + 2 / (x + 1) - x / 4),
            "numpy's numbers": (lambda b, x, z: np.float32(3) * x + np.float64(1), 3 * x + 1),
            "exp": (lambda b, x, z: ops.exp(x), np.exp(x)), "log": (lambda b, x, z: ops.log(x), np.log(x)),
            "sqrt": (lambda b, x, z: ops.sqrt(x), np.sqrt(x)), "rsqrt": (lambda b, x, z: ops.rsqrt(x), 1 / np.sqrt(x)),
            "tanh": (lambda b, x, z: ops.tanh(x), np.tanh(x)), "sigmoid": (lambda b, x, z: ops.sigmoid(x), 1 / (1 + np.exp(-x))),
            "relu": (lambda b, x, z: ops.relu(x - 1), np.maximum(x - 1, 0)),
            "gelu and erf": (lambda b, x, z: ops.gelu(x) - 0.5 * x * (1 + ops.erf(x * 0.5 ** 0.5)), 0 * x),
            "where": (lambda b, x, z, flags: ops.where(flags, x, z), np.where(flags, x, z)),
            "where of numbers": (lambda b, x, z, flags: ops.where(flags, 1, x), np.where(flags, 1, x)),
            "where of two numbers": (lambda b, x, z, flags: ops.broadcast_to(ops.where(flags, 1, 2), [b.rows, 3, 2]), np.where(flags, 1, 2)),
            "less": (lambda b, x, z: ops.cast(x < z, "f32") + ops.cast(ops.less_equal(x, z), "f32"), (x < z).astype(float) + (x <= z)),
            "greater": (lambda b, x, z: ops.cast(x > 1, "f32") + ops.cast(1 >= z, "f32"), (x > 1).astype(float) + (1 >= z)),
            "equal": (lambda b, x, z: ops.cast(x == x, np.float32) - ops.cast(x != z, np.float32), 1.0 - (x != z)),
            "equal i32": (lambda b, ids: ops.cast(ids == 2, "f32"), (ids == 2).astype(float)),
            "numbers beside i32": (lambda b, ids: ops.cast(ops.where(ids > -(2 ** 31), ids < 3.0, True), "f32") + ops.cast(ids == (1 << 24) + 2, "f32"), (ids < 3).astype(float)),
            "transpose": (lambda b, x, z: ops.transpose(x, [0, 2, 1]), x.transpose(0, 2, 1)),
            "reshape": (lambda b, x, z: ops.reshape(x, [b.rows, 6]), x.reshape(4, 6)),
            "slice": (lambda b, x, z: ops.slice(x, 1, 1, 3), x[:, 1:3]), "pad": (lambda b, x, z: ops.pad(x, 1, 2, 1), np.pad(x, ((0, 0), (2, 1), (0, 0)))),
            "concat": (lambda b, x, z: ops.concat([x, z, x], 2), np.concatenate([x, z, x], 2)),
            "broadcast_to": (lambda b, x, z: ops.broadcast_to(ops.slice(x, 2, 0, 1), [b.rows, 3, 4]), np.broadcast_to(x[:, :, :1], (4, 3, 4))),
            "reduce": (lambda b, x, z: ops.reduce_sum(x, [1]) + ops.reduce_max(z, [1]), x.sum(1) + z.max(1)),
            "reduce_mean": (lambda b, x, z: ops.reduce_mean(x, [1, 2], keep_dims=True), x.mean((1, 2), keepdims=True)),
            "matmul": (lambda b, m, n: ops.matmul(m, n, transpose_a=True), matrices.transpose(0, 2, 1) @ others),
            "matmul b": (lambda b, m, n: ops.matmul(n, m, transpose_a=True) @ ops.transpose(m, [0, 2, 1]), others.transpose(0, 2, 1) @ matrices @ matrices.transpose(0, 2, 1)),
            "softmax": (lambda b, x, z: ops.softmax(x, 1), softmax(x, 1)), "softmax last": (lambda b, x, z: ops.softmax(x), softmax(x, -1)),
            "masked_softmax": (lambda b, n, mask: ops.masked_softmax(ops.transpose(n, [0, 2, 1]), ops.reshape(mask, [b.rows, 1, 3])),
                               softmax(np.where(mask[:, None], others.transpose(0, 2, 1), -np.inf), -1)),
            "max_pool2d": (lambda b, images: ops.max_pool2d(images), images.reshape(4, 2, 2, 2, 2, 2).max((2, 4))),
            "max_pool2d whole": (lambda b, images: ops.max_pool2d(images, kernel=4, stride=4), images.max((1, 2), keepdims=True)),
            "upsample": (lambda b, images: ops.upsample_nearest(images, 3), images.repeat(3, 1).repeat(3, 2)),
            "gather_rows": (lambda b, ids: ops.gather_rows(tables(b), ids), np.full((4, 3, 2), 0.5)),
            "gather_sum": (lambda b, ids, mask: ops.gather_sum(tables(b), ids, ops.cast(mask, "f32")), np.full((4, 2), 1.0)),
            "dropout": (lambda b, x, z: ops.dropout(x, 0.5) * 1, x),
            "attention": (lambda b, n, mask: ops.attention(n, n, n, mask, heads=5),
                          np.concatenate([softmax(np.where(mask[:, None], others[..., h, None] * others[:, None, :, h], -np.inf), -1) @ others[..., h, None]
                                          for h in range(5)], -1)),
            "op": (lambda b, x, z: b.op1("tanh", [x]), np.tanh(x)),
        }
        held = {"x": x, "z": z, "flags": flags, "images": images, "ids": ids, "m": matrices, "n": others, "mask": mask, "table": table}
        for name, (build, wanted) in cases.items():
            names = build.__code__.co_varnames[1 : build.__code__.co_argcount]
            found = self.value_of(build, {each: held[each] for each in names})
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6, err_msg=name)

    def test_an_lstm_cell(self):
        gates = np.random.RandomState(3).rand(4, 8).astype(np.float32)
        state = np.ones((4, 2), np.float32)
        sigmoid = lambda a: 1 / (1 + np.exp(-a))
        c = sigmoid(gates[:, 2:4]) * 1 + sigmoid(gates[:, :2]) * np.tanh(gates[:, 4:6])
        feeds = {"gates": gates, "h": state, "c": state}
        for part, wanted in ((0, sigmoid(gates[:, 6:]) * np.tanh(c)), (1, c)):
            np.testing.assert_allclose(self.value_of(lambda b, gates, h, c: ops.lstm_cell(gates, h, c)[part], feeds), wanted, rtol=1e-5)

    def test_every_layer_declares_its_weights(self):
        @snug.network
        def layers(b):
            with b.scope("images"):
                self.assertEqual(b.scope_name, "images")
                y = conv2d("conv", b.input("picture", [4, 4, 2]), 3, kernel=2, stride=2, padding=0, has_bias=False)
                self.assertEqual((y.shape, y.dtype, y.dim(-1)), ((b.rows, 2, 2, 3), "f32", 3))
                y = batch_norm("norm", y, momentum=0.2)
            y = layer_norm("norm", ops.reshape(y, [b.rows, 12]), 1e-6)
            ids = b.input("ids", [5], np.int32)
            with b.scope("words"):
                words = ops.reduce_sum(embedding("table", ids, 7, 12), [1])
            with b.scope("words", shared=True):
                words = words + embedding_sum("table", ids, b.input("counts", [5]), 7, 12)
            scale = b.parameter("scale", [12], snug.InitRule.uniform(0.5))
            shift = b.buffer("shift", [12], snug.InitRule(constant=2.0))
            y = linear("out", y + words * scale + shift, 2)
            b.output("y", y)
            b.minimize(mean_squared_error(y, b.input("t", [2])) + 0.5 * b.weighted_mean(y * y, b.input("counted", [], "bool")))

        shapes = {each.name: each.shape for each in snug.tensors_of(layers)}
        self.assertEqual(shapes, {"images.conv.weight": (3, 2, 2, 2), "images.norm.weight": (3,), "images.norm.bias": (3,), "images.norm.running_mean": (3,),
                                  "images.norm.running_var": (3,), "norm.weight": (12,), "norm.bias": (12,), "words.table.weight": (7, 12), "scale": (12,),
                                  "shift": (12,), "out.weight": (2, 12), "out.bias": (2,)})
        session = snug.Session(layers, batch_rows=4, memory="32MiB")
        np.testing.assert_array_equal(session.read("shift"), np.full(12, 2, np.float32))
        self.assertLessEqual(np.abs(session.read("scale")).max(), 0.5)
        random = np.random.RandomState(0)
        rows = {"picture": random.rand(4, 4, 4, 2).astype(np.float32), "ids": random.randint(0, 7, (4, 5), np.int32),
                "counts": np.ones((4, 5), np.float32), "t": np.zeros((4, 2), np.float32), "counted": np.array([True, False, True, True])}
        losses = [session.step(rows).loss for _ in range(20)]
        self.assertLess(losses[-1], losses[0])
        self.assertTrue(np.any(session.read("images.norm.running_mean") != 0))

    def test_what_a_function_raises_comes_out_as_itself(self):
        class Mine(Exception):
            pass

        mine = Mine("own")

        def function(b):
            raise mine

        try:
            snug.plan_network(snug.Network("raises", function), **OPTIONS)
            self.fail("nothing was raised")
        except Mine as error:
            self.assertIs(error, mine)
            self.assertIn("function", [frame.name for frame in traceback.extract_tb(error.__traceback__)])

        @snug.network
        def crossed(b):
            w = b.parameter("w", [WIDTH + 1, 2], snug.InitRule.zeros())
            b.minimize(mean_squared_error(b.input("x", [WIDTH]) @ w, b.input("t", [2])))

        error = refused(self, "shape_mismatch", "to see what it is fed", lambda: snug.plan_network(crossed, **OPTIONS))
        self.assertIsInstance(error.__cause__, snug.Error)  # with the line of the function

        @snug.network
        def caught_itself(b):
            x = b.input("x", [WIDTH])
            try:
                ops.reshape(x, [b.rows, WIDTH + 1])
            except snug.Error:
                pass
            b.minimize(b.weighted_mean(linear("out", x, 1)))

        snug.plan_network(caught_itself, **OPTIONS)

    def test_marks_say_what_is_run_again_and_change_no_bit(self):
        def blocks(checkpointed):
            def block(x):
                return ops.gelu(linear("up", layer_norm("norm", x), 32))

            @snug.network(name="blocks")
            def of(b):
                x = linear("in", b.input("x", [WIDTH]), 32)
                for i in range(3):
                    with b.scope(f"block.{i}"):
                        x = recompute.checkpoint(block, x) if checkpointed else block(x)
                x = recompute.named("last", x)
                b.minimize(cross_entropy(linear("out", x, CLASSES), b.input("label", dtype="i32")))
            return of

        # One micro-batch: which split is cheaper is a matter of this machine's prices, and another split sums in another order.
        plain, again = (snug.Session(blocks(each), **OPTIONS, micro_batch_size=8, recompute="keep-all" if not each else "") for each in (False, True))
        self.assertEqual(plain.plan.ops_run_again, 0)
        self.assertGreater(again.plan.ops_run_again, 0)
        for _ in range(3):
            self.assertEqual(plain.step(batch()), again.step(batch()))

        @snug.network
        def sequential(b):
            x = b.input("x", [WIDTH])
            layers = [lambda y, i=i: ops.tanh(linear(f"l{i}", y, WIDTH)) for i in range(5)]
            x = recompute.checkpoint_sequential(layers, 2, x)
            x = recompute.keep(recompute.recompute_grad(lambda y: ops.tanh(linear("more", y, WIDTH)))(x))
            b.minimize(b.weighted_mean(x * x))

        self.assertGreater(snug.plan_network(sequential, **OPTIONS).ops_run_again, 0)

        @snug.network
        def empty_part(b):
            x = linear("in", b.input("x", [WIDTH]), 2)
            recompute.checkpoint(lambda y: y, x)
            b.minimize(b.weighted_mean(x))

        refused(self, "invalid_graph", "nothing to run again", lambda: snug.plan_network(empty_part, **OPTIONS))

    def test_a_part_that_the_loss_does_not_read(self):
        @snug.network
        def put_out(b):
            x = b.input("x", [WIDTH])
            b.output("features", recompute.checkpoint(lambda y: ops.tanh(linear("head", y, 3)), x))
            b.minimize(cross_entropy(linear("out", ops.tanh(linear("in", x, 8)), CLASSES), b.input("label", dtype="i32")))

        session = snug.Session(put_out, **OPTIONS)
        session.step(batch())
        self.assertEqual(session.predict({"x": batch()["x"]})["features"].shape[1], 3)
        refused(self, "bad_config", "marks nothing", lambda: snug.plan_network(put_out, **OPTIONS, recompute="marked"))

    def test_a_gradient_is_given_none_for_what_is_no_number(self):
        given = []

        def gradient(x, y, is_on, dy, dis_on):
            given.append(dis_on)
            return 2.0 * dy

        op = snug.Op("halves", lambda x, y, is_on: (np.multiply(x, 2, out=y), np.greater(x, 0, out=is_on)), inputs=["x"], outputs=["y", "is_on"],
                     shapes=lambda t: [t, snug.TensorType("bool", t.shape)], gradient=gradient)

        @snug.network(ops=[op])
        def halved(b):
            y, is_on = op(linear("in", b.input("x", [WIDTH]), 8))
            b.minimize(cross_entropy(linear("out", ops.where(is_on, y, 0.0), CLASSES), b.input("label", dtype="i32")))

        snug.plan_network(halved, **OPTIONS)
        self.assertEqual(set(given), {None})

    def test_a_part_that_raises_is_ended(self):
        def around(part):
            @snug.network
            def caught(b):
                x = recompute.keep(linear("in", b.input("x", [WIDTH]), WIDTH))
                with self.assertRaises(ZeroDivisionError):
                    part(x)
                b.minimize(b.weighted_mean(ops.tanh(linear("out", x, 1))))

            return snug.plan_network(caught, **{**OPTIONS, "recompute": "marked"})

        empty = around(lambda x: recompute.checkpoint(lambda y: 1 / 0, x))
        used = around(lambda x: recompute.checkpoint(lambda y: [ops.tanh(y), 1 / 0], x))
        self.assertEqual([empty.ops_run_again, used.ops_run_again], [around(lambda x: 1 / 0).ops_run_again] * 2)

    def test_parts_of_a_concat_may_come_one_by_one(self):
        @snug.network
        def joined(b):
            x = b.input("x", [WIDTH])
            b.minimize(b.weighted_mean(linear("out", ops.concat((x for _ in range(2)), 1), 1)))

        self.assertGreater(snug.plan_network(joined, **OPTIONS).arena_bytes, 0)


@snug.op(flops=lambda x, factor: 2 * np.prod(x.shape, dtype=float))
def squares(x, y, *, factor=1.0):
    np.multiply(x, x * np.float32(factor), out=y)


@squares.gradient
def of_squares(x, y, dy, *, factor):
    return (2 * factor) * x * dy


def network_with(op, use):
    @snug.network(name="own", ops=[op] if op else [])
    def own(b):
        x = linear("in", b.input("x", [WIDTH]), 4)
        y = linear("out", use(x), 1)
        b.output("y", y)
        b.minimize(b.weighted_mean(y * y))
    return own


class OwnOps(unittest.TestCase):
    rows = {"x": batch()["x"]}

    def learned(self, network, **options):
        session = snug.Session(network, **{**OPTIONS, "optim": "sgd", **options})
        for _ in range(5):
            session.step(self.rows)
        return session

    def same(self, one, other):
        for name, value in one.state_dict().items():
            np.testing.assert_allclose(value, other.read(name), rtol=1e-5, err_msg=name)

    def test_a_kernel_in_numpy_with_a_gradient_of_ops_or_in_numpy(self):
        wanted = self.learned(network_with(None, lambda x: 3 * (x * x)))
        self.same(wanted, self.learned(network_with(squares, lambda x: squares(x, factor=3.0)), repeats_own_ops=True))
        calls = []

        def backward(x, y, dy, dx, *, factor):
            calls.append((x.flags.writeable, dx.flags.writeable))
            dx[...] = np.float32(2 * factor) * x * dy

        own = snug.Op("squares", lambda x, y, *, factor: np.copyto(y, x * x * np.float32(factor)), inputs=["x"], attributes={"factor": 1.0}, backward=backward)
        self.same(wanted, self.learned(network_with(own, lambda x: own(x, factor=3.0)), micro_batch_size=2))
        self.assertEqual(set(calls), {(False, True)})

    def test_shapes_scratch_and_inputs_without_a_gradient(self):
        @snug.op(outputs=("low", "high"), shapes=lambda x, ids, split: [snug.TensorType("f32", (x.shape[0], split)), snug.TensorType("f32", (x.shape[0], x.shape[1] - split))],
                 scratch_bytes=lambda x, ids, split: 4 * x.shape[1], differentiable=["x"],
                 backward=lambda x, ids, low, high, dlow, dhigh, dx, *, split: np.concatenate([dlow, dhigh], 1, out=dx))
        def parts(x, ids, low, high, *, split=1, scratch):
            assert scratch.dtype == np.uint8 and scratch.size == 16 and ids.dtype == np.int32
            low[...], high[...] = x[:, :split], x[:, split:]

        def use(x):
            low, high = parts(x, ids[0], split=3)
            return ops.concat([high, low], 1)

        ids = [None]

        @snug.network(name="own", ops=[parts])
        def own(b):
            ids[0] = b.input("ids", [], "i32")
            y = linear("out", use(linear("in", b.input("x", [WIDTH]), 4)), 1)
            b.output("y", y)
            b.minimize(b.weighted_mean(y * y))

        @snug.network(name="own")
        def plain(b):
            x = linear("in", b.input("x", [WIDTH]), 4)
            y = linear("out", ops.concat([ops.slice(x, 1, 3, 4), ops.slice(x, 1, 0, 3)], 1), 1)
            b.output("y", y)
            b.minimize(b.weighted_mean(y * y))

        wanted = self.learned(plain)
        self.rows = {**self.rows, "ids": np.zeros(ROWS, np.int32)}
        self.same(wanted, self.learned(own))

    def test_a_c_function_by_its_address(self):
        @Kernel
        def kernel(_context, inputs, outputs, dims, numbers, _scratch):
            assert (dims[0], dims[1]) == (0, 2)
            size = dims[2] * dims[3]
            x, y = ((ctypes.c_float * size).from_address(each[0]) for each in (inputs, outputs))
            for i in range(size):
                y[i] = x[i] * x[i] * numbers[0]
            return 0

        address = ctypes.cast(kernel, ctypes.c_void_p).value
        own = snug.Op("squares", address, inputs=["x"], attributes={"factor": 1.0}, gradient=of_squares)
        self.same(self.learned(network_with(None, lambda x: 3 * (x * x))), self.learned(network_with(own, lambda x: own(x, factor=3.0))))

    def test_a_kernel_that_numba_has_compiled(self):
        try:
            import numba
        except ImportError:
            common.not_run(self, "numba is not installed")
        from numba import types

        @numba.cfunc(types.int64(types.voidptr, types.CPointer(types.voidptr), types.CPointer(types.voidptr), types.CPointer(types.int64), types.CPointer(types.float64), types.voidptr))
        def kernel(_unused, inputs, outputs, dims, numbers, _scratch):
            size = dims[2] * dims[3]
            x, y = numba.carray(inputs[0], (size,), np.float32), numba.carray(outputs[0], (size,), np.float32)
            for i in range(size):
                y[i] = x[i] * x[i] * numbers[0]
            return 0

        own = snug.Op("squares", kernel.address, inputs=["x"], attributes={"factor": 1.0}, gradient=of_squares)
        self.same(self.learned(network_with(None, lambda x: 3 * (x * x))), self.learned(network_with(own, lambda x: own(x, factor=3.0))))

    def test_random_numbers_of_an_ops_own(self):
        @snug.op(shapes=lambda x, key: x, gradient=lambda x, key, y, dy: [dy, None])
        def noisy(x, key, y):
            seed, update, first = (int(each) for each in key)
            y[...] = x + np.stack([np.random.RandomState([seed % 2**32, update, first + row]).rand(x.shape[1]) for row in range(len(x))]).astype(np.float32)

        def use(x):
            key = x.builder.random_key()
            return x if key is None else noisy(x, key)

        whole, split = (self.learned(network_with(noisy, use), micro_batch_size=size) for size in (8, 2))
        for name, value in whole.state_dict().items():
            np.testing.assert_allclose(value, split.read(name), rtol=1e-4)

    def test_a_kernel_that_raises_when_weights_have_moved_leaves_a_session_that_says_so(self):
        fails = []

        def backward(x, y, dy, dx):
            if fails:
                raise fails.pop()
            dx[...] = dy

        def copy(x, y):
            y[...] = x

        fragile = snug.Op("fragile", copy, inputs=["x"], backward=backward)
        network = network_with(fragile, fragile)
        for options, moves in ((dict(max_grad_norm=1.0), False), (dict(micro_batch_size=2), False), (dict(micro_batch_size=ROWS), True)):
            session = self.learned(network, **options)
            tensors = {tensor.name: session.read(tensor.name) for tensor in session.tensors()}
            counts = session.counts
            fails.append(ZeroDivisionError("by zero"))
            with self.assertRaises(ZeroDivisionError):
                session.step(self.rows)
            self.assertEqual(session.counts, counts)
            self.assertEqual(any((session.read(name) != value).any() for name, value in tensors.items()), moves)
            if moves:
                for use in (lambda: session.step(self.rows), lambda: session.evaluate(self.rows), lambda: session.predict(self.rows), lambda: session.save("none")):
                    refused(self, "bad_config", "some weights had moved", use)
                for name, value in tensors.items():
                    session.write(name, value)
                session.set_counts(*counts)
            self.assertEqual(session.step(self.rows), (wanted := self.learned(network, **options)).step(self.rows))
            for name, value in wanted.state_dict().items():
                np.testing.assert_array_equal(value, session.read(name), err_msg=name)

    def test_numbers_of_numpy(self):
        seen = []

        def kernel(x, y, *, k, n, scratch):
            seen.append((k, n, scratch.nbytes))
            np.multiply(x, k, out=y)

        op = snug.Op("mine", kernel, inputs=["x"], attributes={"k": np.float32(1), "n": np.int64(2)}, gradient=lambda x, y, dy, *, k, n: dy * k,
                     shapes=lambda x, **_: snug.TensorType("f32", tuple(np.array(x.shape))), scratch_bytes=lambda x, **_: np.int64(8), flops=lambda x, **_: np.float32(x.shape[0]))
        self.same(self.learned(network_with(op, lambda x: op(x, k=np.float64(3), n=np.int32(5)))), self.learned(network_with(None, lambda x: 3 * x)))
        self.assertEqual(seen[0], (3, 5, 8))

    def test_a_kernel_that_does_not_write_its_output_is_refused(self):
        def bound(x, y):
            y = 2 * x  # noqa: F841: what is asked

        def first_only(x, y, z):
            y[...] = x

        def empty_too(x, y, z):
            y[...], z[...] = x, 0

        gradient = dict(inputs=["x"], gradient=lambda *tensors: tensors[-1])
        refused(self, "bad_config", "does not write 'y'", lambda: self.learned(network_with(op := snug.Op("bound", bound, **gradient), lambda x: op(x))))
        for kernel in (first_only, empty_too):
            def learn(kernel=kernel):
                op = snug.Op("two", kernel, inputs=["x"], outputs=["y", "z"], shapes=lambda x: [x, snug.TensorType("i32", (x.shape[0],))], gradient=lambda x, y, z, dy, dz: dy)
                return self.learned(network_with(op, lambda x: op(x)[0]))
            if kernel is first_only:
                refused(self, "bad_config", "does not write 'z'", learn)
            else:
                learn()
        backward = snug.Op("half", lambda x, y: np.copyto(y, x), inputs=["x"], backward=lambda x, y, dy, dx: dy * 1)
        refused(self, "bad_config", "does not write 'dx'", lambda: self.learned(network_with(backward, lambda x: backward(x))))

    def test_what_a_kernel_raises_comes_out_and_the_session_goes_on(self):
        fails = []

        @snug.op
        def fragile(x, y):
            if fails:
                raise fails.pop()
            y[...] = x

        fragile.gradient(lambda x, y, dy: dy)
        session = self.learned(network_with(fragile, fragile))
        before = session.state_dict()
        for error in (ZeroDivisionError("by zero"), KeyboardInterrupt(), snug.Error("bad_data", "here", "own")):
            fails.append(error)
            with self.assertRaises(type(error)) as caught:
                session.step(self.rows)
            self.assertIs(caught.exception, error)
        for name, value in before.items():
            np.testing.assert_array_equal(value, session.read(name))
        self.assertEqual(session.step(self.rows).update, 6)
        kept = []

        @snug.op
        def keeper(x, y):
            y[...] = x
            kept.append(x[1:])

        keeper.gradient(lambda x, y, dy: dy)
        refused(self, "bad_config", "keeps an array beyond the call", lambda: self.learned(network_with(keeper, keeper)))
        kept.clear()

        @snug.op
        def wrong_gradient(x, y):
            y[...] = x

        wrong_gradient.gradient(lambda x, y, dy: dy @ dy)
        refused(self, "shape_mismatch", "matmul", lambda: self.learned(network_with(wrong_gradient, wrong_gradient)))


if __name__ == "__main__":
    unittest.main()
