#!/usr/bin/env python3
"""Checks documents for phrases over which a native reader stumbles, each with what to write instead.

Phrases, not words: "alone" is right of what is by itself, and stands for "only" nowhere. Generated pages are left out: they follow from the
sources, which are checked once a folder of theirs is in CHECKED.

   check_phrases.py [PATH ...]   files and folders; without any, CHECKED
   check_phrases.py --test       plants every phrase in a page and sees that it is found
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED = ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "include", "src", "cli", "tests/corpus/README.md", "bench/results")
KINDS = (".md", ".h", ".inc", ".cc", ".py", ".json")
GENERATED = "<!-- This file is generated"

GAP = r"(?:[ \t]|\n(?![ \t]*\n)|//+|#)+"  # between two words of a paragraph or of a comment, in one line or two
WORD = r"[^\s.,;:|()\"]+"
ONLY_BEHIND = "of|in|by|from|for|on|with|to|at|into|have|has|see|sees|take|takes|name|names|compare|know|knows|match|matches|hold|holds|on|does"
PHRASES = [
    (rf"\b(?:leave|leaves|leaving|left){GAP}(?:{WORD}{GAP}){{0,6}}away\b", "omit"),
    (rf"\bleaves?{GAP}away\b", "omits"),
    (rf"\b(?:{ONLY_BEHIND}){GAP}(?:{WORD}{GAP}){{1,6}}alone\b", "only"),
    (rf"\bit{GAP}alone\b", "only it"),
    (r"(?:^|\n)[ \t]*(?://+|#|\*|-|\|)[ \t]*Of (?!course)[\w`]", "begin with what it is of: 'The size of ...'"),
]
PATTERNS = [(re.compile(pattern, re.I if "Of" not in pattern else 0), instead) for pattern, instead in PHRASES]


def prose(path, text):
    """The text of a page with blank lines in place of code between fences; other files as they are."""
    if path.suffix != ".md":
        return text
    kept, inside = [], False
    for line in text.split("\n"):
        fence = line.startswith("```")
        kept.append("" if inside or fence else line)
        inside ^= fence
    return "\n".join(kept)


def files_of(paths):
    for path in map(pathlib.Path, paths):
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file() and each.suffix in KINDS:
                yield each


def errors_of(paths):
    errors = []
    for path in files_of(paths):
        text = path.read_text()
        if GENERATED in text[:400]:
            continue
        text = prose(path, text)
        places = {}
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(text):
                places.setdefault(match.end(), (match, instead))
        for match, instead in places.values():
            found = " ".join(match[0].split())
            errors.append((str(path), text.count("\n", 0, match.start() + match[0].find(match[0].lstrip())) + 1, f"'{found}': {instead}"))
    return [f"{name}:{line}: {what}" for name, line, what in sorted(errors)]


PLANTED = ["Leave the key away.", "What is left\naway has its default.", "  // leaves it\n  // away", "It reads the names of files alone.", "It is compiled for it alone there.",
           "Lists exist in JSONL\nalone.", "It depends on the seed alone.", "  // Of the second half of the run.", "| Of one row | 3 |"]
HARMLESS = ["Omit the key.", "a step alone takes 3 ms", "It stands alone.", "Of course it does. Of 26 products 23 do.", "```\nleave it away\n```", "He went away and left.", "The planner alone."]


def test():
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "page.md")
        page.write_text("\n\n".join(HARMLESS))
        assert not errors_of([folder]), errors_of([folder])
        for phrase in PLANTED:
            page.write_text("\n\n".join([*HARMLESS, phrase]))
            assert len(errors_of([folder])) == 1, (phrase, errors_of([folder]))
        page.write_text(f"# A page\n\n{GENERATED} -->\n\n{PLANTED[0]}")
        assert not errors_of([folder])
    print(f"phrases: {len(PLANTED)} planted phrases found")
    return 0


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    errors = errors_of(sys.argv[1:] or [ROOT / each for each in CHECKED])
    for error in errors:
        print(error.replace(f"{ROOT}/", "", 1))
    print(f"phrases: {len(errors)} errors" if errors else "phrases: none of the list")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
