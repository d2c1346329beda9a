"""What a test of a program that uses Tidegate needs: time that is virtual, services that follow a script, an event log.

    from tidegate.testing import EventLog, ScriptedTarget, Simulator, VirtualClock

Names are loaded when they are first used: the pytest plug-in lives in this package, and every run of pytest loads it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.ops.outage import Outage
    from tidegate.ops.simulate import Simulation
    from tidegate.runtime.clock import VirtualClock
    from tidegate.runtime.virtual_loop import Deadlock
    from tidegate.testing.event_log import EventLog
    from tidegate.testing.jobs import work_for
    from tidegate.testing.scripted import Hang, Made, ScriptedTarget, Status, StatusError
    from tidegate.testing.simulation import simulate
    from tidegate.testing.simulator.asked import Asked
    from tidegate.testing.simulator.service import Simulator
    from tidegate.testing.simulator.steps import Step

_HOMES = {
    "Asked": "tidegate.testing.simulator.asked",
    "Deadlock": "tidegate.runtime.virtual_loop",
    "EventLog": "tidegate.testing.event_log",
    "Hang": "tidegate.testing.scripted",
    "Made": "tidegate.testing.scripted",
    "Outage": "tidegate.ops.outage",
    "ScriptedTarget": "tidegate.testing.scripted",
    "Simulation": "tidegate.ops.simulate",
    "Simulator": "tidegate.testing.simulator.service",
    "Status": "tidegate.testing.scripted",
    "StatusError": "tidegate.testing.scripted",
    "Step": "tidegate.testing.simulator.steps",
    "VirtualClock": "tidegate.runtime.clock",
    "simulate": "tidegate.testing.simulation",
    "work_for": "tidegate.testing.jobs",
}

__all__ = [
    "Asked",
    "Deadlock",
    "EventLog",
    "Hang",
    "Made",
    "Outage",
    "ScriptedTarget",
    "Simulation",
    "Simulator",
    "Status",
    "StatusError",
    "Step",
    "VirtualClock",
    "simulate",
    "work_for",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
