#!/usr/bin/env python3
"""The table of public C++ names and their names in Python: read from include/snug, written into docs/python.md, checked.

Every type, function and public member function of the headers has a name in Python (NAMES, or RULES for a whole header), which the package
must have, or is left out with a reason (LEFT_OUT). Fields of structs are not listed: they are keywords, or fields of what is returned.

   python_names.py            writes the table
   python_names.py --check    fails where the page has another one
   python_names.py --test     plants a name that nobody knows, and sees that it is found
"""
import importlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/python.md"
BEGIN, END = "<!-- begin: names (tools/python_names.py) -->", "<!-- end: names -->"
ROW = 150  # letters of a row

# Header -> where its names are, unless NAMES or LEFT_OUT say otherwise. Member functions are of the class in Python.
RULES = {"ops.h": "snug.ops", "layers.h": "snug.layers", "recompute.h": "snug.recompute", "network.h": "snug", "session.h": "snug", "init.h": "snug",
         "lengths.h": "snug", "models.h": "snug", "run.h": "snug", "types.h": "snug", "explain.h": "snug"}

NAMES = {
    "operator+": "snug.Tensor.__add__", "operator-": "snug.Tensor.__sub__", "operator*": "snug.Tensor.__mul__", "operator/": "snug.Tensor.__truediv__",
    "fill": "snug.NetworkBuilder.fill", "MatmulFlags": "snug.ops.matmul", "Window2d": "snug.ops.max_pool2d", "AttentionFlags": "snug.ops.attention",
    "LstmTensors": "snug.ops.lstm_cell", "ConvOptions": "snug.layers.conv2d",
    "CheckpointedPart": "snug.recompute.checkpointed_part", "CheckpointedPart::check_used": "snug.recompute.checkpointed_part",
    "Scope": "snug.NetworkBuilder.scope", "Weights": "snug.NetworkBuilder.scope", "NetworkBuilder::scope": "snug.NetworkBuilder.scope_name",
    "NetworkBuilder::cross_entropy": "snug.layers.cross_entropy", "RowShape": "snug.NetworkBuilder.input", "RowShape::axes": "snug.NetworkBuilder.input",
    "Axis": "snug.NetworkBuilder.input", "Axis::size": "snug.NetworkBuilder.input", "Axis::length": "snug.NetworkBuilder.input",
    "Network::name": "snug.Network", "Network::build": "snug.Network", "Network::ops": "snug.Network.add", "DType": "snug.Tensor.dtype",
    "Length::name": "snug.Length", "Lengths": "snug.every_combination",
    "SessionOptions": "snug.Session", "StepOptions": "snug.Session.step", "OutputRows": "snug.Session.evaluate", "OutputSink": "snug.Session.evaluate",
    "TensorKind": "snug.TensorInfo", "Rows": "snug.Session.step", "Rows::add": "snug.Session.step", "Rows::rows": "snug.Session.step",
    "Rows::length": "snug.Session.step", "Rows::has": "snug.Session.step", "Rows::columns": "snug.Session.step", "Rows::fill": "snug.Session.step",
    "RowSource::has": "snug.RowSource.columns", "RowSource::total_weight": "snug.RowSource.total_weights", "RowSlot::values": "snug.RowSlot",
    "Machine::threads": "snug.Machine", "Machine::backend": "snug.Machine", "load_weights": "snug.Session.load_weights",
    "TensorInfo::is_weight": "snug.TensorInfo.kind", "TensorInfo::is_coded": "snug.TensorInfo.dtype", "TensorInfo::is_frozen_code": "snug.TensorInfo.is_trained",
    "CustomOp": "snug.Op", "OpCall": "snug.op", "OpCall::input": "snug.op", "OpCall::output": "snug.op", "GradientCall": "snug.Op.gradient",
    "CustomOp::Shapes": "snug.Op", "CustomOp::Gradient": "snug.Op.gradient", "gradients": "snug.gradients", "Checkpoints": "snug.gradients",
    "Checkpoints::strategy": "snug.gradients", "LoraOptions": "snug.Session", "LoraBias": "snug.Session", "LoraRule": "snug.Session",
    "plan_run": "snug.plan", "plan_levers": "snug.plan_levers", "train_model": "snug.train", "evaluate_model": "snug.evaluate", "predict_rows": "snug.predict",
    "inspect_run": "snug.inspect", "explain_run": "snug.explain", "verify_run": "snug.verify", "merge_adapters": "snug.merge",
    "convert_weights": "snug.convert", "export_model": "snug.export", "tokenize_rows": "snug.tokenize", "config_options": "snug.keys",
    "config_options_json": "snug.keys", "PlanReport": "snug.Plan", "PlanReport::to_json": "snug.Plan.to_dict", "PlanReport::to_text": "snug.Plan.__str__",
    "PlanReport::to_html": "snug.Plan.to_html", "Error": "snug.Error", "Error::code": "snug.Error", "Error::where": "snug.Error", "Error::message": "snug.Error",
    "Error::hint": "snug.Error", "ErrorCode": "snug.Error", "Warning": "snug.Warned", "UpdateLog": "snug.train", "EvalMetrics": "snug.evaluate",
    "EvalMetrics::find": "snug.evaluate", "MetricValue": "snug.evaluate", "ClassScore": "snug.evaluate", "Prediction": "snug.predict",
    "Prediction::to_json": "snug.predict", "TrainSummary": "snug.train", "TrainSummary::to_json": "snug.train", "RunStatus": "snug.train",
    "Callbacks": "snug.train", "Progress": "snug.train", "RunOptions": "snug.train", "VerifyCheck": "snug.verify", "VerifyReport": "snug.verify",
    "VerifyReport::is_equal": "snug.verify", "VerifyReport::to_json": "snug.verify", "Stage": "snug.explain", "Explanation": "snug.explain",
    "Explanation::to_text": "snug.explain", "Explanation::to_json": "snug.explain", "RunConfig": "snug.plan", "RunConfig::load": "snug.plan",
    "RunConfig::parse": "snug.plan", "OptionInfo": "snug.keys", "LeverPlan": "snug.plan_levers", "LeverKeys": "snug.fastest_levers",
    "kLeverWords": "snug.plan_levers", "instruction_set": "snug.version", "InstructionSet": "snug.version",
    "solve_remat": "snug.solve.remat", "remat_curve": "snug.solve.curve", "check_remat": "snug.solve.check", "solve_placement": "snug.solve.placement",
    "RematRequest": "snug.solve.remat", "RematReport": "snug.solve.remat", "RematCurve": "snug.solve.curve", "RematCheck": "snug.solve.check",
    "PlacementRequest": "snug.solve.placement", "PlacementResult": "snug.solve.placement", "PlacementItem": "snug.solve.placement",
}

