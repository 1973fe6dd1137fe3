#!/usr/bin/env python3
"""Writes training graphs as problem files of `snug solve remat`: VGG, ResNet, U-Net, DenseNet, MobileNet, FCN, two-tower,
and random layered ones. Bytes are those of fp32 tensors; costs are milliseconds of a device with 10 Tflop/s and 500 GB/s.
For tests, documentation and measurements; the planner knows nothing of these families.

    python3 tools/make_remat_graphs.py resnet --depth 50 --output resnet50.json
    python3 tools/make_remat_graphs.py unet --depth 3 --coarse --again all --order random --costs unit --output foreign.json
    python3 tools/make_remat_graphs.py --list
"""
import argparse
import json
import random
import sys

FLOPS_PER_MS = 10e9
BYTES_PER_MS = 500e6


class Tape:
    """A forward graph whose backward part writes itself: every layer pushes a function that makes its gradients."""

    def __init__(self):
        self.bytes, self.ops, self.keep, self.resident = {}, [], [], []
        self.backward, self.grads = [], {}

    def storage(self, name, size):
        assert name not in self.bytes, name
        self.bytes[name] = int(size)
        return name

    def op(self, name, phase, inputs, outputs, flops=0, scratch=0, **more):
        touched = sum(self.bytes.get(i, 0) for i in inputs + outputs)
        cost = round(flops / FLOPS_PER_MS + touched / BYTES_PER_MS + 0.002, 6)
        self.ops.append({"id": name, "phase": phase, "cost": cost, "inputs": inputs, "outputs": outputs,
                         **({"scratch_bytes": int(scratch)} if scratch else {}), **more})

    def weight(self, name):
        self.resident.append(name)
        return name

    def source(self, name, size):
        """An input of the step: made by an op that may not run again."""
        self.storage(name, size)
        self.op("load." + name, "forward", [], [name], recompute=False)
        return name

    def layer(self, name, inputs, size, flops=0, weight=0, reads=("x",), scratch=0, also=()):
        """y = name(inputs); its gradient reads dy and, as `reads` says, the inputs (x) and the output (y)."""
        w = [self.weight(name + ".w")] if weight else []
        y = self.storage(name, size)
        extra = [self.storage(f"{name}.{suffix}", bytes_) for suffix, bytes_ in also]
        self.op(name, "forward", inputs + w, [y] + extra, flops, scratch)
        self.backward.append((name, list(inputs), y, extra, w, weight, flops, tuple(reads), scratch))
        return y

    def add_grad(self, of, grad):
        if of not in self.bytes or of not in self.wants:
            return
        if of not in self.grads:
            self.grads[of] = grad
            return
        total = self.storage(f"d.{of}.sum{len(self.ops)}", self.bytes[of])
        self.op(f"add.{total}", "backward", [self.grads[of], grad], [total])
        self.grads[of] = total

    def finish(self, out):
        self.wants = {y for _, _, y, *_ in self.backward}
        loss = self.storage("loss", 4)
        self.op("loss", "forward", [out], [loss], recompute=False)
        self.keep.append(loss)
        self.op("loss.grad", "backward", [out], [self.storage("d." + out, self.bytes[out])])
        self.grads[out] = "d." + out
        for name, inputs, y, extra, w, weight, flops, reads, scratch in reversed(self.backward):
            if y not in self.grads:
                continue
            wanted = [i for i in inputs if i in self.wants]
            outs = [self.storage(f"d.{i}.{name}", self.bytes[i]) for i in wanted]
            if weight:
                outs.append(self.storage("d." + name + ".w", weight))
                self.keep.append(outs[-1])
            if not outs:
                continue
            ins = [self.grads[y]] + (inputs if "x" in reads else []) + ([y] if "y" in reads else []) + extra + w
            self.op("grad." + name, "backward", list(dict.fromkeys(ins)), outs, 2 * flops if weight else flops, scratch)
            for i, grad in zip(wanted, outs):
                self.add_grad(i, grad)
        return {"storages": [{"id": i, "bytes": b} for i, b in self.bytes.items()], "resident": self.resident, "keep": self.keep,
                "ops": self.ops}


