"""PyTorch's side of compare_pytorch.py, a process of its own.

usage: pytorch_step.py MODEL BATCH LENGTH [--compile] [--bf16] [--threads N] [--attention sdpa|eager]
                       [--memory-format contiguous|channels_last] [--forward] [--count]

Reads lines: "step N" takes N steps (with --forward: forward parts in inference mode) and answers their seconds, "product MxNxK" answers FLOP/s of the best layout of such a product.
--count: prints the operations that PyTorch counts in a step, and those of step_models.py.
"""
import argparse
import json
import statistics
import sys
import time

import torch

import pytorch_models
from step_models import MODELS


class Step:
    def __init__(self, args):
        torch.manual_seed(1)
        self.is_bf16 = args.bf16
        self.module, self.inputs = pytorch_models.build(MODELS[args.model], args.batch, args.length, args.attention, args.memory_format)
        self.module.train(not args.forward)
        self.is_forward = args.forward
        parameters = self.module.parameters()
        if MODELS[args.model].optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(parameters, lr=5e-5, weight_decay=0.01, fused=True)
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=True)
        self.forward = torch.compile(self.module, dynamic=False) if args.compile else self.module

    def __call__(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.is_bf16), torch.inference_mode(self.is_forward):
            loss = self.forward(*self.inputs)
        if self.is_forward:
            return
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def seconds_of(run, times):
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return seconds


@torch.no_grad()
def product_rate(size, dtype):
    m, n, k = map(int, size.split("x"))
    rates = []
    for layout in ("nn", "nt", "tn"):
        a = torch.rand(k, m, dtype=dtype).t() if layout[0] == "t" else torch.rand(m, k, dtype=dtype)
        b = torch.rand(n, k, dtype=dtype).t() if layout[1] == "t" else torch.rand(k, n, dtype=dtype)
        c = torch.empty(m, n, dtype=dtype)
        rates.append(2 * m * n * k / statistics.median(seconds_of(lambda: torch.mm(a, b, out=c), 6)[1:]))
    return max(rates)


def count(step, args):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        step()
    print(json.dumps(dict(pytorch=counter.get_total_flops(), ours=(MODELS[args.model].forward_flops if args.forward else MODELS[args.model].flops)(args.batch, args.length))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("batch", type=int)
    parser.add_argument("length", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--attention", choices=["sdpa", "eager"])
    parser.add_argument("--memory-format", default="contiguous")
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("--count", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    step = Step(args)
    if args.count:
        count(step, args)
        return
    for line in sys.stdin:
        verb, what = line.split()
        answer = product_rate(what, torch.bfloat16 if args.bf16 else torch.float32) if verb == "product" else seconds_of(step, int(what))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
