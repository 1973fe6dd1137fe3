#!/usr/bin/env python3
"""A PyTorch model at several budgets: planned and measured peak, seconds of a step, and what PyTorch's own ways take in turns.

    python3 bench/torch_budgets.py gpt2 layers=12 batch=16 length=512 --device cuda
    python3 bench/torch_budgets.py llama layers=8 batch=2 length=256 --device cpu --points 20 --optimizer SGD --grads none

Beside `snug.torch.backend` run: the model without a backend ("eager"), AOTAutograd's graphs ("aot_eager"), every layer under torch.utils.checkpoint, and
`activation_memory_budget` at some fractions, all op by op ("aot_eager" with min-cut), or, with `--mode inductor`, all compiled by Inductor. Times are
medians of `--rounds` rounds in turns; budgets that get one plan share its time.
Behind the table stands what must hold: cost and peak over budgets, and both beside PyTorch's fractions.
"""
import argparse
import copy
import gc
import json
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "tests" / "torch"), str(HERE)]
import snug  # noqa: E402
import snug.torch  # noqa: E402
import torch_models  # noqa: E402
from snug.torch._resident import update_bytes  # noqa: E402


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


class Step:
    def __init__(self, model, batch, run, words):
        self.model, self.batch, self.run, self.device, self.grads = model, batch, run, words.device, words.grads

    def __call__(self):
        if self.grads == "none":
            self.model.zero_grad(set_to_none=True)
        result = self.run(**self.batch)
        (result.loss if hasattr(result, "loss") else result[0]).backward()

    def measured(self):
        self()
        self()
        if self.grads == "none":
            self.model.zero_grad(set_to_none=True)
        with snug.torch.measure(self.device) as measured:
            self()
        return measured.peak_bytes

    def seconds(self):
        wait(self.device)
        start = time.perf_counter()
        self()
        wait(self.device)
        return time.perf_counter() - start


def min_cut(budget):
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def partition(*args, **words):
        with torch._functorch.config.patch(activation_memory_budget=budget):
            return min_cut_rematerialization_partition(*args, **words)

    return aot_autograd(fw_compiler=boxed_nop, partition_fn=partition, keep_inference_input_mutations=True)


def under_inductor(model, budget=1.0):
    """With a backend of its own: Dynamo would take what it compiled for another fraction."""
    from torch._inductor.compile_fx import compile_fx

    def backend(module, inputs):
        with torch._functorch.config.patch(activation_memory_budget=budget):
            return compile_fx(module, inputs)

    return torch.compile(model, backend=backend, dynamic=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=torch_models.LARGE)
    parser.add_argument("arguments", nargs="*", metavar="NAME=NUMBER")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shares", default="1,0.8,0.6,0.4,0.2,0", help="of what lies between the smallest peak found and keeping all")
    parser.add_argument("--fractions", default="0.9,0.7,0.5,0.3,0.1,0", help="of activation_memory_budget")
    parser.add_argument("--points", type=int, help="so many shares and fractions from 0 to 1, instead of the lists")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--optimizer", default="AdamW", help="of torch.optim")
    parser.add_argument("--grads", default="accumulate", choices=["accumulate", "none"], help="whether .grad is there when a step begins")
    parser.add_argument("--mode", default="exact", choices=["exact", "inductor"], help="of both sides")
    parser.add_argument("--bf16", action="store_true", help="under autocast")
    words = parser.parse_args()
    if words.points:
        words.shares = ",".join(f"{1 - i / (words.points - 1):.4g}" for i in range(words.points))
        words.fractions = ",".join(f"{1 - i / words.points:.4g}" for i in range(words.points))
    with snug.torch.measure(words.device) as before:
        pass
    torch.manual_seed(0)
    model, batch = torch_models.LARGE[words.model](**{name: int(value) for name, value in (word.split("=") for word in words.arguments)})
    model.train().to(words.device)
    batch = {key: value.to(words.device) for key, value in batch.items()}
    optimizer = getattr(torch.optim, words.optimizer)(model.parameters())
    if words.grads == "accumulate":
        for each in model.parameters():
            each.grad = torch.zeros_like(each)

    def autocast(run):
        def inside(**batch):
            with torch.autocast(words.device, torch.bfloat16, enabled=words.bf16):
                return run(**batch)
        return inside

    start = time.perf_counter()
    with torch.autocast(words.device, torch.bfloat16, enabled=words.bf16):
        plan = snug.torch.plan(model, batch, optimizer=optimizer, differentiate="loss", grads=words.grads, memory=1 << 50, mode=words.mode)
    resident = plan.region.resident
    with snug.torch.measure(words.device) as there:
        pass
    # What the model has on the device and its graph does not: a second copy of rotary frequencies, say.
    beside = there.start_bytes - before.start_bytes - resident.parameters - resident.buffers_and_inputs - (resident.gradients if words.grads == "accumulate" else 0)
    print(f"planned in {time.perf_counter() - start:.1f} s; smallest {plan.smallest_bytes}, keeping all {plan.keep_all_bytes}", flush=True)
    states = update_bytes(optimizer, torch.device(words.device)).states - before.start_bytes  # counted by the plan and not there; there and of no model
    rows = []
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = 1000  # the same code under many backends

    def add(name, run, planned=None, overhead=None):
        gc.collect()
        step = Step(model, batch, autocast(run), words)
        try:
            peak = step.measured() + states
        except snug.Error as error:
            print(f"{name}: {error}", flush=True)
            return None
        rows.append({"name": name, "step": step, "planned": planned, "measured": peak, "overhead": overhead, "times": []})
        print(name, planned, peak, flush=True)
        return rows[-1]

    timed = {}
    for share in map(float, words.shares.split(",")):
        memory = beside + plan.smallest_bytes + int(share * (plan.keep_all_bytes - plan.smallest_bytes))
        backend = snug.torch.backend(memory, optimizer=optimizer, resident_bytes=beside, differentiate="loss", grads=words.grads, mode=words.mode)
        row = add(f"snug {share}", torch.compile(model, backend=backend, dynamic=False), memory)
        if row is not None and backend.plans:
            plan_of_row = backend.plans[-1]
            row.update(planned=plan_of_row.peak_bytes, overhead=plan_of_row.overhead, budget=memory, solve=plan_of_row.report["seconds"])
            key = (plan_of_row.peak_bytes, str(plan_of_row.report["schedule"]))
            row.update(timed.setdefault(key, {"step": row["step"], "times": row["times"]}))  # one plan, one time
    for fraction in filter(None, words.fractions.split(",")):
        fraction = float(fraction)
        add(f"activation_memory_budget {fraction}", under_inductor(model, fraction) if words.mode == "inductor" else torch.compile(model, backend=min_cut(fraction), dynamic=False))
    add("eager", model)
    if words.mode == "inductor":
        add("inductor", under_inductor(model))
    add_checkpoint(model, batch, words, rows, autocast, states + before.start_bytes)
    steps = {id(row["step"]): row for row in rows}
    for _ in range(words.rounds):
        for row in steps.values():
            row["times"].append(row["step"].seconds())
    for row in rows:
        row["seconds"] = statistics.median(row.pop("times"))
        del row["step"]
    keep_all = next(row["seconds"] for row in rows)
    print(f"\n{torch.cuda.get_device_name() if words.device == 'cuda' else 'cpu'}, PyTorch {torch.__version__}: {words.model} {' '.join(words.arguments)}")
    print(f"{'':<32}{'planned':>14}{'measured':>14}{'seconds':>10}{'x':>7}{'predicted':>10}")
    for row in rows:
        planned = "" if row["planned"] is None else f"{row['planned'] / 1e6:.1f} MB"
        predicted = "" if row["overhead"] is None else f"{1 + row['overhead']:.3f}"
        print(f"{row['name']:<32}{planned:>14}{row['measured'] / 1e6:>11.1f} MB{row['seconds']:>10.4f}{row['seconds'] / keep_all:>7.3f}{predicted:>10}")
    judge(rows)
    print(json.dumps(rows))


