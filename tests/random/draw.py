"""Draws configurations from the product's own lists: models, keys, their types and ranges (`snug help --json`). A key that a
model or task refuses is dropped, so that later models, keys and optimizers join without a change here."""
import json
import math
import re

import common

# Keys that the checks set themselves: places, budget, plan, and what decides how long a case takes.
OWN = set("""model train_file validation_file test_file text_column text_pair_column label_column tokenizer output_dir cache_dir resume
memory recompute micro_batch_size threads max_steps num_train_epochs train_batch_size max_seq_length vocab_size freeze logging_steps
save_steps eval_steps eval_batch_size save_total_limit early_stopping_patience num_labels bad_rows""".split())
MOST_PARAMETERS = 12_000_000  # larger models take too long for a short test
LARGEST_INTEGER = 48
RANGE = re.compile(r"([\[(])([-0-9.e+]+), ([-0-9.e+]+)([\])])")


def read_options():
    done = common.run("help", "--json")
    assert done.returncode == 0, done.stderr
    return {option["name"]: option for option in json.loads(done.stdout)["options"]}


def bounds(text):
    """Lowest and highest number of a range such as "[0, 1)", "> 0" or "[1, 64] or auto"."""
    found = RANGE.search(text)
    if found:
        low, high = float(found[2]), float(found[3])
        return low if found[1] == "[" else low + 1e-9, high if found[4] == "]" else high * 0.9
    low = re.search(r"(>=?) ([-0-9.e+]+)", text)
    return (float(low[2]) + (1e-9 if low[1] == ">" else 0) if low else 0.0), math.inf


def draw_value(option, generator):
    """A value of the option as text, small ones more often; None where the kind is not drawn."""
    kind, low_high = option["type"], bounds(option["range"])
    if option["allowed"]:
        return generator.choice(option["allowed"])
    if "list" in kind and "integer" in kind:
        return ",".join(str(generator.randint(1, 12)) for _ in range(generator.randint(1, 3)))
    if "integer" in kind:
        low, high = int(math.ceil(low_high[0])), int(min(low_high[1], LARGEST_INTEGER))
        return str(generator.randint(low, max(low, min(high, generator.choice([low + 3, high])))))
    if "number" in kind:
        low, high = low_high[0], min(low_high[1], 1.0)
        if low == 0 and generator.random() < 0.3:
            return "0"
        return repr(min(high, max(low, float(f"{10 ** generator.uniform(-4, 0):.3g}"))))
    if option["is_switch"]:
        return "true"
    return None


def strategies(option, generator):
    """The words of a range such as "auto, none, every:K, chen:BYTES, marks:NAME"."""
    words = [word.strip() for word in option["range"].split(",")]
    numbers = {"K": str(generator.randint(1, 4)), "BYTES": "65536", "C": str(generator.randint(1, 4))}
    filled = []
    for word in words:
        name, _, parameter = word.partition(":")
        if not parameter:
            filled.append(word)
        elif parameter in numbers:
            filled.append(f"{name}:{numbers[parameter]}")
    return filled


def draw_levers(generator):
    """What takes fewer bits or trains less, each rather often and any of them together; what is refused is dropped as other keys are."""
    values = {}
    chosen = lambda: generator.random() < 0.35
    if chosen():
        values[generator.choice(("bf16", "fp16"))] = "true"
    if chosen():
        values.update(optim_bits="8", optim_codec=generator.choice(("default", "bnb")))
    if chosen():
        values["loss_scale"] = generator.choice(("dynamic", "dynamic_paddle", "1024", "none"))
    if chosen():
        values["two_pass_clip"] = generator.choice(("true", "false"))
    if chosen():
        values["frozen_dtype"] = generator.choice(("bfloat16", "int8"))
        values["freeze"] = generator.choice(("embeddings", "first:1", "embeddings,first:1"))
    if chosen():
        values["lora"] = json.dumps({"match": generator.choice(("*.query.weight", "*.dense.weight", "*lin*.weight")),
                                     "r": generator.randint(1, 9), "dropout": generator.choice((0, 0.1))})
    return values


# Of scopes and ops that most models have; what matches nothing is refused and dropped as other keys are.
PARTS = ("*.layer.0.*", "*.layer.1*", "*.gelu", "*dropout*", "*layer_norm*", "*attention*", "*add", "*_grad", "*")


def draw_fusion(generator):
    """A level for all, or levels of parts."""
    values = {}
    if generator.random() < 0.25:
        values["fusion"] = generator.choice(("off", "fusible", "full"))
    if generator.random() < 0.4:
        rules = [{"match": match, "level": generator.choice(("off", "fusible", "full"))} for match in generator.sample(PARTS, generator.randint(1, 3))]
        values["fusion_overrides"] = json.dumps(rules)
    return values


def draw(options, models, generator):
    """One configuration as a dict of texts, and beside it the data it wants."""
    values = {"model": generator.choice(models)}
    for name, option in options.items():
        if name in OWN or generator.random() > 0.2:
            continue
        value = draw_value(option, generator)
        if value is not None:
            values[name] = value
    values.update(draw_levers(generator))
    values.update(draw_fusion(generator))
    values.update(train_batch_size=str(generator.choice([1, 2, 3, 4, 6, 8, 12])), max_steps=str(generator.randint(2, 5)),
                  save_steps=str(generator.randint(1, 3)), eval_steps=str(generator.randint(0, 3)), logging_steps="1",
                  threads=str(generator.randint(1, 2)), seed=str(generator.randint(0, 99)))
    text = {"max_seq_length": str(generator.choice([8, 16, 24, 40])), "vocab_size": str(generator.choice([90, 200, 400]))}
    data = {"rows": generator.choice([30, 60, 120]), "longest": generator.choice([2, 10, 30]), "seed": generator.randint(0, 99),
            "labels": generator.choice([2, 3, 7]), "suffix": generator.choice([".jsonl", ".csv", ".tsv"]),
            "validation": generator.random() < 0.5}
    return values, text, data


def small_models(options, most_parameters):
    """The models of the option's list with few enough parameters."""
    small = []
    for name in options["model"]["names"]:
        done = common.run("inspect", "--model", name, "--json")
        if done.returncode == 0 and json.loads(done.stdout)["model"]["parameters"] <= most_parameters:
            small.append(name)
    return small
