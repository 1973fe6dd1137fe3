#!/usr/bin/env python3
"""Checks that a namespace is a folder, and that a type's name says one type.

What src/ROOM declares stands in snug::ROOM, or in a namespace within it; what cli declares in snug::cli. Two kinds of things stand in snug itself:
the vocabulary of every room (VOCABULARY: values and ops, how they are computed, units and errors), and what include/snug declares, where a room
defines it. So a block of another room in snug has to define something public: in a header a part of a public class (struct Session::Impl).

A type's name (class, struct, enum or alias) that a header of src or include declares in a namespace is declared by no other header, whatever the
namespace, and no unnamed namespace of a source has a type of that name. Types within types are free, and tests.

   check_namespaces.py [ROOT]     ROOT: a tree of its own, for the check's test
   check_namespaces.py --test     plants every error in a tree and sees that each is found
"""
import re
import sys
import tempfile
import pathlib

VOCABULARY = {"base", "graph", "ops", "backend"}
ROOT = pathlib.Path(__file__).resolve().parent.parent
OPEN = re.compile(r"^(?:inline )?namespace ([\w:]+) \{$")
CLOSE = re.compile(r"^\}  // namespace ([\w:]+)$")
UNNAMED = re.compile(r"^namespace \{$")
END_UNNAMED = re.compile(r"^\}  // namespace$")
TYPE = re.compile(r"^(?:template .*> )?(?:struct|class|enum class|enum|union) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : [^;{]*)?(?: ?\{.*)?$")
ALIAS = re.compile(r"^(?:template .*> )?using (\w+) =")
FUNCTION = re.compile(r"((?:\w+::)*)(~?\w+)\(")


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path


def is_test(path):
    return re.search(r"(^|_)test(s|ing)?(_|$)", path.stem) is not None


def namespace_of(path, root):
    parts = path.relative_to(root).parts
    return "snug::cli" if parts[0] == "cli" else f"snug::{parts[1]}"


def lines_of(path):
    """(number, namespaces around it, whether an unnamed one is, line) of each line in column 0."""
    stack = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := OPEN.match(line):
            yield number, list(stack), None, line
            stack.append(match.group(1))
        elif UNNAMED.match(line):
            stack.append("")
        elif CLOSE.match(line) or END_UNNAMED.match(line):
            if stack:
                stack.pop()
        elif line and line[0] not in " #}/":
            yield number, list(stack), "" in stack, line


def type_of(line):
    match = TYPE.match(line) or ALIAS.match(line)
    return match.group(1) if match else None


def public_names(root):
    """What include/snug declares in snug: types, defined there or not, and functions by their names."""
    names = set()
    for path in sources(root, "include"):
        for _, spaces, _, line in lines_of(path):
            if spaces and (found := type_of(line.rstrip(";"))):
                names.add(found)
            elif spaces and (match := FUNCTION.search(line)):
                names.add(match.group(2))
    return names


def defines_public(line, names, is_header):
    if match := re.match(r"(?:struct|class) (\w+)", line):
        return match.group(1) in names
    match = None if is_header else FUNCTION.search(line)
    return match is not None and (match.group(1).split("::")[0] or match.group(2)) in names


def belongs(whole, want, rooms):
    """Whether a namespace is that of a folder, or within it."""
    if want.removeprefix("snug::") in VOCABULARY:
        return whole == "snug" or whole.startswith("snug::") and whole.split("::")[1] not in rooms
    return whole == want or whole.startswith(want + "::")


def block_errors(path, root, names, rooms):
    want = namespace_of(path, root)
    name = path.relative_to(root).as_posix()
    is_free = want.removeprefix("snug::") in VOCABULARY
    open_at = None  # of a block in snug that defines nothing public yet
    errors = []
    for number, spaces, is_unnamed, line in lines_of(path):
        if is_unnamed is None:
            whole = "::".join([*spaces, OPEN.match(line).group(1)])
            if open_at and not spaces:
                errors.append(f"{name}:{open_at}: nothing in this block of snug is public: it belongs into {want}")
            if not spaces:
                open_at = number if whole == "snug" and not is_free else None
            if whole != "snug" and not belongs(whole, want, rooms):
                errors.append(f"{name}:{number}: namespace {whole} in a file of {want}")
        elif open_at and not is_unnamed and spaces and defines_public(line, names, path.suffix == ".h"):
            open_at = None
        elif not is_free and path.suffix == ".h" and spaces == ["snug"] and not is_unnamed and type_of(line) not in (None, *names):
            errors.append(f"{name}:{number}: {type_of(line)} belongs into {want}")
            open_at = None
    if open_at:
        errors.append(f"{name}:{open_at}: nothing in this block of snug is public: it belongs into {want}")
    return errors


