#!/usr/bin/env python3
"""Draws the arena of plans over the steps of a training step, as the figure of docs/planning.md.

usage: draw_plan.py [--names] PROBLEM.json PLAN.json [PLAN.json ...] > plan.svg

   snug plan KEYS --memory 4GiB   --save-problem problem.json --save-plan keep.json
   snug plan KEYS --memory 200MiB --save-plan small.json
   tools/draw_plan.py problem.json keep.json small.json > docs/planning.svg

Plans are of the same micro-batch and length as the problem; of each the training program of the largest length is drawn. A rectangle is a live
range: its steps across, its bytes up. What is lower than half a pixel is not drawn. With --names panels are higher, and what a rectangle has
room for stands in it.
"""
import json
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP, BOTTOM = 720, 190, 64, 52, 44, 26
NAMED_HEIGHT, LETTER = 460, 5.6  # of a panel with names; the width of a letter in them
KINDS = {"kept": ("#3b6fb6", "kept from forward to backward"), "again": ("#e08214", "made again"), "forward": ("#b7cfe8", "forward only"),
         "backward": ("#7fb77e", "backward"), "scratch": ("#888888", "scratch")}


def training_plan(path):
    with open(path) as file:
        programs = [each for each in json.load(file)["programs"] if each["kind"] == "train"]
    return max(programs, key=lambda each: each["plan"]["load_bytes"])["plan"]


def kinds_of(plan, phases):
    """For each live range its kind; and the first step of the backward part."""
    if max(step["op"] for step in plan["steps"]) >= len(phases):
        sys.exit("the plan has ops that the problem lacks: both must come from the same keys")
    loss = next(i for i, step in enumerate(plan["steps"]) if phases[step["op"]] == "backward")
    seen, again = set(), []
    for step in plan["steps"]:
        again.append(step["op"] in seen)
        seen.add(step["op"])
    for each in plan["live_ranges"]:
        made = each["first"]
        if each["is_scratch"]:
            yield "scratch", loss
        elif again[made]:
            yield "again", loss
        elif phases[plan["steps"][made]["op"]] != "forward":
            yield "backward", loss
        else:
            yield ("kept" if made < loss <= each["last"] else "forward"), loss


def names_of(plan, problem):
    """For each live range what it is called: a storage, or the op whose scratch it is."""
    for each in plan["live_ranges"]:
        yield f"scratch of {problem['ops'][each['storage']]['id']}" if each["is_scratch"] else problem["storages"][each["storage"]]["id"]


def unit_of(most):
    """The unit of so many bytes, its bytes, and how many are between two marks."""
    return ("MiB", 2**20, 100) if most >= 2**20 else ("KiB", 2**10, 1)


def text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{words}</text>'


def label(name, kind, x, y, width, height):
    """The name in the middle of a rectangle, upright where only that has room; else nothing."""
    along, across = (width, height) if width >= height else (height, width)
    if across < 10 or along < LETTER * len(name):
        return []
    x, y = x + width / 2, y + height / 2
    turn = "" if width >= height else f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    colour = "#fff" if kind in ("kept", "scratch") else "#000"
    return [f'<text x="{x:.1f}" y="{y + 3.4:.1f}" font-size="10" text-anchor="middle" fill="{colour}"{turn}>{name}</text>']


def panel(plan, phases, top, high, most, title, names):
    unit, unit_bytes, marks = unit_of(most)
    across = WIDTH / len(plan["steps"])
    up = high / most
    floor = top + high
    lines = [text(LEFT, top - 8, f"{title}: {plan['arena_bytes'] / unit_bytes:.1f} {unit}, {len(plan['steps'])} steps"),
             f'<path d="M{LEFT} {top}V{floor}H{LEFT + WIDTH}" fill="none" stroke="#333"/>']
    loss = 0
    for i, (each, (kind, loss)) in enumerate(zip(plan["live_ranges"], kinds_of(plan, phases))):
        if each["bytes"] * up < 0.5:
            continue
        x, y = LEFT + each["first"] * across, floor - (each["offset"] + each["bytes"]) * up
        width, height = (each["last"] - each["first"] + 1) * across, each["bytes"] * up
        lines.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')
        lines += label(names[i], kind, x, y, width, height) if names else []
    lines += [f'<path d="M{LEFT + loss * across:.1f} {top}V{floor}" stroke="#333" stroke-dasharray="3 3"/>', text(LEFT + loss * across + 4, top + 12, "loss", size=11)]
    lines += [text(LEFT - 6, floor - at * unit_bytes * up + 4, f"{at} {unit}", "end", 11) for at in range(0, int(most / unit_bytes) + 1, marks)]
    return lines


def drawing(problem, plans, has_names=False):
    phases = [op.get("phase", "forward") for op in problem["ops"]]
    most = max(plan["arena_bytes"] for _, plan in plans)
    high = NAMED_HEIGHT if has_names else HEIGHT
    height = TOP + len(plans) * (high + GAP) - GAP + BOTTOM
    styles = "".join(f".{kind}{{fill:{colour}}}" for kind, (colour, _) in KINDS.items())
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {height}" font-family="sans-serif">',
             f"<style>{styles}rect{{stroke:#fff;stroke-width:.4}}</style>", '<rect width="100%" height="100%" fill="#fff"/>']
    x = LEFT
    for kind, (_, words) in KINDS.items():
        lines += [f'<rect class="{kind}" x="{x}" y="8" width="12" height="12"/>', text(x + 17, 18, words)]
        x += 30 + 7 * len(words)
    for i, (title, plan) in enumerate(plans):
        lines += panel(plan, phases, TOP + i * (high + GAP), high, most, title, list(names_of(plan, problem)) if has_names else None)
    lines.append(text(LEFT + WIDTH, height - 8, "steps of the schedule →", "end", 11))
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    words = sys.argv[1:]
    has_names = words[:1] == ["--names"]
    words = words[has_names:]
    if len(words) < 2 or words[0].startswith("-"):
        sys.exit(__doc__)
    with open(words[0]) as file:
        problem = json.load(file)
    plans = [(plan["strategy"] if plan["strategy"] != "budget" else "recomputed", plan) for plan in map(training_plan, words[1:])]
    sys.stdout.write(drawing(problem, plans, has_names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
