"""What a test of a program that uses Tidegate needs: time that is virtual, services that follow a script, an event log.

    from tidegate.testing import EventLog, ScriptedTarget, Simulator, VirtualClock

Names are loaded when they are first used: the pytest plug-in lives in this package, and every run of pytest loads it.
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
    from tidegate.ops.outage import Outage
    from tidegate.ops.simulate import Simulation
    from tidegate.runtime.clock import VirtualClock
    from tidegate.runtime.virtual_loop import Deadlock
    from tidegate.testing.event_log import EventLog
    from tidegate.testing.jobs import work_for
    from tidegate.testing.scripted import Hang, RecordedCall, ScriptedTarget, Status, StatusError
    from tidegate.testing.simulation import simulate
    from tidegate.testing.simulator.asked import RecordedRequest
    from tidegate.testing.simulator.service import Simulator
    from tidegate.testing.simulator.steps import Step
else:
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.ops.outage": ("Outage",),
            "tidegate.ops.simulate": ("Simulation",),
            "tidegate.runtime.clock": ("VirtualClock",),
            "tidegate.runtime.virtual_loop": ("Deadlock",),
            "tidegate.testing.event_log": ("EventLog",),
            "tidegate.testing.jobs": ("work_for",),
            "tidegate.testing.scripted": ("Hang", "RecordedCall", "ScriptedTarget", "Status", "StatusError"),
            "tidegate.testing.simulation": ("simulate",),
            "tidegate.testing.simulator.asked": ("RecordedRequest",),
            "tidegate.testing.simulator.service": ("Simulator",),
            "tidegate.testing.simulator.steps": ("Step",),
        },
    )
