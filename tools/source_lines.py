"""What the checks of the product's source lines share: which files they read, what of a line is code, and how a check is tested."""
import pathlib
import re
import sys
import tempfile

COMMENT = re.compile(r"//.*")
TEXT = re.compile(r'"(\\.|[^"\\])*"')


def sources(root):
    """The files of the product that are no tests."""
    for folder in ("src", "cli", "include"):
        for path in sorted((root / folder).rglob("*")):
            is_test = re.search(r"(^|_)test(s|ing)?(_|$)", path.stem)
            if path.suffix in (".h", ".cc") and not is_test:
                yield path


def code_of(line):
    """The line without comments and without what stands between quotes."""
    return COMMENT.sub("", TEXT.sub('""', line))


def test(name, errors_of, planted, harmless, elsewhere):
    """Plants every error in a tree and sees that each is found, and none where `elsewhere` (file: lines) permits it."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for file in ("src/data/reader.cc", *elsewhere):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("\n".join(harmless))
        assert not errors_of(root), errors_of(root)
        for line in planted:
            (root / "src/data/reader.cc").write_text("\n".join([*harmless, line]))
            found = errors_of(root)
            assert len(found) == 1 and f"reader.cc:{len(harmless) + 1}:" in found[0], (line, found)
        (root / "src/data/reader.cc").write_text("")
        for file, lines in elsewhere.items():
            (root / file).write_text("\n".join(lines))
        assert not errors_of(root), errors_of(root)
    print(f"{name}: {len(planted)} planted errors found")
    return 0


def check(name, errors_of, well):
    """Prints the errors of the tree that the command line names, or of this one; the exit status."""
    errors = errors_of(pathlib.Path(sys.argv[1]) if sys.argv[1:] else pathlib.Path(__file__).resolve().parent.parent)
    for error in errors:
        print(error)
    print(f"{name}: {len(errors)} errors" if errors else f"{name}: {well}")
    return 1 if errors else 0
