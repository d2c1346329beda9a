"""Those who look, pause, cancel and ask for once more: at a terminal of some machine, or through the API."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.errors import StoreBusy, StoreFull

if TYPE_CHECKING:
    from tests.simulation.world import World

EVERY = 150.0  # seconds between two acts, on average
LISTS = ("overview", "targets", "notices", "workers", "activity", "failures", "channels", "codes")
COUNTED = "select queue, state, count(*) from tg_job group by 1, 2"
NEWEST = "select id, state, attempt from tg_job order by id desc limit 20"
QUEUED = ("blocked", "waiting", "ready")


async def live(world: World, end: float) -> None:
    dice = world.dice_of("people")
    while await world.rest(dice.expovariate(1 / EVERY), end):
        act = dice.choice((pause, pause_by_api, cancel, look, look, retry))
        with suppress(StoreBusy, StoreFull):
            act(world)


# -- at a terminal -----------------------------------------------------------------------------------------------------


def pause(world: World) -> None:
    machine = world.anyone(world.dice)
    if machine is not None:
        name, lasts = world.dice.choice(list(world.services)), world.dice.uniform(30, 200)
        machine.queue.target(name).pause(f"{lasts:.3f}s", by="ada")
        _paused(world, name, lasts)


def cancel(world: World) -> None:
    machine = world.anyone(world.dice)
    if not world.put or machine is None:
        return
    id_ = world.dice.choice(list(world.put.values()))
    world.asked_to_stop.add(id_)  # whatever becomes of it: an answer that is not heard may have been a yes
    if machine.queue.cancel(id_, by="ada") == "cancelled":
        world.note("cancel", id_)
        world.cancelled[id_] = world.clock.monotonic()


# -- through the API ---------------------------------------------------------------------------------------------------


def pause_by_api(world: World) -> None:
    name, lasts = world.dice.choice(list(world.services)), float(world.dice.randint(30, 200))
    if _asked(world, "POST", f"targets/{name}/pause", json={"for": lasts}) is not None:
        _paused(world, name, lasts)


def retry(world: World) -> None:
    """Of one that was cancelled, most of all; the others are refused."""
    if not world.put:
        return
    id_ = world.dice.choice(sorted(world.cancelled) or list(world.put.values()))
    world.retried.add(id_)
    if id_ in world.cancelled:  # also if nobody hears that it worked
        world.rested.append((id_, world.cancelled.pop(id_), world.clock.monotonic()))
    if _asked(world, "POST", f"jobs/{id_}/retry", refused=(404, 409)) is not None:
        state = world.rows("select state from tg_job where id = ?", id_)[0][0]
        if state not in QUEUED:
            world.wrong.append(f"job {id_} was retried, the answer said so, and it is {state}")


def look(world: World) -> None:
    """What the API says is what the database has, at that moment."""
    if (listed := _asked(world, "GET", "jobs?limit=20")) is not None:
        shown = [(each["id"], each["stage"], each["attempt"]) for each in listed["items"]]
        if shown != world.rows(NEWEST):
            world.wrong.append(f"the API lists {shown}, the database has {world.rows(NEWEST)}")
    if (queues := _asked(world, "GET", "queues")) is not None:
        counted = Counter({(each["name"], state): n for each in queues["items"] for state, n in each["jobs"].items()})
        there = Counter[tuple[str, str]]()
        for queue, state, n in world.rows(COUNTED):
            there[queue, state] += n
        if +counted != there:
            world.wrong.append(f"the API counts {+counted}, the database has {there}")
    _asked(world, "GET", world.dice.choice(LISTS))


def _asked(world: World, method: str, path: str, refused: tuple[int, ...] = (), **more: Any) -> Any:
    """What it says; None when it was refused, or the database could not be reached."""
    answer = world.server.ask(method, f"/api/v1/{path}", **more)
    world.note("asked", method, path, answer.status_code)
    if answer.status_code == 200:
        return answer.json()
    if answer.status_code not in (503, 507, *refused):
        world.wrong.append(f"{method} {path} was answered with {answer.status_code}: {answer.text[:200]}")
    return None


def _paused(world: World, name: str, lasts: float) -> None:
    world.note("pause", name)
    now = world.clock.monotonic()
    world.pauses = [(each, start, min(end, now) if each == name else end) for each, start, end in world.pauses]
    world.pauses.append((name, now, now + lasts))
