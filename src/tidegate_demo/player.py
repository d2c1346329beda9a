"""Plays the story: which step it is, whether what it tells has happened, and when the next one begins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate_demo.stage import DemoEnvironment, Facts
from tidegate_demo.story import TROUBLES, Do, StoryStep, ended

_log = logging.getLogger("tidegate.demo")
_POLL_INTERVAL = 0.5  # seconds between two looks


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """One step as it went, or goes: what was last said of it, and when what it tells was seen."""

    step: StoryStep
    words: str = ""
    began_at: float | None = None
    seen_at: float | None = None
    ended_at: float | None = None
    hurried: bool = False  # a person ended it, who did not wait for what it tells

    @property
    def state(self) -> str:
        if self.began_at is None:
            return "ahead"
        return "over" if self.hurried or self.ended_at is not None else "now"


class StoryPlayer:
    """Where the story is. The time is handed in, and what is to be done is handed back."""

    def __init__(self, steps: Sequence[StoryStep], *, speed: float = 1.0, on: bool = True) -> None:
        self._steps, self.speed = steps, speed
        self.played = tuple(PlayedStep(step=step) for step in steps)
        self._place = -1 if on else len(steps)
        self.told = on  # whether the story was ever begun
        self._hurry = False

    @property
    def place(self) -> int | None:
        """The step that it is at, from 0; None before the first and after the last."""
        place = self._place  # once: pages ask while the story goes on
        return place if 0 <= place < len(self._steps) else None

    @property
    def over(self) -> bool:
        return self._place >= len(self._steps)

    def tick(self, now: float, facts: Facts) -> Sequence[Do]:
        """What is to be done now."""
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
        """The next step begins at the next tick, whatever this one waits for."""
        self._hurry = True

    def again(self) -> None:
        """From the beginning, at the next tick."""
        self.played = tuple(PlayedStep(step=step) for step in self._steps)
        self._place, self.told = -1, True

    def end(self) -> None:
        """No further step; what is broken stays so."""
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
    """The stage with the story on it, in a thread of its own; safe to be asked by others meanwhile."""

    def __init__(self, environment: DemoEnvironment, player: StoryPlayer) -> None:
        self.environment, self._player = environment, player
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-demo", daemon=True)
        self.facts = Facts()

    def open(self, apps: Sequence[Any]) -> None:
        self.environment.fill(apps)
        self._thread.start()

    def close(self) -> None:
        """Ends it; nothing is done any more when this returns."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def player(self) -> StoryPlayer:
        return self._player

    @property
    def words(self) -> str:
        """What is told after the story."""
        return ended(self.facts)

    def act(self, *do: Callable[[DemoEnvironment], object]) -> None:
        """Somebody presses a button."""
        with self._lock:
            for each in do:
                each(self.environment)

    def again(self) -> None:
        """The story from its beginning, with everything mended."""
        with self._lock:
            for trouble in TROUBLES.values():
                for do in trouble.undo if trouble.on(self.environment) else ():
                    do(self.environment)
            self.environment.afresh()
            self._player.again()

    def hurry(self) -> None:
        """Somebody has seen enough of this step."""
        with self._lock:
            self._player.hurry()

    def end(self) -> None:
        """No further step of the story."""
        with self._lock:
            self._player.end()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_INTERVAL):
            try:
                with self._lock:
                    self._tick()
            except Exception:  # whatever it is, the demo goes on
                _log.exception("demo_tick_failed")

    def _tick(self) -> None:
        self.facts = self.environment.measure()
        for do in self._player.tick(self.environment.now(), self.facts):
            do(self.environment)
        self.environment.people(self.facts)
