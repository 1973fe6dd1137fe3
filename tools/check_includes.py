#!/usr/bin/env python3
"""Checks that every file includes only what its folder may.

The edges are the DEPS of snug_folder() and snug_test() in src/*/CMakeLists.txt; this script reads those lines, so there is one
statement of each edge. What a folder's API names it knows only by public headers, and by the single headers that its FRONTS name. Three
more rules: oneDNN's headers appear only under backend/cpu and in *_cpu*.cc; cli/ includes nothing of src/; and files do not know one
another in a circle, a header and its source taken together (a unit). One circle is permitted, that of a front and its part: two units of
which nothing in src but the other includes one.

   check_includes.py [ROOT]     ROOT: a tree of its own, for the check's test
   check_includes.py --test     plants every error in a tree and sees that each is found
"""
import pathlib
import re
import sys
import tempfile

from source_lines import check

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def read_edges(src):
    edges = {}
    for file in sorted(src.rglob("CMakeLists.txt")):
        for call in re.finditer(r"snug_(folder|test)\(\s*(\w+)([^)]*)\)", file.read_text()):
            kind, name, body = call.groups()
            match = re.search(r"\bDEPS\b(.*?)(?:\bAPI\b|\bFRONTS\b|\bLIBS\b|\bLABEL\b|$)", body, re.S)
            edges[(kind, name)] = set(match.group(1).split()) if match else set()
    return edges


def read_fronts(src):
    """Headers that a folder may include although its DEPS do not list theirs."""
    fronts = {}
    for file in sorted(src.rglob("CMakeLists.txt")):
        for call in re.finditer(r"snug_folder\(\s*(\w+)([^)]*)\)", file.read_text()):
            match = re.search(r"\bFRONTS\b(.*?)(?:\bLIBS\b|$)", call.group(2), re.S)
            fronts[call.group(1)] = set(match.group(1).split()) if match else set()
    return fronts


def folder_of(path, src):
    """The target that a file belongs to."""
    parts = path.relative_to(src).parts
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


def units(src):
    """What every header and its source, as one, include of src: {"io/file": {"base/units", ...}}."""
    found = {}
    for path in sorted([*src.rglob("*.h"), *src.rglob("*.cc")]):
        if "test" in path.stem:
            continue
        unit = str(path.relative_to(src).with_suffix(""))
        includes = found.setdefault(unit, set())
        for line in path.read_text().splitlines():
            match = INCLUDE.match(line)
            if match and match.group(1) == '"' and (src / match.group(2)).exists():
                includes.add(str(pathlib.PurePath(match.group(2)).with_suffix("")))
        includes.discard(unit)
    return found


def is_front_and_part(circle, graph):
    """Whether nothing but the other of these two units includes one of them."""
    users = [{unit for unit, includes in graph.items() if each in includes} for each in circle]
    return len(circle) == 2 and any(len(each) == 1 for each in users)


def circles(graph):
    """The sets of units that reach one another (Tarjan 1972, without recursion), but for fronts with their part."""
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
                    if len(circle) > 1 and not is_front_and_part(circle, graph):
                        found.append(sorted(circle))
    return found


def errors_of_line(path, line, root, edges, fronts):
    """What is wrong with a line of this file."""
    match = INCLUDE.match(line)
    if not match:
        return
    quote, name = match.groups()
    src = root / "src"
    in_src = src in path.parents
    own = folder_of(path, src) if in_src else None
    if "dnnl" in name and in_src and own != "cpu":
        yield "oneDNN belongs to backend/cpu and *_cpu.cc"
    if quote == "<" or name.startswith("snug/"):
        return
    target = target_of_include(name)
    folders = {folder for kind, folder in edges if kind == "folder"}
    if not in_src:
        if target in folders and "/" in name:
            yield f"only the public headers may be included here, not {name}"
        return
    if target not in folders or target == own or "test" in path.stem or name in fronts.get(own, set()):
        return
    if target not in edges.get(("folder", own), set()):
        yield f"{own} may not include {name}; its DEPS do not list {target}"


def errors_of(root):
    src = root / "src"
    edges = read_edges(src)
    fronts = read_fronts(src)
    errors = []
    for path in sorted([*src.rglob("*.h"), *src.rglob("*.cc"), *(root / "cli").rglob("*.*"), *(root / "include").rglob("*.h")]):
        if path.suffix not in (".h", ".cc"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            errors += [f"{path.relative_to(root)}:{number}: {what}" for what in errors_of_line(path, line, root, edges, fronts)]
    return errors + [f"src: a circle of {', '.join(circle)}" for circle in circles(units(src))]


# A front with its part (shape, which cut.cc knows, too), folders that may include others, and a public header.
HARMLESS = {
    "src/low/CMakeLists.txt": "snug_folder(low SOURCES shape.cc)",
    "src/low/shape.h": "",
    "src/low/shape.cc": '#include "low/shape.h"\n#include "low/part.h"',
    "src/low/part.h": '#include "low/shape.h"',
    "src/low/part_test.cc": '#include "low/part.h"',
    "src/low/cut.cc": '#include "low/shape.h"',
    "src/high/CMakeLists.txt": "snug_folder(high SOURCES use.cc\n  DEPS low FRONTS side/front.h)",
    "src/high/use.cc": '#include "low/shape.h"\n#include "side/front.h"\n#include "snug/api.h"',
    "src/side/CMakeLists.txt": "snug_folder(side SOURCES front.cc)",
    "src/side/front.h": "",
    "src/side/back.h": "",
    "include/snug/api.h": "#include <vector>",
    "cli/main.cc": '#include "snug/api.h"',
}
PLANTED = [
    ({"src/low/other.cc": '#include "low/part.h"'}, "src: a circle of low/part, low/shape"),
    ({"src/low/a.h": '#include "low/b.h"', "src/low/b.h": '#include "low/c.h"', "src/low/c.h": '#include "low/a.h"'}, "src: a circle of low/a, low/b, low/c"),
    ({"src/low/second.h": '#include "low/shape.h"', "src/low/shape.cc": '#include "low/part.h"\n#include "low/second.h"'},
     "src: a circle of low/part, low/second, low/shape"),
    ({"src/low/up.cc": '#include "high/use.h"'}, "src/low/up.cc:1: low may not include high/use.h"),
    ({"src/high/side.cc": '#include "side/back.h"'}, "src/high/side.cc:1: high may not include side/back.h"),
    ({"src/high/product.cc": "#include <vector>\n#include <dnnl.hpp>"}, "src/high/product.cc:2: oneDNN belongs"),
    ({"cli/verb.cc": '#include "low/shape.h"'}, "cli/verb.cc:1: only the public headers"),
    ({"include/snug/more.h": '#include "low/shape.h"'}, "include/snug/more.h:1: only the public headers"),
]


def test():
    for files, wanted in [({}, None), *PLANTED]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**HARMLESS, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text + "\n")
            found = errors_of(root)
            assert len(found) == (wanted is not None) and all(each.startswith(wanted) for each in found), (wanted, found)
    print(f"includes: {len(PLANTED)} planted errors found")
    return 0


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    return check("includes", errors_of, "only what each folder may")


if __name__ == "__main__":
    sys.exit(main())