class Images(Tape):
    """Layers on images; a value is (name, channels, height)."""

    def __init__(self, batch, fused=False):
        super().__init__()
        self.batch, self.count, self.fused = batch, 0, fused

    def size(self, channels, height):
        return 4 * self.batch * channels * height * height

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def image(self, channels, height):
        return (self.source("image", self.size(channels, height)), channels, height)

    def conv(self, x, channels, kernel=3, stride=1, groups=1):
        name, cin, h = x
        out = max(1, h // stride)
        macs = self.batch * channels * out * out * (cin // groups) * kernel * kernel
        y = self.layer(self.name("conv"), [name], self.size(channels, out), 2 * macs, 4 * channels * (cin // groups) * kernel * kernel,
                       scratch=self.size(cin, h) // 8 if kernel > 1 and groups == 1 else 0)
        return (y, channels, out)

    def norm(self, x):
        y = self.layer(self.name("bn"), [x[0]], self.size(*x[1:]), weight=8 * x[1], also=[("stats", 8 * x[1])])
        return (y, *x[1:])

    def relu(self, x):
        return (self.layer(self.name("relu"), [x[0]], self.size(*x[1:]), reads=("y",)), *x[1:])

    def block(self, x, channels, kernel=3, stride=1, groups=1):
        x = self.conv(x, channels, kernel, stride, groups)
        return self.relu(x if self.fused else self.norm(x))

    def pool(self, x, stride=2):
        out = max(1, x[2] // stride)
        return (self.layer(self.name("pool"), [x[0]], self.size(x[1], out), also=[("index", self.size(x[1], out) // 4)], reads=()), x[1], out)

    def mean(self, x):
        return (self.layer(self.name("mean"), [x[0]], self.size(x[1], 1), reads=()), x[1], 1)

    def up(self, x):
        return (self.layer(self.name("up"), [x[0]], self.size(x[1], x[2] * 2), reads=()), x[1], x[2] * 2)

    def add(self, a, b):
        return (self.layer(self.name("add"), [a[0], b[0]], self.size(*a[1:]), reads=()), *a[1:])

    def concat(self, values):
        channels = sum(v[1] for v in values)
        h = values[0][2]
        return (self.layer(self.name("concat"), [v[0] for v in values], self.size(channels, h), reads=()), channels, h)

    def linear(self, x, features):
        width = x[1] * x[2] * x[2]
        y = self.layer(self.name("linear"), [x[0]], 4 * self.batch * features, 2 * self.batch * width * features, 4 * width * features)
        return (y, features, 1)


def vgg(depth, batch, rng):
    net = Images(batch, fused=True)
    stages = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}.get(depth) or (max(1, depth // 5),) * 5
    x = net.image(3, 224)
    for count, channels in zip(stages, (64, 128, 256, 512, 512)):
        for _ in range(count):
            x = net.block(x, channels)
        x = net.pool(x)
    x = net.relu(net.linear(x, 4096))
    x = net.relu(net.linear(x, 4096))
    return net.finish(net.linear(x, 1000)[0])


def resnet(depth, batch, rng):
    net = Images(batch)
    stages = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}.get(depth)
    bottleneck = depth >= 50
    if stages is None:
        total = max(4, depth // 3)
        stages = (max(1, total // 10), max(1, total * 4 // 10), max(1, total * 4 // 10), max(1, total // 10))
    x = net.pool(net.block(net.image(3, 224), 64, 7, 2))
    for i, (count, channels) in enumerate(zip(stages, (64, 128, 256, 512))):
        for k in range(count):
            stride = 2 if i and not k else 1
            out = channels * 4 if bottleneck else channels
            if bottleneck:
                y = net.block(x, channels, 1)
                y = net.block(y, channels, 3, stride)
                y = net.norm(net.conv(y, out, 1))
            else:
                y = net.norm(net.conv(net.block(x, channels, 3, stride), out))
            short = x if x[1] == out and stride == 1 else net.norm(net.conv(x, out, 1, stride))
            x = net.relu(net.add(y, short))
    return net.finish(net.linear(net.mean(x), 1000)[0])


def unet(depth, batch, rng):
    net = Images(batch, fused=depth < 4)
    x = net.image(3, 256)
    skips = []
    for level in range(depth):
        for _ in range(2):
            x = net.block(x, 64 << min(level, 4))
        skips.append(x)
        x = net.pool(x)
    for _ in range(2):
        x = net.block(x, 64 << min(depth, 4))
    for level in reversed(range(depth)):
        x = net.block(net.concat([net.conv(net.up(x), 64 << min(level, 4), 1), skips[level]]), 64 << min(level, 4))
        x = net.block(x, 64 << min(level, 4))
    return net.finish(net.conv(x, 2, 1)[0])


def densenet(depth, batch, rng):
    net = Images(batch)
    stages = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32)}.get(depth) or (max(2, depth // 8),) * 4
    x = net.pool(net.block(net.image(3, 224), 64, 7, 2))
    for i, count in enumerate(stages):
        values = [x]
        for _ in range(count):
            y = net.concat(values) if len(values) > 1 else values[0]
            y = net.conv(net.relu(net.norm(y)), 128, 1)
            values.append(net.conv(net.relu(net.norm(y)), 32))
        x = net.concat(values)
        if i + 1 < len(stages):
            x = net.pool(net.conv(net.relu(net.norm(x)), x[1] // 2, 1))
    return net.finish(net.linear(net.mean(x), 1000)[0])


def mobilenet(depth, batch, rng):
    net = Images(batch)
    x = net.block(net.image(3, 224), 32, 3, 2)
    for i in range(depth):
        stride = 2 if i in (1, 3, 5, 11) else 1
        channels = min(1024, 64 << (i > 0) + (i > 2) + (i > 4) + (i > 10))
        x = net.block(net.block(x, x[1], 3, stride, groups=x[1]), channels, 1)
    return net.finish(net.linear(net.mean(x), 1000)[0])


def fcn(depth, batch, rng):
    net = Images(batch, fused=True)
    x = net.image(3, 256)
    taps = []
    for level in range(5):
        for _ in range(max(1, depth // 5)):
            x = net.block(x, min(512, 64 << level))
        x = net.pool(x)
        taps.append(x)
    x = net.block(x, 1024)
    x = net.conv(x, 21, 1)
    for level in (3, 2):
        x = net.add(net.conv(net.up(x), 21), net.conv(taps[level], 21, 1))
    for _ in range(3):
        x = net.conv(net.up(x), 21)
    return net.finish(x[0])


def tower(depth, batch, rng):
    net = Images(batch)
    towers = []
    for side in range(2):
        x = (net.source(f"image{side}", net.size(3, 128)), 3, 128)
        for i in range(depth):
            x = net.block(x, min(256, 32 << i // 2), 3, 2 if i % 2 and x[2] > 8 else 1)
        towers.append(net.linear(net.mean(x), 256))
    joint = net.relu(net.linear(net.concat(towers), 512))
    return net.finish(net.linear(joint, 10)[0])


def layered(depth, batch, rng):
    """Random layers: every op reads one to three values of the layers before it; sizes and costs vary widely."""
    net = Tape()
    layers = [[net.source("input", 4 * batch * rng.choice((1 << 14, 1 << 16)))]]
    while sum(map(len, layers)) < depth:
        now = []
        for k in range(rng.randint(1, 4)):
            inputs = []
            for _ in range(rng.randint(1, 3)):
                back = layers[-1] if rng.random() < 0.75 else rng.choice(layers)
                inputs.append(rng.choice(back))
            size = 4 * batch * (1 << rng.randint(10, 16))
            heavy = rng.random() < 0.5
            reads = rng.choice((("x",), ("y",), ("x", "y"), ()))
            now.append(net.layer(f"f{len(layers)}_{k}", list(dict.fromkeys(inputs)), size,
                                 flops=rng.random() * 4e9 if heavy else 0, weight=rng.randint(1, 1 << 14) if heavy else 0,
                                 reads=reads, scratch=size // 4 if rng.random() < 0.2 else 0))
        layers.append(now)
    out = net.layer("out", layers[-1], 4 * batch * 1000, flops=1e9)
    return net.finish(out)


def plain(depth, batch, rng):
    """Layers of up to a dozen ops that read some earlier ones, mostly of the layer before; no backward part."""
    net = Tape()
    most = rng.choice((2, 3, 5, 8))
    layers = [[net.source("input", 4096)]]
    while sum(map(len, layers)) < depth:
        now = []
        for k in range(rng.randint(1, max(2, min(12, depth // 10)))):
            inputs = {rng.choice(layers[-1] if rng.random() < 0.6 else rng.choice(layers)) for _ in range(rng.randint(1, most))}
            now.append(net.storage(f"n{len(layers)}_{k}", rng.randint(1, 100) << 10))
            net.op(now[-1], "forward", sorted(inputs), [now[-1]], flops=rng.random() * 1e9)
        layers.append(now)
    net.op("end", "forward", layers[-1], [net.storage("end", 4)])
    net.keep.append("end")
    return {"storages": [{"id": i, "bytes": b} for i, b in net.bytes.items()], "resident": [], "keep": net.keep, "ops": net.ops}


def coarsen(problem):
    """Joins chains: an op whose only output has one reader of the same phase becomes one with it."""
    makers = {o: op for op in problem["ops"] for o in op["outputs"]}
    readers = {}
    for op in problem["ops"]:
        for i in op["inputs"]:
            readers.setdefault(i, []).append(op)
    size = {s["id"]: s["bytes"] for s in problem["storages"]}
    joined = set()
    for op in problem["ops"]:
        for name in list(op["inputs"]):
            maker = makers.get(name)
            if maker is None or len(readers[name]) > 1 or len(maker["outputs"]) > 1 or name in problem["keep"] or not maker["inputs"] \
                    or maker["phase"] != op["phase"] or "recompute" in maker or "recompute" in op:
                continue
            inputs = list(dict.fromkeys(maker["inputs"] + [i for i in op["inputs"] if i != name]))
            for i in maker["inputs"]:
                readers.setdefault(i, []).append(op)
                readers[i] = [r for r in readers[i] if r is not maker]
            op["inputs"], op["cost"] = inputs, round(op["cost"] + maker["cost"], 6)
            op["scratch_bytes"] = max(op.get("scratch_bytes", 0), maker.get("scratch_bytes", 0), size[name])
            joined.add(maker["id"])
    problem["ops"] = [op for op in problem["ops"] if op["id"] not in joined]
    made = {o for op in problem["ops"] for o in op["outputs"]}
    problem["storages"] = [s for s in problem["storages"] if s["id"] in made]


def reorder(problem, rng):
    """A random valid order, mostly along the listed one."""
    left, made, order = list(problem["ops"]), set(problem["resident"]), []
    while left:
        ready = [op for op in left[:60] if made.issuperset(op["inputs"])]
        op = ready[min(int(rng.expovariate(0.7)), len(ready) - 1)]
        left.remove(op)
        made.update(op["outputs"])
        order.append(op)
    problem["ops"] = order


def update(problem, rng):
    """Every weight is updated at once behind its gradient, which is not kept; the weights are resident."""
    ops = []
    for op in problem["ops"]:
        ops.append(op)
        for grad in [o for o in op["outputs"] if o in problem["keep"] and o.startswith("d.") and o.endswith(".w")]:
            ops.append({"id": "update" + grad[1:], "phase": "update", "cost": round(op["cost"] / 50, 6),
                        "inputs": [grad, grad[2:]], "outputs": [grad[2:]]})
            problem["keep"].remove(grad)
    # A later reader would see the new weight; with one use a weight there is none.
    problem["ops"] = ops


LIGHT = ("relu", "bn", "add", "pool", "concat", "up")


def add_variants(problem, rng):
    """Ops may compute what a light op makes within, from what that op reads, in the time of both. Where no family has light ops
    any third op is one."""
    makers = {o: op for op in problem["ops"] for o in op["outputs"]}
    drawn = {op["id"] for op in problem["ops"] if rng.random() < 1 / 3}
    for op in problem["ops"]:
        for name in op["inputs"]:
            maker = makers.get(name)
            if maker is None or maker["phase"] != "forward" or not maker["inputs"] or maker.get("recompute") is False:
                continue
            if not (maker["id"].startswith(LIGHT) or maker["id"] in drawn):
                continue
            op.setdefault("variants", []).append(
                {"id": f"{op['id']}.with.{maker['id']}", "cost": round(op["cost"] + maker["cost"], 6),
                 "inputs": list(dict.fromkeys([i for i in op["inputs"] if i != name] + maker["inputs"])),
                 "scratch_bytes": op.get("scratch_bytes", 0)})


def add_workspaces(problem, rate):
    """Convolutions have a workspace as large as the largest storage, or take `rate` times as long without it."""
    largest = max(s["bytes"] for s in problem["storages"])
    for op in problem["ops"]:
        if "conv" in op["id"]:
            op["scratch_bytes"] = largest
            op["variants"] = [{"id": op["id"] + ".bare", "cost": round(op["cost"] * rate, 6), "inputs": op["inputs"]}]


def vary(problem, arguments, rng):
    if arguments.coarse:
        coarsen(problem)
    if arguments.updates:
        update(problem, rng)
    if arguments.order == "random":
        reorder(problem, rng)
    size = {s["id"]: s["bytes"] for s in problem["storages"]}
    if arguments.bytes == "random":
        for s in problem["storages"]:
            s["bytes"] = rng.randint(1, 1000) << 10
    for op in problem["ops"]:
        touched = sum(size.get(s, 0) for s in op["outputs"])
        op["cost"] = {"device": op["cost"], "unit": 1, "bytes": touched / 1e6, "random": rng.randint(1, 100),
                      "zeros": op["cost"] if rng.random() < 0.5 else 0}[arguments.costs]
        if arguments.again == "all" and op["inputs"] and op["phase"] != "update":
            op["recompute"] = True
    if arguments.resident_inputs:
        inputs = {o for op in problem["ops"] if not op["inputs"] for o in op["outputs"]}
        problem["ops"] = [op for op in problem["ops"] if op["inputs"]]
        problem["storages"] = [s for s in problem["storages"] if s["id"] not in inputs]
        problem["resident"] += sorted(inputs)
    if arguments.no_weight_grads:
        problem["keep"] = [s for s in problem["keep"] if not s.endswith(".w")]
    if arguments.variants:
        add_variants(problem, rng)
    if arguments.workspaces:
        add_workspaces(problem, arguments.workspaces)


FAMILIES = {"vgg": (vgg, 16), "resnet": (resnet, 50), "unet": (unet, 4), "densenet": (densenet, 121), "mobilenet": (mobilenet, 13),
            "fcn": (fcn, 10), "tower": (tower, 8), "layered": (layered, 60), "plain": (plain, 100)}


def make(family, depth=None, batch=32, seed=0):
    function, usual = FAMILIES[family]
    return function(depth or usual, batch, random.Random(seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="?", choices=sorted(FAMILIES))
    parser.add_argument("--depth", type=int, help="layers, levels (unet) or ops of the forward part (layered, plain)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0, help="of whatever is random")
    parser.add_argument("--coarse", action="store_true", help="chains of ops joined")
    parser.add_argument("--updates", action="store_true", help="every weight updated behind its gradient")
    parser.add_argument("--order", choices=("usual", "random"), default="usual")
    parser.add_argument("--costs", choices=("device", "unit", "bytes", "random", "zeros"), default="device")
    parser.add_argument("--bytes", choices=("model", "random"), default="model")
    parser.add_argument("--again", choices=("forward", "all"), default="forward", help="ops that may run again")
    parser.add_argument("--variants", action="store_true", help="ops that compute light ops before them within")
    parser.add_argument("--workspaces", type=float, metavar="RATE", help="convolutions with workspaces, which take RATE (at least 1) times as long without")
    parser.add_argument("--resident-inputs", action="store_true")
    parser.add_argument("--no-weight-grads", action="store_true", help="gradients of weights are not kept")
    parser.add_argument("--output", help="file to write; standard output without it")
    parser.add_argument("--list", action="store_true", help="print the families with their usual depth and number of ops")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (_, depth) in FAMILIES.items():
            print(f"{name:10} --depth {depth:<4} {len(make(name)['ops']):5} ops")
        return
    if arguments.workspaces is not None and arguments.workspaces < 1:
        parser.error("--workspaces: a way without a workspace takes at least as long")
    if not arguments.family:
        parser.error("name a family; --list prints them")
    problem = make(arguments.family, arguments.depth, arguments.batch, arguments.seed)
    vary(problem, arguments, random.Random(arguments.seed + 1))
    text = json.dumps(problem, indent=None)
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
