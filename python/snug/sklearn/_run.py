# SPDX-License-Identifier: Apache-2.0
"""Learning from texts and images: a run of the verbs, and the folder of the model that it leaves."""
from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import weakref
from typing import Any

from .. import _verbs

# What reading rows and predicting take of a fit's keys.
_OF_PREDICTION = ("memory", "threads", "eval_batch_size", "max_seq_length", "overlong", "stride", "bf16_full_eval", "fp16_full_eval")
# What begins a model, and has no meaning once there is one.
_OF_BEGINNING = ("tokenizer", "tokenizer_kind", "vocab_size", "fresh_head", "reinit_layers", "resize_embeddings", "label_order", "num_labels", "lora_adapter")
# Of a checkpoint, what only a run that goes on needs.
_OF_RUN = ("optimizer.safetensors", "trainer_state.json", "snug_state.json", ".snug.complete")


class Folder:
    """A model's folder, for as long as somebody has it. Its files go into pickles and copies."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="snug-model-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> Any:
        return folder_of, ({path.name: path.read_bytes() for path in sorted(pathlib.Path(self.path).iterdir())},)


def folder_of(files: dict[str, bytes]) -> Folder:
    folder = Folder()
    for name, content in files.items():
        pathlib.Path(folder.path, name).write_bytes(content)
    return folder


def _has_adapters(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "adapter_config.json"))


class RunLearner:
    """A trained model of texts or images."""

    def __init__(self, kind: str, task: str) -> None:
        self.kind = kind
        self.task = task
        self.folder = Folder()
        self.summary: dict[str, Any] = {}
        self.is_trained = False
        self.lora = "None"  # the key, as it reads

    def train(self, keys: dict[str, Any], rows: Any, labels: list[Any], weights: Any) -> None:
        """From the model that the keys name; once there is one, from there."""
        given = {"validation_split": 0, **keys}
        if self.is_trained:
            given = {name: value for name, value in given.items() if name not in _OF_BEGINNING}
            given["model"] = self.folder.path
            if _has_adapters(self.folder.path):  # which say the rest themselves
                lora = given.pop("lora", None)
                if lora is not None and repr(lora) != self.lora:
                    raise ValueError(f"lora is {lora!r}, and what is trained further has {self.lora}: set it back, or fit anew")
        elif given.get("model") is None:
            given["model"] = rows.model
        with tempfile.TemporaryDirectory(prefix="snug-fit-") as work:
            file, columns = rows.file(work, labels, weights)
            output = os.path.join(work, "out")
            self.summary = _verbs.train(given, **columns, train_file=file, output_dir=output, task=self.task)
            best = os.path.join(output, "best")
            kept = best if os.path.isdir(best) else os.path.join(output, "last")
            if self.is_trained and _has_adapters(kept) and not _has_adapters(self.folder.path):  # of a folder that is ours, and goes now
                merged = os.path.join(work, "merged")
                _verbs.merge(self.folder.path, kept, merged)
                kept = merged
            folder = Folder()
            shutil.copytree(kept, folder.path, dirs_exist_ok=True, ignore=lambda _folder, _names: _OF_RUN)
            self.folder = folder
        self.is_trained = True
        self.lora = repr(keys.get("lora")) if self.lora == "None" else self.lora

    def predictions(self, keys: dict[str, Any], rows: Any) -> list[dict[str, Any]]:
        given = {name: value for name, value in keys.items() if name in _OF_PREDICTION}
        with tempfile.TemporaryDirectory(prefix="snug-predict-") as work:
            file, columns = rows.file(work)
            return _verbs.predict(given, **columns, model=self.folder.path, test_file=file)
