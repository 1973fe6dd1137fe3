#!/usr/bin/env python3
"""The table of public C++ names and their names in Python: read from include/snug, written as docs/python-names.md, checked.

Every type, function and public member function of the headers has a name in Python (NAMES, or RULES for a whole header), which the package
must have, or is left out with a reason (LEFT_OUT). Fields of structs are not listed: they are keywords, or fields of what is returned.

   python_names.py            writes the table
   python_names.py --check    fails where the page has another one
   python_names.py --test     plants a name that nobody knows, and sees that it is found
"""
import fnmatch
import importlib
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/python-names.md"
HEAD = """# C++ names in Python

<!-- This file is generated. To renew it: python3 tools/python_names.py -->

Every public type, function and member function of `include/snug`, and what it is in Python: `NAME` stands for the same name. Fields of structs are keyword
arguments there, or fields of what is returned.

| header | C++ | Python |
|---|---|---|
"""

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
    "Length::name": "snug.Length", **{f"Lengths{each}": "snug.every_combination" for each in ("", "::of", "::set", "::by_name", "::empty", "::has_names", "::holds")},
    "Network::Build": "snug.Network", "LossScale": "snug.LossScale", "TensorFunction": "snug.recompute.checkpoint_sequential",
    "RecomputedLayer": "snug.recompute.recompute_grad", "Session::read_bytes": "snug.Session.view_bytes", "Session::write_bytes": "snug.Session.edit_bytes",
    "TextEncoder": "snug.tokenize", "TextEncoder::encode": "snug.tokenize",
    **{each: "snug.Plan.to_dict" for each in ("MemoryComponent", "StateReport", "PeakTensor", "BlockTreatment", "MemoryCurve", "PlacedTensor", "PlannedLength", "kPlainStates")},
    "PriceRow": "snug.Plan.price_list",
    "SessionOptions": "snug.Session", "StepOptions": "snug.Session.step", "OutputRows": "snug.Session.evaluate", "OutputSink": "snug.Session.evaluate",
    "TensorKind": "snug.TensorInfo", "Rows": "snug.Session.step", "Rows::add": "snug.Session.step", "Rows::rows": "snug.Session.step",
    "Rows::length": "snug.Session.step", "Rows::has": "snug.Session.step", "Rows::columns": "snug.Session.step", "Rows::fill": "snug.Session.step",
    "RowSource::has": "snug.RowSource.columns", "RowSource::total_weight": "snug.RowSource.total_weights", "RowSource::total_weight_inputs": "snug.RowSource.total_weights", "RowSlot::values": "snug.RowSlot",
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
    "Error::hint": "snug.Error", "ErrorCode": "snug.Error", "DoesNotFit": "snug.DoesNotFit", "DoesNotFit::facts": "snug.DoesNotFit", "RefusalFacts": "snug.DoesNotFit", "WayToFit": "snug.Way",
    "Warning": "snug.Warned", "UpdateLog": "snug.train", "EvalMetrics": "snug.evaluate",
    "EvalMetrics::find": "snug.evaluate", "MetricValue": "snug.evaluate", "ClassScore": "snug.evaluate", "Prediction": "snug.predict",
    "Prediction::to_json": "snug.predict", "TrainSummary": "snug.train", "TrainSummary::to_json": "snug.train", "RunStatus": "snug.train",
    "Callbacks": "snug.train", "Progress": "snug.train", "RunOptions": "snug.train", "VerifyCheck": "snug.verify", "VerifyReport": "snug.verify",
    "VerifyReport::is_equal": "snug.verify", "VerifyReport::to_json": "snug.verify", **{each: "snug.explain" for each in ("Stage", "OpTime", "MergedOps", "ApartOps", "Explanation")},
    "Explanation::to_text": "snug.explain", "Explanation::to_json": "snug.explain", "RunConfig": "snug.plan", "RunConfig::load": "snug.plan",
    "RunConfig::parse": "snug.plan", "OptionInfo": "snug.keys", "LeverPlan": "snug.plan_levers", "LeverKeys": "snug.fastest_levers",
    "kLeverWords": "snug.plan_levers", "instruction_set": "snug.version", "InstructionSet": "snug.version",
    "solve_remat": "snug.solve.remat", "remat_curve": "snug.solve.curve", "check_remat": "snug.solve.check", "solve_placement": "snug.solve.placement",
    "RematRequest": "snug.solve.remat", "RematReport": "snug.solve.remat", "RematCurve": "snug.solve.curve", "RematCheck": "snug.solve.check",
    "PlacementRequest": "snug.solve.placement", "PlacementResult": "snug.solve.placement", "PlacementItem": "snug.solve.placement",
}