def type_errors(root):
    declared, errors = {}, []
    for path in sources(root, "src", "include"):
        if path.suffix != ".h" or is_test(path):
            continue
        for number, spaces, is_unnamed, line in lines_of(path):
            found = type_of(line) if spaces and is_unnamed is not None else None
            if found is None or spaces[-1] == "HWY_NAMESPACE":  # which is compiled once a target
                continue
            place = f"{path.relative_to(root).as_posix()}:{number}"
            if found in declared and declared[found].split(":")[0] != place.split(":")[0]:
                errors.append(f"{place}: {found} is a type of {declared[found]}, too")
            declared.setdefault(found, place)
    for path in sources(root, "src"):
        if path.suffix != ".cc" or is_test(path):
            continue
        for number, spaces, is_unnamed, line in lines_of(path):
            found = type_of(line) if is_unnamed and not ALIAS.match(line) else None
            if found in declared:
                errors.append(f"{path.relative_to(root).as_posix()}:{number}: {found} is a type of {declared[found]}, too")
    return errors


def errors_of(root):
    names = public_names(root)
    rooms = {path.name for path in (root / "src").iterdir() if path.is_dir()} - VOCABULARY
    errors = [error for path in sources(root, "src", "cli") for error in block_errors(path, root, names, rooms)]
    return errors + type_errors(root)


PUBLIC = "namespace snug {\n\nclass Session {\n};\n[[nodiscard]] int plan_network(int rows);\n\n}  // namespace snug\n"
GOOD = {
    "src/session/engine.h": "namespace snug::session {\n\nstruct Engine {\n  struct Part {};\n};\n\n}  // namespace snug::session\n",
    "src/session/session_impl.h": "namespace snug {\n\nstruct Session::Impl {\n};\n\n}  // namespace snug\n",
    "src/session/session.cc": "namespace snug {\nnamespace {\n\nstruct Local {};\n\n}  // namespace\n\nint plan_network(int rows) { return rows; }\n\n}  // namespace snug\n",
    "src/base/units.h": "namespace snug {\n\nstruct Unit {\n};\n\n}  // namespace snug\n",
    "src/base/ascii.h": "namespace snug::ascii {\n\nbool is_digit(char c);\n\n}  // namespace snug::ascii\n",
    "src/session/nested.cc": "namespace snug {\n\nnamespace session {\n\nint nested() { return 1; }\n\n}  // namespace session\n\nint plan_network(int rows) { return rows; }\n\n}  // namespace snug\n",
    "src/plan/chain/chain.h": "namespace snug::plan::testing {\n\nstruct Chain;\n\n}  // namespace snug::plan::testing\n",
    "src/base/units_test.cc": "namespace snug {\nnamespace {\n\nstruct Engine {};\n\n}  // namespace\n}  // namespace snug\n",
}
BAD = {
    "src/session/one.h": "namespace snug {\n\nstruct One {\n};\n\n}  // namespace snug\n",
    "src/session/two.cc": "namespace snug {\n\nint two() { return 2; }\n\n}  // namespace snug\n",
    "src/session/three.h": "namespace snug::train {\n\nstruct Three {\n};\n\n}  // namespace snug::train\n",
    "src/base/four.h": "namespace snug {\n\nstruct Engine {\n};\n\n}  // namespace snug\n",
    "src/base/kind.cc": "namespace snug {\nnamespace {\n\nenum class Unit : uint8_t { one };\n\n}  // namespace\n}  // namespace snug\n",
    "src/base/kind.h": "namespace snug {\n\nenum class Engine : uint8_t { one };\n\n}  // namespace snug\n",
    "src/base/five.h": "namespace snug {\n\nusing Session = int;\n\n}  // namespace snug\n",
    "src/base/six.cc": "namespace snug {\nnamespace {\n\nclass Unit : public Other {\n};\n\n}  // namespace\n}  // namespace snug\n",
    "src/base/nine.h": "namespace snug::session {\n\nstruct Nine {\n};\n\n}  // namespace snug::session\n",
    "cli/seven.cc": "namespace snug {\n\nint seven() { return 7; }\n\n}  // namespace snug\n",
    "src/session/eight.cc": "namespace snug {\n\nint plan_network(int rows) { return rows; }\n\n}  // namespace snug\n\nnamespace snug {\n\nint eight() { return 8; }\n\n}  // namespace snug\n",
}


def test():
    def plant(files):
        folder = tempfile.TemporaryDirectory()
        for name, text in {"include/snug/session.h": PUBLIC, **files}.items():
            path = pathlib.Path(folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    with plant(GOOD) as folder:
        found = errors_of(pathlib.Path(folder))
        assert not found, found
    for name, text in BAD.items():
        with plant({**GOOD, name: text}) as folder:
            found = errors_of(pathlib.Path(folder))
            assert len(found) == 1 and found[0].split(":")[0] in (name, *(["src/session/engine.h", "include/snug/session.h"])), (name, found)
    print(f"namespaces: {len(BAD)} planted errors found")
    return 0


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    errors = errors_of(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for error in errors:
        print(error)
    print(f"namespaces: {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
