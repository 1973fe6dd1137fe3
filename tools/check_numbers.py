#!/usr/bin/env python3
"""Checks that no number and no letter is read or written by the locale that the process has set.

The library runs in processes of others, some of which set a locale of decimal commas. So nothing outside of tests calls the functions of
C and C++ that follow it: base/numbers.h, base/ascii.h and base/pieces.h, or fmt without 'L', stand for them. The JSON library's parser
follows it too, and is called with a locale of its own.

   check_numbers.py [ROOT]   ROOT: a tree of its own, for the check's test
   check_numbers.py --test   plants every error in a tree and sees that each is found
"""
import re
import sys

from source_lines import check, code_of, sources, test

CALL = r"(?<![\w.>])(?:std::|::)?"
RULES = [
    (re.compile(CALL + r"(?:strto(?:f|d|ld|l|ll|ul|ull|imax|umax)|ato(?:f|i|l|ll)|(?:std::)?sto(?:f|d|ld|i|l|ll|ul|ull)|v?[fs]?n?w?scanf)\s*\("),
     "reads a number by the locale: number_in() of base/numbers.h does not"),
    (re.compile(CALL + r"v?(?:f|d|s|sn|as)?w?printf\s*\("),
     "writes by the locale: fixed_text() and digits_text() of base/numbers.h, and fmt::format, do not"),
    (re.compile(r"\bstd::w?(?:i|o)?(?:string|span)stream\b|\bstd::basic_\w*stringstream\b|#\s*include\s*<(?:sstream|spanstream|strstream|iomanip)>"),
     "has a stream of the global locale: words_in() and lines_in() of base/pieces.h, number_in() and fixed_text() have none"),
    (re.compile(CALL + r"(?:is(?:alpha|alnum|digit|xdigit|space|upper|lower|punct|print|graph|cntrl|blank)|to(?:upper|lower))\s*\(|\bstd::(?:is(?:alpha|alnum|digit|space|upper|lower)|to(?:upper|lower))\b|#\s*include\s*<(?:cctype|ctype\.h|cwctype|regex)>"),
     "tells letters by the locale: base/ascii.h does not"),
    (re.compile(r"\b(?:setlocale|newlocale|uselocale|localeconv|strcoll|strftime|put_time|get_time|put_money|imbue)\b|\bstd::locale\b"),
     "has to do with the locale"),
]
FMT_LOCALE = re.compile(r"fmt::format\w*\(\s*(?:\w+,\s*)?\"(?:\\.|[^\"\\])*\{[^}\"]*L\}")
ALLOWED = {
    "src/io/json_events.cc": ["has to do with the locale"],  # gives its thread the locale "C" while the JSON library parses
    "src/config/config_yaml.cc": ["has to do with the locale", "has a stream of the global locale"],  # gives the YAML library a stream of "C"
}
TWICE = re.compile(r"\b(Json|json|ordered_json)::(sax_)?parse\b")  # only where the thread's locale is "C"


def errors_of(root):
    errors = []
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        allowed = ALLOWED.get(name, [])
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = code_of(line)
            found = [what for pattern, what in RULES if pattern.search(code)]
            if FMT_LOCALE.search(line):
                found.append("writes by the locale: leave out 'L'")
            if TWICE.search(line) and name != "src/io/json_events.cc":
                found.append("parses JSON by the locale: src/io/json_events.cc does not")
            errors += [f"{name}:{number}: {what}: {line.strip()}" for what in found if not any(what.startswith(each) for each in allowed)]
    return errors


PLANTED = [
    "const double value = std::strtod(text.c_str(), &end);",
    "const double value = std::stod(text);",
    "const int value = atoi(text);",
    "  sscanf(text, \"%lf\", &value);",
    "std::snprintf(text, sizeof text, \"%.2f\", value);",
    "  printf(\"%d\", 1);",
    "std::ostringstream out;",
    "#include <sstream>",
    "if (std::isdigit(c)) ++count;",
    "std::transform(text.begin(), text.end(), text.begin(), std::tolower);",
    "#include <cctype>",
    "#include <iomanip>",
    "std::setlocale(LC_ALL, \"\");",
    "const std::string text = fmt::format(\"{:.2Lf} and {:L}\", value, count);",
    "const auto json = nlohmann::json::parse(text);",
]
HARMLESS = [
    "const std::optional<double> value = number_in<double>(text);",
    "if (ascii::is_digit(c) && tokenizer.isdigit(c)) ++count;",
    "std::fputs(text.c_str(), stderr);",
    "const std::string text = fmt::format(\"{:.2f} L{}\", value, count);",
    "// std::stod follows the locale",
    "fail(\"atoi(text) is no number\");",
    "std::string stop(stored);",
]


def main():
    if sys.argv[1:] == ["--test"]:
        return test("numbers", errors_of, PLANTED, HARMLESS, {"src/data/reader_test.cc": PLANTED})
    return check("numbers", errors_of, "no locale has a say")


if __name__ == "__main__":
    sys.exit(main())
