#!/usr/bin/env python3
"""Draws the arena of plans over the steps of a training step, as the figure of docs/planning.md.

usage: draw_plan.py PROBLEM.json PLAN.json [PLAN.json ...] > plan.svg

   snug plan KEYS --memory 4GiB   --save-problem problem.json --save-plan keep.json
   snug plan KEYS --memory 200MiB --save-plan small.json
   tools/draw_plan.py problem.json keep.json small.json > docs/planning.svg

Plans are of the same micro-batch and length as the problem; of each the training program of the largest length is drawn. A rectangle is a live
range: its steps across, its bytes up. What is lower than half a pixel is not drawn.
"""
import json
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP, BOTTOM = 720, 190, 64, 52, 44, 26
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


def text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{words}</text>'


def panel(plan, phases, top, most, name):
    across = WIDTH / len(plan["steps"])
    up = HEIGHT / most
    floor = top + HEIGHT
    lines = [text(LEFT, top - 8, f"{name}: {plan['arena_bytes'] / 2**20:.1f} MiB, {len(plan['steps'])} steps"),
             f'<path d="M{LEFT} {top}V{floor}H{LEFT + WIDTH}" fill="none" stroke="#333"/>']
    loss = 0
    for each, (kind, loss) in zip(plan["live_ranges"], kinds_of(plan, phases)):
        if each["bytes"] * up < 0.5:
            continue
        x, y = LEFT + each["first"] * across, floor - (each["offset"] + each["bytes"]) * up
        lines.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{(each["last"] - each["first"] + 1) * across:.1f}" height="{each["bytes"] * up:.1f}"/>')
    lines += [f'<path d="M{LEFT + loss * across:.1f} {top}V{floor}" stroke="#333" stroke-dasharray="3 3"/>', text(LEFT + loss * across + 4, top + 12, "loss", size=11)]
    lines += [text(LEFT - 6, floor - at * 2**20 * up + 4, f"{at} MiB", "end", 11) for at in range(0, int(most / 2**20) + 1, 100)]
    return lines


def drawing(phases, plans):
    most = max(plan["arena_bytes"] for _, plan in plans)
    height = TOP + len(plans) * (HEIGHT + GAP) - GAP + BOTTOM
    styles = "".join(f".{kind}{{fill:{colour}}}" for kind, (colour, _) in KINDS.items())
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {height}" font-family="sans-serif">',
             f"<style>{styles}rect{{stroke:#fff;stroke-width:.4}}</style>", '<rect width="100%" height="100%" fill="#fff"/>']
    x = LEFT
    for kind, (_, words) in KINDS.items():
        lines += [f'<rect class="{kind}" x="{x}" y="8" width="12" height="12"/>', text(x + 17, 18, words)]
        x += 30 + 7 * len(words)
    for i, (name, plan) in enumerate(plans):
        lines += panel(plan, phases, TOP + i * (HEIGHT + GAP), most, name)
    lines.append(text(LEFT + WIDTH, height - 8, "steps of the schedule →", "end", 11))
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        phases = [op.get("phase", "forward") for op in json.load(file)["ops"]]
    plans = [(plan["strategy"] if plan["strategy"] != "budget" else "recomputed", plan) for plan in map(training_plan, sys.argv[2:])]
    sys.stdout.write(drawing(phases, plans))
    return 0


if __name__ == "__main__":
    sys.exit(main())