# header:PATTERN (several, with | between them) -> why Python has none.
LEFT_OUT = {
    "attrs.h:*": "attributes are keyword arguments", "shape.h:*": "tuples of int",
    "bad_rows.h:*": "a key's value, as text", "draw_numbering.h:*": "an option's value, as text", "interval.h:*": "a key's value, as text",
    "schedule.h:*": "an option's value, as text", "tokenizer_kind.h:*": "a key's value, as text", "train_spec.h:*": "options' values: dicts, lists and texts",
    "lora.h:LoraOptions::is_on|kAllLinear|is_rule_for|Adapter*|adapter_*|is_adapter_name": "names of weights say it",
    "config.h:RunConfig::*|Config*|RecomputeSetting|to_string": "a configuration is a dict of keys",
    "config.h:nearest_config_key|config_help|config_markdown|training_arguments_markdown|split_config_arguments|throw_unknown_option": "for programs with a command line",
    "error.h:to_string": "codes are texts", "files.h:write_text": "Python writes files",
    "idioms.h:RecomputeOptimizer*|gradient_checkpointing_*": "Session(network, recompute=...)",
    "instruction_set.h:kInstructionSets|to_string|find_instruction_set|instruction_set_notice": "snug.version() names the set",
    "lengths.h:to_string": "lengths are int or dict", "levers.h:fastest_fitting|smallest_of|to_*": "levers are dicts",
    "memory.h:*": "amounts are texts or int; of the machine's memory /proc and the module resource tell",
    "network.h:NetworkBuilder::state|NetworkBuilder::id_of|NetworkBuilder::check_layer|NetworkBuilder::tensor_of|Network::facts|Network::with_facts": "the library's own",
    "run.h:to_json": "metrics are dicts", "session.h:*::impl": "the library's own",
    "session.h:Session::row_slots": "a source's arrays are there before a step",
    "solve.h:PlacementResult::*|parse_*|*_placement_csv": "values are dicts and lists, amounts int or text",
    "solve_remat.h:*::*|parse_*|RematEffort|RematParts": "values are dicts, amounts int or text",
    "types.h:is_*|to_string|dtype_of|element_*|byte_count|broadcast_shapes|strides_of|normalize_axis": "a type is its name and a tuple; numpy has the arithmetic",
}


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


def reason_of(header, name):
    """The first patterns by which a name is left out."""
    for patterns in LEFT_OUT:
        of, _, each = patterns.partition(":")
        if of == header and any(fnmatch.fnmatchcase(name, pattern) for pattern in each.split("|")):
            return patterns
    return None


def sorted_out(headers):
    """Rows of the table, rows of what is left out, errors."""
    table, left, errors, used = [], [], [], set()
    for header, names in headers.items():
        by_place = {}
        for name in names:
            found, patterns = python_name(header, name), reason_of(header, name)
            if patterns is not None and name not in NAMES:
                left.append((header, [name], LEFT_OUT[patterns]))
                used.add(patterns)
            elif found is None:
                errors.append(f"{header}: {name} has no name in Python and is not left out")
            elif not resolve(found):
                errors.append(f"{header}: {name} is {found}, which the package does not have")
            else:
                same = found.rpartition(".")[2] == name.rpartition("::")[2]
                place = found.rpartition(".")[0] + ".NAME" if same else found
                by_place.setdefault(place, []).append(name)
        table += [(header, names, place) for place, names in by_place.items()]
    known = {name for names in headers.values() for name in names}
    errors += [f"{name} is no public name" for name in NAMES if name not in known]
    errors += [f"nothing is left out by {patterns}" for patterns in LEFT_OUT if patterns not in used]
    return table, left, errors


def listed(names):
    """`A`, `f`; members of a class behind its name: `Session::` `step`, `read`."""
    groups = itertools.groupby(names, lambda name: name.rpartition("::")[0])
    return "; ".join((f"`{of}::` " if of else "") + ", ".join(f"`{name.rpartition('::')[2]}`" for name in each) for of, each in groups)


def page_of(table, left):
    rows = [f"| `{header}` | {listed(names)} | `{place}` |" for header, names, place in table]
    by_reason = {}
    for header, names, reason in left:
        by_reason.setdefault((header, reason), []).extend(names)
    missing = [f"| `{header}` | {listed(names)} | {reason} |" for (header, reason), names in by_reason.items()]
    return HEAD + "\n".join([*rows, "", "## Left out", "", "| header | C++ | because |", "|---|---|---|", *missing, ""])


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
        planted = {**headers, "ops.h": [*headers["ops.h"], "not_there"], "custom_op.h": [*headers["custom_op.h"], "unknown"]}
        _, _, errors = sorted_out(planted)
        assert sum("not_there" in error or "unknown" in error for error in errors) == 2, errors
        return 0
    table, left, errors = sorted_out(headers)
    for error in errors:
        print(error)
    if errors:
        return 1
    wanted = page_of(table, left)
    if "--check" in sys.argv:
        is_same = PAGE.exists() and PAGE.read_text() == wanted
        if not is_same:
            print(f"{PAGE.name} is another page: python3 tools/python_names.py writes it")
        return int(not is_same)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
