#!/usr/bin/env python3
"""Checks that files are opened, and foreign bytes are parsed, in one place.

Outside of src/io and of tests nothing opens a file, makes one with a name of its own or lists a folder by itself (io/file.h, text_file.h,
buffered_file.h), nothing calls the JSON library's parser (io/json_file.h, json_events.h), and nothing
checks UTF-8 but base/utf8.cc. Two places open what is no file: anonymous memory, and /dev/null for a closed stream.

   check_files.py [ROOT]     ROOT: a tree of its own, for the check's test
   check_files.py --test     plants every error in a tree and sees that each is found
"""
import re
import sys

from source_lines import check, code_of, sources, test

RULES = [
    (re.compile(r"(?<!\w)::open\s*\(|\bO_(RDONLY|WRONLY|RDWR|CREAT)\b|(?<![\w.>])(::)?(openat|creat|fopen|fdopen|freopen|opendir|mkstemp|mkdtemp|memfd_create|shm_open)\s*\("), "opens a file"),
    (re.compile(r"\bstd::(basic_)?(i|o)?fstream\b|#\s*include\s*<(fstream|fcntl\.h|dirent\.h)>"), "opens a file"),
    (re.compile(r"\bfilesystem::(recursive_)?directory_iterator\b|\bfs::directory_iterator\b"), "lists a folder"),
    (re.compile(r"\bmmap\s*\((?!nullptr)"), "maps a file"),
    (re.compile(r"\b(Json|json|ordered_json)::(sax_)?parse\b|\bYAML::LoadFile\b"), "parses"),
    (re.compile(r"\b0x([eE][dD]|[fF]4)u?\b"), "checks UTF-8"),  # surrogates and what is too large
]
IO = "src/io"
ALLOWED = {
    "cli/streams.cc": "opens a file",  # /dev/null, as the descriptor that was closed
    "src/base/utf8.cc": "checks UTF-8",
}


def errors_of(root):
    errors = []
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = code_of(line)
            for pattern, what in RULES:
                if not pattern.search(code) or ALLOWED.get(name) == what:
                    continue
                if name.startswith(IO + "/") and what != "checks UTF-8":
                    continue
                errors.append(f"{name}:{number}: {what} outside of {IO}: {line.strip()}")
    return errors


PLANTED = [
    "const int fd = ::open(path.c_str(), O_RDONLY);",
    "FILE* file = fopen(path, \"r\");",
    "  std::ifstream in(path);",
    "#include <fstream>",
    "std::ofstream(file) << text;",
    "for (const auto& each : std::filesystem::directory_iterator(folder)) use(each);",
    "void* bytes = mmap(address, size, PROT_READ, MAP_PRIVATE, fd, 0);",
    "if (mkdtemp(name.data()) == nullptr) return;",
    "const auto json = nlohmann::json::parse(text);",
    "if (!Json::sax_parse(text, &handler)) return;",
    "if (first == 0xED && second >= 0xA0) return 0;",
]
HARMLESS = [
    "const TokenCache cache = TokenCache::open(path, spec);",
    "state_->open(path);",
    "void open(const std::string& path);",
    "while ((byte & 0xC0) == 0x80) --end;",
    "// std::ifstream in(path);",
    "fail(\"open(2) failed\");",
    "const io::JsonValue json = io::parse_json(text, name);",
    "void* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
]


def main():
    if sys.argv[1:] == ["--test"]:
        return test("files", errors_of, PLANTED, HARMLESS, {"src/data/reader_test.cc": PLANTED, "src/io/reader.cc": PLANTED[:-1]})
    return check("files", errors_of, "opened and parsed only in src/io")


if __name__ == "__main__":
    sys.exit(main())
