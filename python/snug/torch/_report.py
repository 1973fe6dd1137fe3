# SPDX-License-Identifier: Apache-2.0
"""The plan of a graph, and what was measured of it."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._errors import Error
from ._memory import shown
from ._resident import Resident


@dataclass
class RegionPlan:
    """The plan of one graph for one set of shapes. All bytes are of the whole step on the device."""

    memory: int
    resident: Resident
    #: What graphs before this one hold for their backward parts when this one was planned.
    waiting_bytes: int
    tangent_bytes: int
    #: At the optimizer's step: parameters, gradients, states, inputs, and what the step takes.
    update_peak_bytes: int
    #: What snug.solve.remat returned (docs/solve.md), and for which problem.
    report: dict[str, Any] = field(repr=False)
    problem: dict[str, Any] = field(repr=False)
    count: str = "workspace"
    #: At the first run: the storages that ops made, with what is resident.
    measured_forward_bytes: int | None = None
    measured_backward_bytes: int | None = None

    @property
    def peak_bytes(self) -> int:
        return max(self.report["peak_bytes"], self.update_peak_bytes)

    @property
    def forward_peak_bytes(self) -> int:
        return self.report["forward_peak_bytes"]

    @property
    def backward_peak_bytes(self) -> int:
        return self.report["backward_peak_bytes"]

    @property
    def overhead(self) -> float:
        return self.report["overhead"]

    @property
    def milliseconds(self) -> float:
        return self.report["cost"]

    @property
    def runs_again(self) -> int:
        return len(self.report["schedule"]) - len(set(self.report["schedule"]))

    def measure_forward(self, made: int) -> None:
        self.measured_forward_bytes = made + self.resident.total + self.waiting_bytes
        self._compare("forward", self.measured_forward_bytes, self.forward_peak_bytes)

    def measure_backward(self, made: int) -> None:
        self.measured_backward_bytes = made + self.resident.total + self.waiting_bytes + self.tangent_bytes
        self._compare("backward", self.measured_backward_bytes, self.backward_peak_bytes)

    def _compare(self, part: str, measured: int, planned: int) -> None:
        if measured > planned:
            raise Error("internal", f"{part} part", f"had {measured} bytes in memory, {planned} were planned", "report the model: the plan did not know one of its ops")

    def __str__(self) -> str:
        resident = self.resident
        rows = [
            ("memory", shown(self.memory), ""),
            ("planned peak", shown(self.peak_bytes), f"forward {shown(self.forward_peak_bytes)}, backward {shown(self.backward_peak_bytes)}, update {shown(self.update_peak_bytes)}"),
            ("resident", shown(resident.total), f"parameters {shown(resident.parameters)}, gradients {shown(resident.gradients)}, states {shown(resident.states)}, "
             f"buffers and inputs {shown(resident.buffers_and_inputs)}" + (f", other {shown(resident.other)}" if resident.other else "")),
            ("kept", shown(self.report["crossing_bytes"]), f"{len(self.report['crossing'])} tensors from forward to backward"),
            ("run again", str(self.runs_again), f"{100 * self.overhead:.1f} % more time than keeping all, as predicted: {self.milliseconds:.1f} ms"),
        ]
        if self.measured_forward_bytes is not None:
            backward = "not run" if self.measured_backward_bytes is None else shown(self.measured_backward_bytes)
            rows.append(("measured", "", f"forward {shown(self.measured_forward_bytes)}, backward {backward} (storages)"))
        return "\n".join(f"{name:<13}{value:>12}  {more}".rstrip() for name, value, more in rows)
