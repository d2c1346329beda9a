"""The demo as an application: its page, its buttons, and the line above every page that tells the story."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from tidegate.apps import App, Installed, Page, Strip
from tidegate.web import Problem, Right, current_user, needs, page, said
from tidegate_apps.demo.playing import Theatre
from tidegate_apps.demo.troubles import TROUBLES, Trouble

MARK = "Simulated"
HOME = "/demo"


def demo(theatre: Theatre) -> App[Any]:
    """Installed beside the others by `tidegate demo` alone; no server finds it by itself."""

    @needs(Right.SEE)
    def show(request: Request, _: Installed[Any]) -> Response:
        return page(request, "demo/demo.html", **shown(theatre))

    return App[Any](
        name="demo",
        title="Demo",
        about="A story of three minutes on simulated services.",
        package="tidegate_apps.demo",
        routes=lambda there: forms(there, theatre),
        pages=[Page(path=HOME, title="Demo", icon="play", show=show)],
        strip=lambda _: strip(theatre),
    )


def strip(theatre: Theatre) -> Strip:
    player = theatre.player
    place = player.place
    if place is not None:
        played, n = player.played[place], len(player.played)
        return Strip(
            mark=MARK, title=f"Step {place + 1} of {n}: {played.step.title}", text=played.words,
            links=(*played.step.look, (HOME, "The story")), tone="busy",
        )  # fmt: skip
    links = ((HOME, "Break and mend"),)
    if not player.over:
        return Strip(mark=MARK, title="The story begins in a moment.", links=links)
    words = _broken(theatre) or (theatre.words if player.told else "Everything works.")
    title = "That was the story." if player.told else "Break something yourself."
    return Strip(mark=MARK, title=title, text=words, links=links, tone="calm")


def _broken(theatre: Theatre) -> str:
    """What is broken at this moment; empty when nothing is."""
    broken = [each for each in TROUBLES.values() if each.on(theatre.stage)]
    names = list(dict.fromkeys(each.service for each in broken))
    if len(names) > 1:
        return f"{len(names)} services are broken now: {', '.join(names)}."
    return f"{names[0]}: {' '.join(each.ill for each in broken)}" if names else ""


def shown(theatre: Theatre) -> dict[str, Any]:
    """What the page shows."""
    player = theatre.player
    place, rows = player.place, _services(theatre)
    lasts = [each.step.lasts / player.speed for each in player.played]
    return {
        "player": player, "played": player.played, "at": None if place is None else player.played[place],
        "words": theatre.words, "services": rows, "broken": sum(bool(each["on"]) for each in rows),
        "length": sum(lasts), "starts": [sum(lasts[:place]) for place in range(len(lasts))],
    }  # fmt: skip


def _services(theatre: Theatre) -> list[dict[str, Any]]:
    """Each service once, with what can be broken of it, what is, and what Tidegate then says."""
    found: dict[str, list[Trouble]] = {}
    for each in TROUBLES.values():
        found.setdefault(each.service, []).append(each)
    rows = []
    for name, troubles in found.items():
        on = [each for each in troubles if each.on(theatre.stage)]
        says = theatre.stage.held(on[0].target) if on else ""
        rows.append({"name": name, "troubles": troubles, "on": on, "says": says})
    return rows


def forms(there: Installed[Any], theatre: Theatre) -> APIRouter:
    """The buttons, as forms that need no script."""
    router = APIRouter(include_in_schema=False)

    def noted(request: Request, action: str, trouble: Trouble | None, state: str) -> None:
        by = current_user(request)
        name, key = (there.app.name, None) if trouble is None else trouble.at
        there.db.write(lambda tx: tx.noted(by, action, name, key, became={"state": state}))

    @router.post("/demo/services/{name}/break")
    @needs(Right.PUT_IN)
    def break_it(request: Request, name: str) -> Response:
        trouble = _known(name)
        theatre.act(*trouble.do)
        noted(request, "target_broken", trouble, trouble.ill)
        return said(request, HOME, f"{trouble.service}: {trouble.ill} {trouble.watch}")

    @router.post("/demo/services/{name}/mend")
    @needs(Right.PUT_IN)
    def mend_it(request: Request, name: str) -> Response:
        trouble = _known(name)
        theatre.act(*trouble.undo)
        noted(request, "target_mended", trouble, "mended")
        return said(request, HOME, f"{trouble.service} is mended.")

    @router.post("/demo/story/again")
    @needs(Right.PUT_IN)
    def again(request: Request) -> Response:
        theatre.again()
        noted(request, "target_mended", None, "all mended, and the story begins")
        return said(request, HOME, "Everything is mended, and the story begins.")

    @router.post("/demo/story/next")
    @needs(Right.PUT_IN)
    def following(request: Request) -> Response:
        theatre.hurry()
        return said(request, HOME, "The story goes on.")

    @router.post("/demo/story/end")
    @needs(Right.PUT_IN)
    def end(request: Request) -> Response:
        theatre.end()
        return said(request, HOME, "The story has ended. What is broken stays so until you mend it.")

    return router


def _known(name: str) -> Trouble:
    if name not in TROUBLES:
        raise Problem("not_there", f"Nothing here is called {name[:40]!r}.")
    return TROUBLES[name]
