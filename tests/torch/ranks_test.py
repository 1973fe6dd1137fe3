"""Several ranks over gloo: the backend and checkpointing by layer under DistributedDataParallel, the latter under FSDP2 too.

    python tests/torch/ranks_test.py     in an environment as for exact_test.py; four of them with SNUG_WHOLE_MATRIX=1
"""
import datetime
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.multiprocessing as processes

from cases import DEVICE, WHOLE_MATRIX, equal

RANKS = (2, 4) if WHOLE_MATRIX else (2,)


def start(rank, work, store, ranks):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=300))
    WORKS[work](rank)
    gc.collect()  # DDP holds the group
    torch.distributed.destroy_process_group()  # else a thread of Gloo's may let go of a tensor while Python ends, and abort


def part_of(rank, layers):
    from layers_test import deep
    model, batch = deep(layers)
    return model, {key: value[rank :: torch.distributed.get_world_size()] for key, value in batch.items()}


def tell(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # one write
    sys.stdout.flush()


def parallel(rank):
    """DDP compiles a graph for each of its buckets."""
    import snug.torch
    from layers_test import gradients
    model, batch = part_of(rank, 3)

    def steps(backend):
        torch._dynamo.reset()
        run = torch.compile(torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1), backend=backend, dynamic=False)
        for _ in range(3):  # buckets are laid out anew behind the first, and the memory is divided then
            found = gradients(run, batch)
        return found

    def backend(memory):
        return snug.torch.backend(memory, optimizer=torch.optim.AdamW(model.parameters()), graphs="several")

    wanted = steps("aot_eager")
    whole = backend("1GiB")
    assert equal(wanted, steps(whole))
    assert len(whole.plans) > 1
    assert whole.plans[0].resident.buckets == sum(each.nbytes for each in model.parameters())
    base, top = whole.plans[0].resident.total, max(plan.peak_bytes for plan in whole.plans)
    less = backend(base + int(0.75 * (top - base)))
    assert equal(wanted, steps(less))
    assert max(plan.peak_bytes for plan in less.plans) <= less.memory
    assert sum(plan.runs_again for plan in less.plans) > 0
    tell(hash(str([plan.report["schedule"] for plan in less.plans])))


def checkpointed(rank):
    """Gradients are those of DDP without us, and every rank has the choice of the first, whatever it would take itself."""
    import snug.torch
    from layers_test import deep, gradients
    ranks = torch.distributed.get_world_size()
    model, batch = deep(4, 8 * ranks)  # as many rows for each rank, so that layers are the same part of its bytes
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    batch = {key: value[rank::ranks] for key, value in batch.items()}
    gradients(wrapped, batch)  # DDP lays its buckets out anew behind the first backward part, and sums in another order
    wanted = gradients(wrapped, batch)
    wrapped.zero_grad()
    whole = snug.torch.checkpoint(wrapped, batch, memory="4GiB")
    # What a rank would choose for itself differs, but for the first.
    plan = snug.torch.checkpoint(wrapped, batch, memory=whole.measured_bytes * (85 if rank == 0 else 200) // 100)
    found = gradients(wrapped, batch)
    assert 0 < plan.checkpointed <= plan.layers, plan
    assert equal(wanted, found)
    wrapped.zero_grad()
    # Nor does one that fits go on alone: where rank 1 needs more layers made again, all make them again, or none trains.
    more = snug.torch.checkpoint(wrapped, batch, memory=whole.measured_bytes * (85 if rank == 0 else 70) // 100)
    assert more.checkpointed > plan.checkpointed, (more, plan)
    try:
        snug.torch.checkpoint(wrapped, batch, memory=whole.measured_bytes * (200 if rank == 0 else 10) // 100)
        raise AssertionError("fits in a tenth")
    except snug.DoesNotFit as error:
        assert "measured on rank 1 with" in str(error), error
    tell(plan.checkpointed)


def sharded(rank):
    import snug.torch
    from torch.distributed.fsdp import fully_shard
    from layers_test import gradients
    from snug.torch._layers import layers_of
    model, batch = part_of(rank, 4)
    for each in layers_of(model).values():
        fully_shard(each)
    fully_shard(model)

    def step():
        return [each.to_local().clone() for each in gradients(model, batch)]

    wanted = step()
    model.zero_grad()
    whole = snug.torch.checkpoint(model, batch, memory="4GiB")
    assert whole.checkpointed == 0
    plan = snug.torch.checkpoint(model, batch, memory=int(0.85 * whole.measured_bytes))
    assert 0 < plan.checkpointed
    assert plan.measured_bytes <= plan.memory
    assert equal(wanted, step())
    tell(plan.checkpointed)


WORKS = {"parallel": parallel, "checkpointed": checkpointed, "sharded": sharded}


@unittest.skipIf(DEVICE == "cuda", "one device for two ranks")
class Ranks(unittest.TestCase):
    def run_all(self, work):
        for ranks in RANKS:
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, __file__, work, str(pathlib.Path(folder, "store")), str(ranks)], capture_output=True, text=True, timeout=900,
                                      env={**os.environ, "PYTHONHASHSEED": "0"})
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])
                lines = done.stdout.split()
                self.assertEqual(len(lines), ranks)
                self.assertEqual(len(set(lines)), 1)  # equal plans

    def test_the_backend_under_ddp(self):
        self.run_all("parallel")

    def test_layers_under_ddp(self):
        self.run_all("checkpointed")

    def test_layers_under_fsdp2(self):
        self.run_all("sharded")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in WORKS:
        ranks = int(sys.argv[3])
        processes.start_processes(start, args=(sys.argv[1], sys.argv[2], ranks), nprocs=ranks, start_method="spawn")
    else:
        unittest.main()
