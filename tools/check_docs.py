#!/usr/bin/env python3
"""Checks that what documents refer to is there.

* A page that is named anywhere (docs/NAME.md, README.md of a folder) exists, and a section that is named behind it, as in
  docs/architecture.md, "Programs", is one of its headings.
* Relative links of Markdown lead to files, and their anchors to headings.
* Paths in documents, such as `tests/e2e/bits_test.py`, exist; in docs/guarantees.md the tests of `ctest -R` exist, too.

   check_docs.py [ROOT]     ROOT: a tree of its own, for the check's test
   check_docs.py --test     plants every error in a tree and sees that each is found
"""
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = re.compile(r"(?<![\w/.-])((?:docs|src|tests/corpus)/[\w-]+\.md|(?:README|CONTRIBUTING|SECURITY)\.md)")
SECTION = re.compile(PAGE.pattern + r"\)?,\s+\"([^\"\n]+)\"")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|tests|tools|bench|docs|examples|include|cli|cmake)/[\w./-]+)`")
CTEST = re.compile(r"ctest (?:--test-dir build/\w+ )?-R (?:'\(?([^')]+)\)?'|(\w+))")
TEXTS = (".md", ".h", ".cc", ".py", ".sh", ".cmake", ".txt", ".yaml")
TOLD = re.compile(r"\bNAME\b|FAMILY|FOLDER|OPTIMIZER|TASK|READER|MODEL|\bX_|MY_|my_")  # a place that the reader fills


def texts(root):
    """Tracked files, or all files of a tree that is no repository."""
    if (root / ".git").exists():
        names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    for name in sorted(filter(None, names)):
        if name.endswith(TEXTS) and (root / name).is_file() and not name.startswith(("tests/data/", "tests/fuzz/seeds/", "tools/check_docs.py")):
            yield name, (root / name).read_text(errors="replace")


def prose(text):
    """The text with blank lines in place of code between fences."""
    kept, inside = [], False
    for line in text.split("\n"):
        fence = line.startswith("```")
        kept.append("" if inside or fence else line)
        inside ^= fence
    return "\n".join(kept)


def headings_of(text):
    return [match[1].strip() for match in re.finditer(r"^#+ (.+)$", prose(text), re.M)]


def anchor_of(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def errors_of_names(name, text, pages):
    errors = []
    for match in PAGE.finditer(text):
        if match[1] not in pages and f"{pathlib.PurePosixPath(name).parent}/{match[1]}" not in pages:
            errors.append((match.start(), f"there is no {match[1]}"))
    for match in SECTION.finditer(text):
        if match[1] in pages and match[2].rstrip(",.") not in headings_of(pages[match[1]]):
            errors.append((match.start(), f"{match[1]} has no section \"{match[2]}\""))
    return errors


def errors_of_links(root, name, text):
    errors = []
    for match in LINK.finditer(prose(text)):
        if re.match(r"[a-z]+:", match[1]):
            continue
        path, _, anchor = match[1].partition("#")
        target = (root / name).parent / path if path else root / name
        if not target.exists():
            errors.append((match.start(), f"the link to {match[1]} leads nowhere"))
        elif anchor and anchor not in map(anchor_of, headings_of(target.read_text())):
            errors.append((match.start(), f"{path or name} has no heading for #{anchor}"))
    return errors


def errors_of_paths(root, text):
    return [(match.start(), f"there is no {match[1]}") for match in PATH.finditer(text)
            if not TOLD.search(match[1]) and not (root / match[1]).exists()]


def errors_of_tests(root, text, cmake):
    errors = []
    for match in CTEST.finditer(text):
        prefix, _, group = (match[1] or match[2]).replace("\\|", "|").partition("(")
        for part in group.split("|") if group else prefix.split("|"):
            test = (prefix if group else "") + part
            folder, _, name = test.partition("_")
            of_folder = folder in ("e2e", "python") and (root / f"tests/{folder}/{name}_test.py").exists()
            there = of_folder or re.search(rf"(?:snug_test\(|NAME ){test}\b", cmake)
            if not there and test != "NAME":
                errors.append((match.start(), f"no test is called {test}"))
    return errors


def errors_of(root):
    files = dict(texts(root))
    pages = {name: text for name, text in files.items() if name.endswith(".md")}
    cmake = "\n".join(text for name, text in files.items() if name.endswith("CMakeLists.txt"))
    errors = []
    for name, text in files.items():
        found = errors_of_names(name, text, pages)
        if name in pages:
            found += errors_of_links(root, name, text) + errors_of_paths(root, prose(text))
        if name == "docs/guarantees.md":
            found += errors_of_tests(root, text, cmake)
        errors += [f"{name}:{text.count(chr(10), 0, place) + 1}: {what}" for place, what in sorted(found)]
    return errors


GOOD = 'docs/a.md, "One", [one](a.md#one-and-two), `src/x.cc`, `ctest -R x` and `ctest -R \'e2e_(y|y)\'`, `tools/NAME.py`, [site](https://example.org)'
PLANTED = ["docs/b.md says so", 'docs/a.md, "Two"', "[two](b.md)", "[two](a.md#two)", "`src/y.cc`", "`ctest -R z`", "`ctest -R 'e2e_(y|z)'`"]


def test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"docs/a.md": "# One\n\n## One and two\n", "src/x.cc": "// docs/a.md\n", "tests/e2e/y_test.py": "", "src/CMakeLists.txt": "snug_test(x SOURCES x.cc)\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        page = root / "docs/guarantees.md"
        page.write_text(GOOD)
        assert not errors_of(root), errors_of(root)
        for line in PLANTED:
            page.write_text(f"{GOOD}\n{line}\n")
            found = errors_of(root)
            assert len(found) == 1 and "guarantees.md:2:" in found[0], (line, found)
    print(f"docs: {len(PLANTED)} planted errors found")
    return 0


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    errors = errors_of(pathlib.Path(sys.argv[1]) if sys.argv[1:] else pathlib.Path(__file__).resolve().parent.parent)
    for error in errors:
        print(error)
    print(f"docs: {len(errors)} errors" if errors else "docs: all references lead somewhere")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