# Name, or header -> why Python has none.
LEFT_OUT = {}


def plain(text):
    """Without comments, strings and directives."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def closing(text, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at


TYPE = re.compile(r"^(?:template\s*<[^>]*>\s*)?(?:class|struct|enum class|enum)\s+(\w+)")
NAMESPACE = re.compile(r"^(?:inline\s+)?namespace\s+([\w:]+)")
FUNCTION = re.compile(r"(operator\s*[^\s\w(]+|\b\w+)\s*\(")
NO_NAMES = {"static_assert", "defined", "noexcept", "decltype", "alignas", "requires", "explicit"}


def names_in(text):
    """Types and functions of the namespace snug; public member functions and types as CLASS::NAME."""
    text = plain(text)
    found, scopes, at, begin = [], [], 0, 0

    def is_public():
        return all(scope["is_public"] for scope in scopes)

    def add(statement):
        statement = re.sub(r"\[\[[^\]]*\]\]", "", statement).strip()
        inner = scopes[-1] if scopes else None
        owner = inner["name"] if inner and inner["kind"] == "class" else ""
        if not statement or statement.startswith(("friend", "using namespace", "static_assert", "extern")) or not is_public():
            return
        if alias := re.match(r"using\s+(\w+)\s*=", statement):
            found.append(f"{owner}::{alias[1]}" if owner else alias[1])
            return
        if constant := re.match(r"inline constexpr .*?\b(k\w+)\b", statement):
            found.append(constant[1])
            return
        match = FUNCTION.search(re.sub(r"^template\s*<[^>]*>\s*", "", statement))
        if not match or re.match(r"^\w+\s*=", statement):
            return
        name = re.sub(r"\s+", "", match[1])
        before = re.sub(r"^template\s*<[^>]*>\s*", "", statement)[: match.start()]
        is_field = "std::function<" in before or name.endswith("_") or before.rstrip().endswith("operator")
        if is_field or name in NO_NAMES or "=" in before or name == owner or before.rstrip().endswith("~") or (owner and name.startswith("operator")):
            return
        if owner and not before.strip():
            return
        found.append(f"{owner}::{name}" if owner else name)

    while at < len(text):
        letter = text[at]
        if letter == "{":
            statement = re.sub(r"\[\[[^\]]*\]\]", "", text[begin:at]).strip()
            if namespace := NAMESPACE.match(statement):
                scopes.append({"kind": "namespace", "name": namespace[1], "is_public": namespace[1] == "snug"})
                at += 1
            elif (kind := TYPE.match(statement)) and not statement.rstrip().endswith(")"):
                if is_public():
                    found.append(kind[1])
                is_enum = statement.startswith("enum")
                scopes.append({"kind": "enum" if is_enum else "class", "name": kind[1], "is_public": is_enum or not re.match(r"^(?:template\s*<[^>]*>\s*)?class", statement)})
                at += 1
            else:
                add(statement)
                at = closing(text, at)
            begin = at
        elif letter == "}":
            scopes.pop()
            at += 1
            begin = at
        elif letter == ";":
            if not scopes or scopes[-1]["kind"] != "enum":
                add(text[begin:at])
            at += 1
            begin = at
        elif letter == ":" and scopes and (access := re.search(r"(public|private|protected)\s*$", text[begin:at])):
            scopes[-1]["is_public"] = access[1] == "public"
            at += 1
            begin = at
        else:
            at += 1
    return list(dict.fromkeys(found))


def resolve(name):
    """Whether the package has it."""
    parts = name.split(".")
    value = importlib.import_module(parts[0])
    for part in parts[1:]:
        value = getattr(value, part, None) or getattr(value, "__annotations__", {}).get(part)
        if value is None:
            return False
    return True


def python_name(header, name):
    if name in NAMES:
        return NAMES[name]
    rule = RULES.get(header)
    return f"{rule}.{name.replace('::', '.')}" if rule else None


def sorted_out(headers):
    """Rows of the table, rows of what is left out, errors."""
    table, left, errors = [], [], []
    for header, names in headers.items():
        if header in LEFT_OUT:
            left.append((header, [], LEFT_OUT[header]))
            continue
        by_place = {}
        for name in names:
            if name in LEFT_OUT:
                left.append((header, [name], LEFT_OUT[name]))
                continue
            found = python_name(header, name)
            if found is None:
                errors.append(f"{header}: {name} has no name in Python and is not left out")
            elif not resolve(found):
                errors.append(f"{header}: {name} is {found}, which the package does not have")
            else:
                same = found.rpartition(".")[2] == name.rpartition("::")[2]
                place = found.rpartition(".")[0] + ".NAME" if same else found
                by_place.setdefault(place, []).append(name)
        table += [(header, names, place) for place, names in by_place.items()]
    known = {name for names in headers.values() for name in names} | set(headers)
    errors += [f"{name} is no public name" for name in (*NAMES, *LEFT_OUT) if name not in known]
    return table, left, errors


def lines_of(names, length=ROW):
    """Names in rows that are not too long."""
    rows = [[]]
    for name in names:
        if sum(len(each) + 4 for each in rows[-1]) + len(name) > length - 50:
            rows.append([])
        rows[-1].append(name)
    return [", ".join(f"`{name}`" for name in row) for row in rows]


def page_part(table, left):
    lines = [BEGIN, "", "| header | C++ | Python |", "|---|---|---|"]
    for header, names, place in table:
        lines += [f"| `{header}` | {row} | `{place}` |" for row in lines_of(names)]
    lines += ["", "Left out:", "", "| header | C++ | because |", "|---|---|---|"]
    by_reason = {}
    for header, names, reason in left:
        by_reason.setdefault((header, reason), []).extend(names or ["all of it"])
    for (header, reason), names in by_reason.items():
        lines += [f"| `{header}` | {row} | {reason} |".replace("`all of it`", "all of it") for row in lines_of(names)]
    return "\n".join([*lines, "", END])


def headers_of(folder):
    return {path.name: names for path in sorted(folder.glob("*.h")) if not path.name.endswith("_c.h") and (names := names_in(path.read_text()))}


def main():
    sys.path.insert(0, str(ROOT / "python"))
    headers = headers_of(ROOT / "include/snug")
    if "--list" in sys.argv:
        for header, names in headers.items():
            print(header, " ".join(names))
        return 0
    if "--test" in sys.argv:
        planted = {**headers, "ops.h": [*headers["ops.h"], "not_there"], "solve.h": [*headers["solve.h"], "unknown"]}
        _, _, errors = sorted_out(planted)
        assert sum("not_there" in error or "unknown" in error for error in errors) == 2, errors
        return 0
    table, left, errors = sorted_out(headers)
    for error in errors:
        print(error)
    if errors:
        return 1
    page = PAGE.read_text()
    begin, end = page.index(BEGIN), page.index(END) + len(END)
    wanted = page[:begin] + page_part(table, left) + page[end:]
    if "--check" in sys.argv:
        if wanted != page:
            print("docs/python.md has another table of names: python3 tools/python_names.py writes it")
        return int(wanted != page)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
