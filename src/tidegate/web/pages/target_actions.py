"""What people do to a target on its page: a table of actions, each a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from tidegate.core.actor import Actor
from tidegate.ops import actions, trials
from tidegate.ops.trials import TargetTest
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import times
from tidegate.web.pages.pausing import end_of
from tidegate.web.pages.saying import Flash, act, answer
from tidegate.web.site import Site, site_of

Field = Annotated[str, Form(max_length=2000)]
Reason = Annotated[str, Form(max_length=300)]
Ends = tuple[float, float]  # when it ends, and now


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
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


def pause(form: ActionForm) -> Flash:
    def work(tx: Tx) -> Ends:
        end, now = form.ends(tx)
        return actions.pause_target(tx, form.name, end, form.by), now

    def say(end: Ends) -> Flash:
        return Flash(text=f"{form.name} is paused until {times.clock(*end)}.", undo="resume_target", of=form.name)

    return act(form.site, work, say)


def resume(form: ActionForm) -> Flash:
    def say(was: bool) -> Flash:
        return Flash(text=f"{form.name} goes on.") if was else Flash(text=f"{form.name} was not paused.", tone="warn")

    return act(form.site, lambda tx: actions.resume_target(tx, form.name, form.by), say)


def test(form: ActionForm) -> Flash:
    def say(trial: TargetTest) -> Flash:
        return Flash(text=trial.says, tone="warn" if trial.waits else "good")

    return act(form.site, lambda tx: trials.begin(tx, form.name, form.by, form.key or None), say)


def reset(form: ActionForm) -> Flash:
    def say(was: str) -> Flash:
        if was == "closed":
            return Flash(text=f"The breaker of {form.name} was closed already; its counts are forgotten.")
        return Flash(text=f"The breaker of {form.name} was {was} and is closed; its jobs go at once.")

    return act(form.site, lambda tx: actions.reset_breaker(tx, form.name, form.by), say)


def hold(form: ActionForm) -> Flash:
    def work(tx: Tx) -> Ends:
        end, now = form.ends(tx)
        actions.force_breaker(tx, form.name, "open", form.by, end)
        return end, now

    def say(end: Ends) -> Flash:
        return Flash(text=f"The breaker of {form.name} is held open until {times.clock(*end)}.")

    return act(form.site, work, say)


def clear(form: ActionForm) -> Flash:
    def say(was: bool) -> Flash:
        if was:
            return Flash(text=f"{form.who} is cleared; its jobs go at once.")
        return Flash(text=f"There was nothing to clear of {form.who}.", tone="warn")

    return act(form.site, lambda tx: actions.clear_key(tx, form.name, form.key, form.by), say)


def enable(form: ActionForm) -> Flash:
    def say(was: bool) -> Flash:
        return (
            Flash(text=f"{form.who} is enabled.") if was else Flash(text=f"{form.who} was not disabled.", tone="warn")
        )

    return act(form.site, lambda tx: actions.enable_key(tx, form.name, form.key, form.by), say)


def disable(form: ActionForm) -> Flash:
    def work(tx: Tx) -> Ends:
        end, now = form.ends(tx)
        actions.disable_key(tx, form.name, form.key, form.by, end)
        return end, now

    def say(end: Ends) -> Flash:
        text = f"{form.who} rests until {times.clock(*end)}."
        return Flash(text=text, undo="enable_key", of=form.name, key=form.key)

    return act(form.site, work, say)


ACTIONS: Mapping[str, Callable[[ActionForm], Flash]] = {
    "pause": pause, "resume": resume, "test": test, "reset": reset, "hold": hold, "clear": clear, "enable": enable,
    "disable": disable,
}  # fmt: skip


def _doing(action: Callable[[ActionForm], Flash]) -> Callable[..., Response]:
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
        said = action(ActionForm(site=site, by=by, name=name, key=key, lasts=lasts, until=until))
        return answer(request, said, back, "/targets", name)

    return doing


router = APIRouter()
for path, action in ACTIONS.items():
    router.post(f"/targets/{{name:path}}/{path}")(_doing(action))
