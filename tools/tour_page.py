#!/usr/bin/env python3
"""Writes what the product prints into docs/tour.md, and the arena's figure beside it.

usage: tour_page.py SNUG [FOLDER]            writes the parts of FOLDER/tour.md (docs) and FOLDER/tour.svg
       tour_page.py SNUG [FOLDER] --check    compares them instead; 1 where one differs

A part of the page stands between "<!-- printed: NAME -->" and "<!-- end -->". The bytes are the same on every x86 processor with AVX2: the
commands run under SNUG_MAX_ISA=avx2 with one thread, and on a machine that is imagined, on which every op takes SECONDS_PER_CALL and
SECONDS_PER_BYTE for each byte that it reads or writes. (Speeds are cached by machine: the cache here is a folder of its own, with the
imagined speeds under this machine's name.)
"""
import difflib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

from draw_plan import drawing, training_plan

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
INSTRUCTIONS = "avx2"
SECONDS_PER_CALL, SECONDS_PER_BYTE, CACHE_BYTES = 20e-6, 1e-9, 32 << 20
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] cat dog fox eats sees hears rice soup bread".split()
KEYS = [("model", "mlp"), ("hidden_sizes", 8), ("train_file", "rows.jsonl"), ("tokenizer", "vocab.txt"), ("max_seq_length", 5),
        ("train_batch_size", 16), ("validation_split", 0), ("optim", "sgd"), ("max_grad_norm", 0), ("learning_rate", 0.5),
        ("lr_scheduler_type", "constant"), ("max_steps", 1), ("threads", 1), ("memory", "64MiB")]
