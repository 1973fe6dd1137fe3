#!/usr/bin/env python3
"""Seconds that a first step takes under Inductor: by itself, and with snug.torch.backend(mode="inductor").

    python3 bench/torch_compile_times.py gpt2 bert resnet              models of tests/torch, two layers each
    python3 bench/torch_compile_times.py gpt2-large --device cuda      models of bench/torch_models.py

Every run is a process of its own with empty caches of compiled code; prices of ops are measured before, once, as they are on a device (--prices shows what
that takes). "whole" has a budget that PyTorch's own partition is within, so the first round holds; "less" has 0.7 of what lies above what is resident.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "tests" / "torch"), str(HERE)]
SIDES = ("inductor", "whole", "less")
GOALS = {"whole": 1.3, "less": 2.0}


def made(name, device):
    import torch

    import models
    import torch_models
    model, batch = torch_models.LARGE[name.removesuffix("-large")]() if name.endswith("-large") else models.MODELS[name]()
    return model.train().to(device), {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}


def first_step(side, name, device, memory):
    """Seconds, and the plan's bytes: resident, peak."""
    import torch

    import snug.torch
    torch.manual_seed(0)
    model, batch = made(name, device)
    optimizer = torch.optim.AdamW(model.parameters())
    backend = "inductor" if side == "inductor" else snug.torch.backend(memory, optimizer=optimizer, mode="inductor")
    run = torch.compile(model, backend=backend, dynamic=False)
    start = time.perf_counter()
    run(**batch)[0].backward()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    plan = backend.plans[0] if side != "inductor" else None
    print(json.dumps([seconds] + ([plan.resident.total, plan.peak_bytes, plan.rounds] if plan else [])))


def run(side, name, device, memory=1 << 50):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}
        words = [sys.executable, __file__, name, "--side", side, "--device", device, "--memory", str(memory)]
        done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prices", action="store_true", help="prints the first run, which measures prices")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.side:
        first_step(words.side, words.models[0], words.device, words.memory)
        return
    for name in words.models:
        seconds, resident, peak, _ = run("whole", name, words.device)
        if words.prices:
            print(f"{name}: {seconds:.1f} s with prices that are not known yet")
        memory = {"inductor": 0, "whole": 1 << 50, "less": resident + int(0.7 * (peak - resident))}
        times = {side: [] for side in SIDES}
        rounds = 0
        for _ in range(words.rounds):
            for side in SIDES:
                found = run(side, name, words.device, memory[side])
                times[side].append(found[0])
                rounds = max(rounds, found[3] if side == "less" else 0)
        medians = {side: statistics.median(each) for side, each in times.items()}
        ratios = {side: medians[side] / medians["inductor"] for side in GOALS}
        print(f"{name}: Inductor {medians['inductor']:.1f} s; " + "; ".join(
            f"{side} {medians[side]:.1f} s, {ratios[side]:.2f} x (goal <= {GOALS[side]})" for side in GOALS) + f"; {rounds} partitions lowered", flush=True)


if __name__ == "__main__":
    main()
