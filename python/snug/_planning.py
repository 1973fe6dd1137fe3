# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a network without training it, and the library's own networks."""
from __future__ import annotations

import ctypes
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ._config import Config, json_of, text_of
from ._config import options_of as config_options
from ._errors import Error
from ._native import Handle, do, library, make, options_array, result_of
from ._network import Network
from ._plan import Plan
from ._session import Given, Session, SessionPlan, TensorInfo, tensor_infos

if TYPE_CHECKING:
    from ._session_options import Options


def _names(key: str, names: str | Sequence[str]) -> str:
    """One name is a list of one, not of its letters."""
    return json_of(key, [names] if isinstance(names, str) else list(names))


def _asked(network: Network, verb: str, options: Mapping[str, Any], **of_verb: str) -> Any:
    given = Given(network, options)
    return do(network._handle, verb, {**given.call_options, **{"." + name: value for name, value in of_verb.items()}}, given.data)


def plan_network(network: Network, **options: Unpack[Options]) -> Plan:
    """Plans without training. Options are those of Session.

    Raises DoesNotFit with the proof, the smallest budget and the cheapest ways to fit.
    """
    answer = _asked(network, "plan", options)
    return Plan(answer, save=lambda file: SessionPlan(network, **options).save(file), page=lambda: _asked(network, "plan", options, html="true")["html"])


def plan_levers(network: Network, allow: Sequence[str] = (), **options: Unpack[Options]) -> list[dict[str, Any]]:
    """What levers (docs/levers.md) would change: first the run as it is asked for, then each lever alone, then together those that
    lead to other weights; of them those that `allow` names, where it names any."""
    return _asked(network, "plan_levers", options, allow=_names("allow", allow))["json"]


def plan_allowed_levers(network: Network, allow: Sequence[str], **options: Unpack[Options]) -> list[dict[str, Any]]:
    """Every combination of these levers, planned, fewest levers first."""
    return _asked(network, "plan_allowed_levers", options, allow=_names("allow", allow))["json"]


def fastest_levers(network: Network, allow: Sequence[str], **options: Unpack[Options]) -> dict[str, str]:
    """The keys of the fastest combination of these levers that fits; empty where no lever is faster."""
    return _asked(network, "fastest_levers", options, allow=_names("allow", allow))


def tensors_of(network: Network, **options: Unpack[Options]) -> list[TensorInfo]:
    """Weights, buffers and whether they are trained, in the order of the network, without a plan."""
    return tensor_infos(_asked(network, "tensors_of", options))


def explain_network(network: Network, *, stages: bool = False, **options: Unpack[Options]) -> dict[str, Any]:
    """How its training program is compiled, stage by stage; with `stages` what stands after each."""
    return _asked(network, "explain", options, stages=text_of("stages", stages))["json"]


def gradients(ys: Network, xs: Sequence[str] = (), checkpoints: str | Sequence[str] = "collection", **options: Unpack[Options]) -> Session:
    """A session that gives the gradients of what `ys` minimizes by the weights `xs` (names or patterns; none: all of them).
    `checkpoints`: "collection", "memory", "speed", or tensors by name (docs/coming-from.md)."""
    given = Given(ys, options)
    word = checkpoints if isinstance(checkpoints, str) else _names("checkpoints", checkpoints)
    return Session._of(make(ys._handle, "gradients", {**given.call_options, ".xs": _names("xs", xs), ".checkpoints": word}, given.data, given.kept))


def splits_of(batch_rows: int) -> list[int]:
    """The numbers of rows that a batch may be split into, largest first."""
    if not isinstance(batch_rows, numbers.Integral):
        raise Error("bad_config", "batch_rows", f"{batch_rows!r} rows are no batch", "give a whole number")
    return do(None, "splits_of", {".batch_rows": str(int(batch_rows))})


def every_combination(lengths: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """A program for each combination of these: {"source": [8, 16], "target": [8, 16]} has four. The longest of all comes last."""
    if not isinstance(lengths, Mapping):
        raise TypeError(f"lengths are {{name: sizes}}, not a {type(lengths).__name__}")
    return do(None, "every_combination", {".lengths": json_of("lengths", {name: list(sizes) for name, sizes in lengths.items()})})


def model_network(config: Config = None, **keys: Any) -> Network:
    """The network that the keys of a model and its task name (docs/configuration.md); its inputs are those of
    include/snug/models.h. Session.load_weights fills it from the model's folder."""
    options = config_options(config, keys)
    place = ctypes.c_void_p()
    result_of(library().snug_network_of_model(options_array(options), len(options), place))
    return Network._of(options.get("model", "model"), Handle(place.value))  # type: ignore[arg-type]