SHOWN_OPS = ("layers.0/matmul+relu", "layers.0/relu_grad", "layers.0/matmul#2", "layers.0/sgd")
SHOWN_STORAGES = ("layers.0.weight", "layers.0/relu", "layers.0/relu_grad", "layers.0/matmul#2")
PART = re.compile(r"(<!-- printed: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)


class Product:
    """The program in a folder with rows, a vocabulary and the imagined machine."""

    def __init__(self, program, folder):
        self.program, self.folder = pathlib.Path(program).resolve(), pathlib.Path(folder)
        rows = []
        for i in range(16):
            food = WORDS[11 + (i + i // 5) % 3]
            rows.append({"text": f"{WORDS[5 + i % 3]} {WORDS[8 + i // 3 % 3]} {food}", "label": food})
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (self.folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        self.env = dict(os.environ, SNUG_MAX_ISA=INSTRUCTIONS)
        for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "RECOMPUTE"):
            self.env.pop(name, None)
        self.imagine_machine()

    def run(self, *words):
        done = subprocess.run([self.program, *map(str, words)], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"snug {' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    def verb(self, name, *more):
        return self.run(name, *(word for key, value in KEYS for word in (f"--{key}", value)), *more)

    def imagine_machine(self):
        if f"({INSTRUCTIONS})" not in self.run("--version"):
            sys.exit(f"this processor has no {INSTRUCTIONS}")
        # Any plan leaves this machine's speeds in the cache, whose form the imagined ones have.
        self.run("plan", *"--model mlp --hidden_sizes 4 --vocab_size 10 --max_seq_length 4 --train_batch_size 1 --threads 1 --json".split())
        usual = pathlib.Path(self.env.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "snug", f"machine-1-{INSTRUCTIONS}.json")
        profile = json.loads(usual.read_text())
        rate = dict.fromkeys(profile["rates"][""], 0.0) | {"per_call": SECONDS_PER_CALL, "per_byte": SECONDS_PER_BYTE, "far_per_byte": SECONDS_PER_BYTE, "uncertainty": 0.1}
        self.profile = self.folder / "cache/snug" / usual.name
        self.profile.parent.mkdir(parents=True)
        self.imagined = json.dumps(dict(profile, cache_bytes=CACHE_BYTES, waited_share=0, rates={"": rate}))
        self.profile.write_text(self.imagined)
        self.env["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def require_imagined(self):
        if self.profile.read_text() != self.imagined:
            sys.exit("the imagined speeds were not taken: the program has measured this machine")


def sections(stages):
    """What `explain --stages` prints behind its table, by stage."""
    found = re.split(r"^== (.+)\n", stages, flags=re.M)
    return {name: body.strip("\n") for name, body in zip(found[1::2], found[2::2])}


def stages_without_times(stages):
    table = stages.split("\n\n")[0]
    return "\n".join(re.sub(r"^(.+?) +[\d.]+ ms +", lambda line: f"{line[1]:<16}", line) for line in table.split("\n") if not line.startswith("all "))


def lines_of(graph, first, last):
    """The lines of the values from `first` up to `last`."""
    return "\n".join(line for line in graph.split("\n") if (match := re.match(r" *%(\d+)", line)) and first <= int(match[1]) <= last)


def values_in(graph):
    return max(int(number) for number in re.findall(r"%(\d+)[^=\n]* = ", graph))


def lines_with(problem, ids):
    """The lines of these storages or ops, each without what ties it to the next."""
    found = {}
    for line in problem.split("\n"):
        if line.startswith('  {"id":'):
            each, end = json.JSONDecoder().raw_decode(line.strip())
            found[each["id"]] = line.strip()[:end]
    return "\n".join(found[each] for each in ids)


def tensor_of(path, name):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    begin, end = json.loads(data[8:8 + length])[name]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 4}f", data[8 + length + begin:8 + length + end])


def step_of(problem, plan, op):
    """The step that runs an op, and the range of its output, as the plan's file has them."""
    number = next(i for i, step in enumerate(plan["steps"]) if problem["ops"][step["op"]]["id"] == op)
    made = [each for each in plan["live_ranges"] if each["first"] == number and not each["is_scratch"]]
    return "\n".join(json.dumps(each, separators=(",", ":")) for each in [plan["steps"][number], *made])


def command_of(verb):
    words = [f"snug {verb}"] + [f"--{key} {value}" for key, value in KEYS] + (["--output_dir out"] if verb == "train" else [])
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 96:
            lines.append("   ")
        lines[-1] += (" " if lines[-1].strip() else "") + word
    return " \\\n".join(lines)


def parts_of(program):
    """Every part of the page by name, and the figure."""
    with tempfile.TemporaryDirectory() as folder:
        product = Product(program, folder)
        stages = product.verb("explain", "--stages")
        table = product.verb("plan", "--save-problem", "problem.json", "--save-plan", "plan.json")
        product.verb("train", "--output_dir", "out", "--json")
        product.require_imagined()
        told = sections(stages)
        problem_text = (product.folder / "problem.json").read_text()
        storages, ops = problem_text.split('"resident":')  # an op may be called as a storage is
        problem, plan = json.loads(problem_text), training_plan(product.folder / "plan.json")
        rows = (product.folder / "rows.jsonl").read_text().split("\n")
        summary = json.loads((product.folder / "out/summary.json").read_text())
        update = json.loads((product.folder / "out/metrics.jsonl").read_text().split("\n")[0])
        bias = tensor_of(product.folder / "out/last/model.safetensors", "classifier.bias")
    forward_values = values_in(told["forward"])
    parts = {
        "rows": "\n".join(rows[:3]),
        "command": command_of("train"),
        "stages": stages_without_times(stages),
        "forward": told["forward"],
        "backward": lines_of(told["backward"], forward_values + 1, values_in(told["backward"])),
        "problem": lines_with(storages, SHOWN_STORAGES) + "\n...\n" + lines_with(ops, SHOWN_OPS),
        "plan": table.strip("\n"),
        "step": step_of(problem, plan, "layers.0/matmul+relu"),
        "trained": f"loss before the update  {update['loss']:.4f}\n"
                   f"classifier.bias after   {' '.join(f'{value:.4f}' for value in bias)}\n"
                   f"arena in bytes          planned {summary['planned_arena_bytes']}, measured {summary['measured_arena_bytes']}",
    }
    return parts, drawing(problem, [(plan["strategy"], plan)], has_names=True)


def filled(page, parts):
    """The page with these parts, each between fences."""
    names = [match[2] for match in PART.finditer(page)]
    if sorted(names) != sorted(parts):
        sys.exit(f"the page must have each of these parts once: {', '.join(parts)}; it has {', '.join(names)}")
    return PART.sub(lambda match: f"{match[1]}```{'sh' if match[2] == 'command' else ''}\n{parts[match[2]]}\n```\n{match[4]}", page)


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if not 1 <= len(words) <= 2:
        sys.exit(__doc__)
    folder = pathlib.Path(words[1]) if len(words) == 2 else DOCS
    parts, figure = parts_of(words[0])
    page = (folder / "tour.md").read_text()
    wanted = {"tour.md": filled(page, parts), "tour.svg": figure}
    if "--check" not in sys.argv:
        for name, text in wanted.items():
            (folder / name).write_text(text)
        return 0
    errors = 0
    for name, text in wanted.items():
        path = folder / name
        there = path.read_text() if path.exists() else ""
        if there != text:
            errors += 1
            sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), text.splitlines(True), f"docs/{name}", f"docs/{name} as printed now", n=1))
    print(f"tour: {errors} files differ; tools/tour_page.py SNUG writes them" if errors else f"tour: {len(parts)} parts and the figure are as printed")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
