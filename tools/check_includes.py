#!/usr/bin/env python3
"""Checks that every file includes only what its folder may.

The edges are the DEPS of snug_folder() and snug_test() in src/*/CMakeLists.txt; this script reads those lines, so there is one
statement of each edge. What a folder's API names it knows by public headers alone, and by the single headers that its FRONTS name. Three more rules: oneDNN's headers appear only under backend/cpu and in *_cpu*.cc; cli/ includes
nothing of src/; and files do not know one another in a circle, a header and its source taken together, but for two: a front and the part
that only it uses.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def read_edges():
    edges = {}
    for file in sorted(SRC.rglob("CMakeLists.txt")):
        for call in re.finditer(r"snug_(folder|test)\(\s*(\w+)([^)]*)\)", file.read_text()):
            kind, name, body = call.groups()
            match = re.search(r"\bDEPS\b(.*?)(?:\bAPI\b|\bFRONTS\b|\bLIBS\b|\bLABEL\b|$)", body, re.S)
            edges[(kind, name)] = set(match.group(1).split()) if match else set()
    return edges


def read_fronts():
    """Headers that a folder may include although its DEPS do not list theirs."""
    fronts = {}
    for file in sorted(SRC.rglob("CMakeLists.txt")):
        for call in re.finditer(r"snug_folder\(\s*(\w+)([^)]*)\)", file.read_text()):
            match = re.search(r"\bFRONTS\b(.*?)(?:\bLIBS\b|$)", call.group(2), re.S)
            fronts[call.group(1)] = set(match.group(1).split()) if match else set()
    return fronts


def folder_of(path):
    """The target that a file belongs to."""
    parts = path.relative_to(SRC).parts
    if parts[0] == "backend" and len(parts) > 2:
        return parts[1]
    if parts[0] == "plan" and len(parts) > 2:
        return f"plan_{parts[1]}"
    if parts[0] == "ops" and len(parts) > 2:
        stem = path.stem
        if re.search(r"_ref$", stem):
            return "reference"
        if re.search(r"_cpu(_\w+)?$|-inl$", stem):
            return "cpu"
    return parts[0]


def target_of_include(name):
    parts = name.split("/")
    if parts[0] == "backend" and len(parts) > 2:
        return parts[1]
    if parts[0] == "plan" and len(parts) > 2:
        return f"plan_{parts[1]}"
    return parts[0]


def units():
    """What every header and its source, as one, include of src: {"io/file": {"base/units", ...}}."""
    found = {}
    for path in sorted([*SRC.rglob("*.h"), *SRC.rglob("*.cc")]):
        if "test" in path.stem:
            continue
        unit = str(path.relative_to(SRC).with_suffix(""))
        includes = found.setdefault(unit, set())
        for line in path.read_text().splitlines():
            match = INCLUDE.match(line)
            if match and match.group(1) == '"' and (SRC / match.group(2)).exists():
                includes.add(str(pathlib.PurePath(match.group(2)).with_suffix("")))
        includes.discard(unit)
    return found


def circles(graph):
    """The sets of units that reach one another (Tarjan 1972, without recursion), of more than two."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            unit, rest = work[-1]
            for other in rest:
                if other not in graph:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in on_stack:
                    low[unit] = min(low[unit], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == index[unit]:
                    circle = []
                    while not circle or circle[-1] != unit:
                        circle.append(stack.pop())
                        on_stack.discard(circle[-1])
                    if len(circle) > 2:
                        found.append(sorted(circle))
    return found


def main():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert not circles({"front": {"part"}, "part": {"front"}, "other": {"front"}})
    edges = read_edges()
    fronts = read_fronts()
    folders = {name for kind, name in edges if kind == "folder"}
    errors = []
    for path in sorted([*SRC.rglob("*.h"), *SRC.rglob("*.cc"), *(ROOT / "cli").rglob("*.*"), *(ROOT / "include").rglob("*.h")]):
        if path.suffix not in (".h", ".cc"):
            continue
        in_src = SRC in path.parents
        is_test = path.stem.endswith("_test") or "test" in path.stem
        own = folder_of(path) if in_src else None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, name = match.groups()
            where = f"{path.relative_to(ROOT)}:{number}"
            if "dnnl" in name and in_src and own != "cpu":
                errors.append(f"{where}: oneDNN belongs to backend/cpu and *_cpu.cc")
            if quote == "<" or name.startswith("snug/"):
                continue
            target = target_of_include(name)
            if not in_src:
                if target in folders and "/" in name:
                    errors.append(f"{where}: only the public headers may be included here, not {name}")
                continue
            if target not in folders or target == own or is_test:
                continue
            if name in fronts.get(own, set()):
                continue
            if target not in edges.get(("folder", own), set()):
                errors.append(f"{where}: {own} may not include {name}; its DEPS do not list {target}")
    errors += [f"src: a circle of {', '.join(circle)}" for circle in circles(units())]
    for error in errors:
        print(error)
    print(f"includes: {len(folders)} folders, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
