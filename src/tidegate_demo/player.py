"""Plays the story: tracks the current step, whether its effect was observed, and when the next begins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.apps import Installed
from tidegate_demo.stage import DemoEnvironment, Facts
from tidegate_demo.story import TROUBLES, Do, StoryStep, ended

_log = logging.getLogger("tidegate.demo")
_POLL_INTERVAL = 0.5  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """One step, past or current: its last text, and when its effect was observed."""

    step: StoryStep
    words: str = ""
    began_at: float | None = None
    seen_at: float | None = None
    ended_at: float | None = None
    hurried: bool = False  # a user skipped it before its effect was observed

    @property
    def state(self) -> str:
        if self.began_at is None:
            return "ahead"
        return "over" if self.hurried or self.ended_at is not None else "now"


class StoryPlayer:
    """The position in the story. Time is passed in, and the actions to do are returned."""

    def __init__(self, steps: Sequence[StoryStep], *, speed: float = 1.0, on: bool = True) -> None:
        self._steps, self.speed = steps, speed
        self.played = tuple(PlayedStep(step=step) for step in steps)
        self._place = -1 if on else len(steps)
        self.told = on  # whether the story was ever started
        self._hurry = False

    @property
    def place(self) -> int | None:
        """Return the current step, from 0; None before the first and after the last."""
        place = self._place  # read once: the story may advance meanwhile
        return place if 0 <= place < len(self._steps) else None

    @property
    def over(self) -> bool:
        return self._place >= len(self._steps)

    def tick(self, now: float, facts: Facts) -> Sequence[Do]:
        """Return the actions to do now."""
        if self._place < 0:
            return self._begin(0, now, facts)
        if self.over:
            return ()
        here = self.played[self._place]
        seen_at = here.seen_at if here.seen_at is not None else now if here.step.seen(facts) else None
        here = self._put(replace(here, words=here.step.say(facts), seen_at=seen_at))
        lasted, least = now - (here.began_at or now), here.step.lasts / self.speed
        if not self._hurry and (lasted < least or (seen_at is None and lasted < least + here.step.patience)):
            return ()
        if seen_at is None and not self._hurry:
            _log.warning("demo_step_not_seen step=%s facts=%s", self._place + 1, facts)
        self._put(replace(here, ended_at=now, hurried=self._hurry))
        return self._begin(self._place + 1, now, facts)

    def hurry(self) -> None:
        """Begin the next step at the next tick."""
        self._hurry = True

    def again(self) -> None:
        """Restart at the next tick."""
        self.played = tuple(PlayedStep(step=step) for step in self._steps)
        self._place, self.told = -1, True

    def end(self) -> None:
        """End the story. Active faults stay."""
        if self.place is not None:
            self._put(replace(self.played[self._place], hurried=True))
        self._place = len(self._steps)

    def _begin(self, place: int, now: float, facts: Facts) -> Sequence[Do]:
        self._place, self._hurry = place, False
        if self.over:
            return ()
        step = self._steps[place]
        self._put(PlayedStep(step=step, began_at=now, words=step.say(facts)))
        return step.do

    def _put(self, played: PlayedStep) -> PlayedStep:
        self.played = (*self.played[: self._place], played, *self.played[self._place + 1 :])
        return played


class DemoRunner:
    """Runs the environment and the story in a thread. Thread-safe."""

    def __init__(self, environment: DemoEnvironment, player: StoryPlayer) -> None:
        self.environment, self._player = environment, player
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-demo", daemon=True)
        self.facts = Facts()

    def open(self, apps: Sequence[Installed[Any]]) -> None:
        self.environment.fill(apps)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def player(self) -> StoryPlayer:
        return self._player

    @property
    def words(self) -> str:
        """Return the text after the story."""
        return ended(self.facts)

    def act(self, *do: Callable[[DemoEnvironment], object]) -> None:
        """Run the action of a button."""
        with self._lock:
            for action in do:
                action(self.environment)

    def again(self) -> None:
        """Restart the story, with all faults cleared."""
        with self._lock:
            for trouble in TROUBLES.values():
                for do in trouble.undo if trouble.on(self.environment) else ():
                    do(self.environment)
            self.environment.afresh()
            self._player.again()

    def hurry(self) -> None:
        """Skip the rest of this step."""
        with self._lock:
            self._player.hurry()

    def end(self) -> None:
        """End the story."""
        with self._lock:
            self._player.end()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_INTERVAL):
            try:
                with self._lock:
                    self._tick()
            except Exception:  # any failure: the demo continues
                _log.exception("demo_tick_failed")

    def _tick(self) -> None:
        self.facts = self.environment.measure()
        for do in self._player.tick(self.environment.now(), self.facts):
            do(self.environment)
        self.environment.people(self.facts)
