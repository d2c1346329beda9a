"""What people do to a target on its page: a table of actions, each a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from tidegate.core.actor import Actor
from tidegate.ops import actions, trials
from tidegate.ops.trials import Trial
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import times
from tidegate.web.pages.pausing import end_of
from tidegate.web.pages.saying import Said, act, answer
from tidegate.web.site import Site, site_of

Field = Annotated[str, Form(max_length=2000)]
Reason = Annotated[str, Form(max_length=300)]
Ends = tuple[float, float]  # when it ends, and now


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a form asks for."""

    site: Site
    by: str
    name: str
    key: str = ""
    lasts: str = ""
    until: str = ""

    @property
    def who(self) -> str:
        return f"Key {self.key} of {self.name}" if self.key else self.name

    def ends(self, tx: Tx) -> Ends:
        now = now_of(tx)
        return end_of(self.lasts, self.until, now), now


def pause(asked: Asked) -> Said:
    def work(tx: Tx) -> Ends:
        end, now = asked.ends(tx)
        return actions.pause_target(tx, asked.name, end, asked.by), now

    def say(end: Ends) -> Said:
        return Said(text=f"{asked.name} is paused until {times.clock(*end)}.", undo="resume_target", of=asked.name)

    return act(asked.site, work, say)


def resume(asked: Asked) -> Said:
    def say(was: bool) -> Said:
        return Said(text=f"{asked.name} goes on.") if was else Said(text=f"{asked.name} was not paused.", tone="warn")

    return act(asked.site, lambda tx: actions.resume_target(tx, asked.name, asked.by), say)


def test(asked: Asked) -> Said:
    def say(trial: Trial) -> Said:
        return Said(text=trial.says, tone="warn" if trial.waits else "good")

    return act(asked.site, lambda tx: trials.begin(tx, asked.name, asked.by, asked.key or None), say)


def reset(asked: Asked) -> Said:
    def say(was: str) -> Said:
        if was == "closed":
            return Said(text=f"The breaker of {asked.name} was closed already; its counts are forgotten.")
        return Said(text=f"The breaker of {asked.name} was {was} and is closed; its jobs go at once.")

    return act(asked.site, lambda tx: actions.reset_breaker(tx, asked.name, asked.by), say)


def hold(asked: Asked) -> Said:
    def work(tx: Tx) -> Ends:
        end, now = asked.ends(tx)
        actions.force_breaker(tx, asked.name, "open", asked.by, end)
        return end, now

    def say(end: Ends) -> Said:
        return Said(text=f"The breaker of {asked.name} is held open until {times.clock(*end)}.")

    return act(asked.site, work, say)


def clear(asked: Asked) -> Said:
    def say(was: bool) -> Said:
        if was:
            return Said(text=f"{asked.who} is cleared; its jobs go at once.")
        return Said(text=f"There was nothing to clear of {asked.who}.", tone="warn")

    return act(asked.site, lambda tx: actions.clear_key(tx, asked.name, asked.key, asked.by), say)


def enable(asked: Asked) -> Said:
    def say(was: bool) -> Said:
        return (
            Said(text=f"{asked.who} is enabled.") if was else Said(text=f"{asked.who} was not disabled.", tone="warn")
        )

    return act(asked.site, lambda tx: actions.enable_key(tx, asked.name, asked.key, asked.by), say)


def disable(asked: Asked) -> Said:
    def work(tx: Tx) -> Ends:
        end, now = asked.ends(tx)
        actions.disable_key(tx, asked.name, asked.key, asked.by, end)
        return end, now

    def say(end: Ends) -> Said:
        text = f"{asked.who} rests until {times.clock(*end)}."
        return Said(text=text, undo="enable_key", of=asked.name, key=asked.key)

    return act(asked.site, work, say)


ACTIONS: Mapping[str, Callable[[Asked], Said]] = {
    "pause": pause, "resume": resume, "test": test, "reset": reset, "hold": hold, "clear": clear, "enable": enable,
    "disable": disable,
}  # fmt: skip


def _doing(action: Callable[[Asked], Said]) -> Callable[..., Response]:
    def doing(
        request: Request,
        name: str,
        back: Field = "",
        key: Field = "",
        lasts: Field = "",
        until: Field = "",
        reason: Reason = "",
    ) -> Response:
        site = site_of(request)
        by = Actor.of(site.actor_of(request)).because(reason.strip())
        said = action(Asked(site=site, by=by, name=name, key=key, lasts=lasts, until=until))
        return answer(request, said, back, "/targets", name)

    return doing


router = APIRouter()
for path, action in ACTIONS.items():
    router.post(f"/targets/{{name:path}}/{path}")(_doing(action))