def judge(rows):
    """What must hold, as far as rows show it. Measured times need a quiet machine."""
    ours = [row for row in rows if row["name"].startswith("snug")]
    theirs = [row for row in rows if row["name"].startswith("activation")]
    costs, seconds = ([row[key] for row in sorted(ours, key=lambda row: row["budget"])] for key in ("overhead", "seconds"))
    print(f"planned cost never rises with the budget: {costs == sorted(costs, reverse=True)}")
    rises = max([after / before - 1 for i, before in enumerate(seconds) for after in seconds[i + 1:]], default=0)
    print(f"measured time rises with the budget by {rises:.1%} at most")
    print(f"measured peak never above the budget: {all(row['measured'] <= row['budget'] for row in ours)}; "
          f"largest difference of planned and measured {max(row['planned'] - row['measured'] for row in ours)} bytes")
    least = min(row["measured"] for row in ours)
    print(f"smallest peak: {least} bytes" + (f"; of activation_memory_budget {min(row['measured'] for row in theirs)}" if theirs else ""))
    compare(ours, [row for row in rows if row["name"] == "every layer checkpointed"], "every layer checkpointed")
    if not theirs:
        return
    peaks = [row["measured"] for row in theirs]
    print(f"activation_memory_budget: peak rises at {sum(a < b for a, b in zip(peaks, peaks[1:]))} of {len(peaks) - 1} steps to a smaller fraction")
    compare(ours, theirs, "its fractions")


def compare(ours, theirs, name):
    if not theirs:
        return
    worse = [row["name"] for row in ours if any(other["measured"] < row["measured"] and other["seconds"] < 0.97 * row["seconds"] for other in theirs)]
    print(f"more bytes and more time (by 3 %) than {name}: {', '.join(worse) or 'none'}")
    small = [row for row in ours if row["measured"] < 0.8 * max(each["measured"] for each in ours)]
    saved = [saving(row, theirs) for row in small]
    print(f"below 0.8 of keeping all, less of bytes or time than {name} at no more of the other: {', '.join(f'{each:.1%}' for each in saved) or 'no budget is'}"
          + (f"; mean {statistics.mean(saved):.1%}" if saved else ""))


def saving(row, theirs):
    """What a row takes less of one than the best of these which take no more of the other; below 0 where one of them is better in both."""
    def less(of, other):
        rivals = [each[of] for each in theirs if each[other] <= row[other]] or [each[of] for each in theirs]
        return 1 - row[of] / min(rivals)

    return max(less("measured", "seconds"), less("seconds", "measured"))


def add_checkpoint(model, batch, words, rows, autocast, beside):
    """Of a copy of the model, since it changes that. `beside`: bytes that count with a peak."""
    from snug.torch._checkpoint import layers_of, set_checkpointed
    with snug.torch.measure(words.device) as others:
        pass
    twin = copy.deepcopy(model)
    try:
        layers = layers_of(twin)
    except snug.Error:
        return
    for each in layers.values():
        set_checkpointed(each, True)
    step = Step(twin, batch, autocast(under_inductor(twin) if words.mode == "inductor" else twin), words)
    shared = sum(each.nbytes for each in batch.values() if isinstance(each, torch.Tensor))
    peak = step.measured() + beside - (others.start_bytes - shared)
    rows.append({"name": "every layer checkpointed", "step": step, "planned": None, "measured": peak, "overhead": None, "times": []})


if __name__ == "__main__":
    main()
