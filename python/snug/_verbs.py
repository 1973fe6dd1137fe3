# SPDX-License-Identifier: Apache-2.0
"""What the program does, as functions. Each takes a run configuration: a YAML file, a dict, keyword arguments, or a file
or dict with keyword arguments that win. Keys and errors are the program's (docs/configuration.md)."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ._config import Config, options_of, text_of
from ._host import host_bytes
from ._library import call
from ._plan import Plan
from ._progress import Reporter
from ._rows import with_files

_Call = Callable[..., Any] | None


def _joined(config: Config, keys: Mapping[str, Any]) -> tuple[Config, Mapping[str, Any]]:
    """A configuration that is no file has its keys among the others, which win."""
    return (None, {**config, **keys}) if isinstance(config, Mapping) else (config, keys)


def _with_config(verb: str, config: Config, keys: Mapping[str, Any], options: Mapping[str, Any], reporter: Callable[[str, Any], None]) -> Any:
    """Runs a verb that takes a configuration. Its memory is the process's, with what the process has now (option `host_bytes`: had)."""
    config, keys = _joined(config, keys)
    with with_files(keys, keys_are_all=config is None) as files:
        given = options_of(config, files.keys)
        for name, value in {"host_bytes": host_bytes(), **options}.items():
            if value:
                given["." + name] = text_of(name, value)
        return call(verb, given, lambda kind, value: reporter(kind, files.told(value)))


def _run(verb: str, config: Config, keys: Mapping[str, Any], options: Mapping[str, Any], progress: bool | None, **callbacks: _Call) -> Any:
    reporter = Reporter(progress, callbacks)
    try:
        return _with_config(verb, config, keys, options, reporter)
    finally:
        reporter.close()


def plan(config: Config = None, *, replay: str | os.PathLike[str] | None = None, progress: bool | None = None, on_message: _Call = None, **keys: Any) -> Plan:
    """Plans without training; needs no data. `replay`: a file that Plan.save wrote.

    Raises DoesNotFit with the proof, the smallest budget that works and the cheapest ways to fit.
    """

    config, keys = _joined(config, keys)
    # The plan's page and its file read the rows again.
    keys = {name: list(value) if isinstance(value, Iterator) else value for name, value in keys.items()}
    given = {"plan": replay, "host_bytes": host_bytes()}

    def again(**options: Any) -> Any:
        return _with_config("plan", config, keys, {**given, **options}, lambda kind, value: None)

    answer = _run("plan", config, keys, given, progress, message=on_message)
    return Plan(answer, save=lambda file: again(save_plan=file), page=lambda: again(html=True)["html"])


def levers(config: Config = None, *, progress: bool | None = None, **keys: Any) -> list[dict[str, Any]]:
    """What each lever (precision, bits of states, freezing, ...) would change in bytes and time (docs/levers.md)."""
    return _run("levers", config, keys, {}, progress)["json"]


def train(
    config: Config = None,
    *,
    replay: str | os.PathLike[str] | None = None,
    save_plan: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    on_plan: _Call = None,
    on_update: _Call = None,
    on_evaluation: _Call = None,
    on_checkpoint: _Call = None,
    on_message: _Call = None,
    **keys: Any,
) -> dict[str, Any]:
    """Trains into output_dir and returns the summary (docs/files.md, summary.json).

    `on_plan(dict)`, `on_update(dict)` (every `logging_steps` updates, 500 unless told, and the last), `on_evaluation(step, dict)`, `on_checkpoint(step, folder)` (whole, until
    the next one) and `on_message(str)` are called as it goes.
    KeyboardInterrupt, and whatever a callback raises, end it after the present update with a checkpoint, and are raised
    then; `resume=True` goes on to the same bits.
    """
    return _run(
        "train",
        config,
        keys,
        {"plan": replay, "save_plan": save_plan},
        progress,
        plan=on_plan,
        update=on_update,
        evaluation=on_evaluation,
        checkpoint=on_checkpoint,
        message=on_message,
    )


def evaluate(config: Config = None, *, progress: bool | None = None, **keys: Any) -> dict[str, Any]:
    """Metrics of a trained model on test_file, else validation_file, else held-out training rows."""
    return _run("evaluate", config, keys, {}, progress)


def predict(config: Config = None, *, sink: Callable[[dict[str, Any]], Any] | None = None, progress: bool | None = None, **keys: Any) -> list[dict[str, Any]]:
    """What the model says of the rows of test_file (else validation_file), in order: a list, or one call of `sink` a row."""
    rows: list[dict[str, Any]] = []
    _run("predict", config, keys, {}, progress, row=sink or rows.append)
    return rows


def tokenize(config: Config = None, *, sink: Callable[[list[int]], Any] | None = None, progress: bool | None = None, **keys: Any) -> list[list[int]]:
    """Ids of the texts of test_file, in order: a list, or one call of `sink` a row."""
    rows: list[list[int]] = []
    _run("tokenize", config, keys, {}, progress, row=sink or rows.append)
    return rows


def inspect(config: Config = None, *, weights: bool = False, progress: bool | None = None, **keys: Any) -> dict[str, Any]:
    """What a model and a data set are made of."""
    return _run("inspect", config, keys, {"weights": weights}, progress)


def explain(config: Config = None, *, stages: bool = False, progress: bool | None = None, **keys: Any) -> dict[str, Any]:
    """How a run is compiled, stage by stage; with `stages` what stands after each."""
    return _run("explain", config, keys, {"stages": stages}, progress)["json"]


def verify(config: Config = None, *, progress: bool | None = None, **keys: Any) -> dict[str, Any]:
    """Proves on your model and data that plans do not change results."""
    return _run("verify", config, keys, {}, progress)


def _folder_verb(verb: str, **options: Any) -> str:
    return call(verb, {"." + name: text_of(name, value) for name, value in options.items() if value is not None})


def merge(model: str | os.PathLike[str], adapters: str | os.PathLike[str], output: str | os.PathLike[str]) -> str:
    """Writes a model's folder as it is with adapters (docs/lora.md)."""
    return _folder_verb("merge", model_folder=model, adapters=adapters, output=output)


def convert(file: str | os.PathLike[str], output: str | os.PathLike[str]) -> str:
    """Writes pytorch_model.bin, or a folder's shards, as one file of safetensors."""
    return _folder_verb("convert", weights_file=file, output=output)


def export(model: str | os.PathLike[str], output: str | os.PathLike[str], dtype: str | None = None) -> str:
    """Writes a model's folder for transformers; `dtype`: float32, bfloat16 or float16."""
    return _folder_verb("export", model_folder=model, output=output, dtype=dtype)


def keys() -> Iterator[dict[str, Any]]:
    """Every key of a run configuration: name, type, default, range, help."""
    yield from call("options", {})["options"]
