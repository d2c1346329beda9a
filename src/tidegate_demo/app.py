"""The demo application: its page, its buttons, and the story line above every page."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from tidegate.apps import App, Installed, Page, StatusStrip
from tidegate.web import Permission, Problem, current_user, page, redirect_with_flash, requires
from tidegate_demo.player import DemoRunner
from tidegate_demo.story import TROUBLES, DemoFault

MARK = "Simulated"
HOME = "/demo"


def demo(runner: DemoRunner) -> App[Any]:
    """Return the application. Only `tidegate demo` installs it; it has no entry point."""

    @requires(Permission.SEE)
    def show(request: Request, _: Installed[Any]) -> Response:
        return page(request, "demo/demo.html", **shown(runner))

    return App[Any](
        name="demo",
        title="Demo",
        about="A story of three minutes on simulated services.",
        package="tidegate_demo",
        routes=lambda there: forms(there, runner),
        pages=[Page(path=HOME, title="Demo", icon="play", show=show)],
        strip=lambda _: strip(runner),
    )


def strip(runner: DemoRunner) -> StatusStrip:
    player = runner.player
    place = player.place
    if place is not None:
        played, n = player.played[place], len(player.played)
        return StatusStrip(
            mark=MARK,
            title=f"Step {place + 1} of {n}: {played.step.title}",
            text=played.words,
            links=(*played.step.look, (HOME, "The story")),
            tone="busy",
        )
    links = ((HOME, "Break and mend"),)
    if not player.over:
        return StatusStrip(mark=MARK, title="The story begins in a moment.", links=links)
    words = _broken(runner) or (runner.words if player.told else "Everything works.")
    title = "That was the story." if player.told else "Break something yourself."
    return StatusStrip(mark=MARK, title=title, text=words, links=links, tone="calm")


def _broken(runner: DemoRunner) -> str:
    """Return what is broken at the moment; may be empty."""
    broken = [trouble for trouble in TROUBLES.values() if trouble.on(runner.environment)]
    names = list(dict.fromkeys(fault.service for fault in broken))
    if len(names) > 1:
        return f"{len(names)} services are broken now: {', '.join(names)}."
    return f"{names[0]}: {' '.join(fault.ill for fault in broken)}" if names else ""


def shown(runner: DemoRunner) -> dict[str, Any]:
    """Return what the page shows."""
    player = runner.player
    place, rows = player.place, _services(runner)
    lasts = [played.step.lasts / player.speed for played in player.played]
    return {
        "player": player,
        "played": player.played,
        "at": None if place is None else player.played[place],
        "words": runner.words,
        "services": rows,
        "broken": sum(bool(row["on"]) for row in rows),
        "length": sum(lasts),
        "starts": [sum(lasts[:place]) for place in range(len(lasts))],
    }


def _services(runner: DemoRunner) -> list[dict[str, Any]]:
    """Return each service with its possible faults, active faults, and Tidegate's status."""
    by_service: dict[str, list[DemoFault]] = {}
    for trouble in TROUBLES.values():
        by_service.setdefault(trouble.service, []).append(trouble)
    rows = []
    for name, troubles in by_service.items():
        on = [trouble for trouble in troubles if trouble.on(runner.environment)]
        says = runner.environment.held(on[0].target) if on else ""
        rows.append({"name": name, "troubles": troubles, "on": on, "says": says})
    return rows


def forms(app: Installed[Any], runner: DemoRunner) -> APIRouter:
    """Return the buttons, as forms that need no JavaScript."""
    router = APIRouter(include_in_schema=False)

    def noted(request: Request, action: str, trouble: DemoFault | None, state: str) -> None:
        by = current_user(request)
        name, key = (app.app.name, None) if trouble is None else trouble.at
        app.db.write(lambda tx: tx.noted(by, action, name, key, became={"state": state}))

    @router.post("/demo/services/{name}/break")
    @requires(Permission.PUT_IN)
    def break_it(request: Request, name: str) -> Response:
        trouble = _known(name)
        runner.act(*trouble.do)
        noted(request, "target_broken", trouble, trouble.ill)
        return redirect_with_flash(request, HOME, f"{trouble.service}: {trouble.ill} {trouble.watch}")

    @router.post("/demo/services/{name}/mend")
    @requires(Permission.PUT_IN)
    def mend_it(request: Request, name: str) -> Response:
        trouble = _known(name)
        runner.act(*trouble.undo)
        noted(request, "target_mended", trouble, "mended")
        return redirect_with_flash(request, HOME, f"{trouble.service} is mended.")

    @router.post("/demo/story/again")
    @requires(Permission.PUT_IN)
    def again(request: Request) -> Response:
        runner.again()
        noted(request, "target_mended", None, "all mended, and the story begins")
        return redirect_with_flash(request, HOME, "Everything is mended, and the story begins.")

    @router.post("/demo/story/next")
    @requires(Permission.PUT_IN)
    def following(request: Request) -> Response:
        runner.hurry()
        return redirect_with_flash(request, HOME, "The story goes on.")

    @router.post("/demo/story/end")
    @requires(Permission.PUT_IN)
    def end(request: Request) -> Response:
        runner.end()
        return redirect_with_flash(request, HOME, "The story has ended. What is broken stays so until you mend it.")

    return router


def _known(name: str) -> DemoFault:
    if name not in TROUBLES:
        raise Problem("not_there", f"Nothing here is called {name[:40]!r}.")
    return TROUBLES[name]
