"""Test helpers for programs that use Tidegate: a virtual clock, scripted services and an event log.

    from tidegate.testing import EventLog, ScriptedTarget, Simulator, VirtualClock

Names are imported on first use, because every pytest run loads the plug-in in this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Deadlock",
    "EventLog",
    "Hang",
    "Outage",
    "RecordedCall",
    "RecordedRequest",
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

if TYPE_CHECKING:
    from tidegate.clock import VirtualClock
    from tidegate.clock.virtual_loop import Deadlock
    from tidegate.simulation.outage import Outage
    from tidegate.simulation.play import Simulation
    from tidegate.testing.events import EventLog, work_for
    from tidegate.testing.scripted import Hang, RecordedCall, ScriptedTarget, Status, StatusError
    from tidegate.testing.simulation import simulate
    from tidegate.testing.simulator.requests import RecordedRequest
    from tidegate.testing.simulator.service import Simulator
    from tidegate.testing.simulator.steps import Step
else:
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.clock": ("VirtualClock",),
            "tidegate.clock.virtual_loop": ("Deadlock",),
            "tidegate.simulation.outage": ("Outage",),
            "tidegate.simulation.play": ("Simulation",),
            "tidegate.testing.events": ("EventLog", "work_for"),
            "tidegate.testing.scripted": ("Hang", "RecordedCall", "ScriptedTarget", "Status", "StatusError"),
            "tidegate.testing.simulation": ("simulate",),
            "tidegate.testing.simulator.requests": ("RecordedRequest",),
            "tidegate.testing.simulator.service": ("Simulator",),
            "tidegate.testing.simulator.steps": ("Step",),
        },
    )
