"""The verdict on a world, from raw SQL and from what the services saw."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.acceptance.checker import EVENTS, FINAL, TALLIES
from tests.simulation import poison
from tests.simulation.services import LIMIT, Service
from tests.simulation.world import World

JOBS = "select id, kind, unique_key, state, fence, attempt, result, error_code, deaths from tg_job order by id"
ENDED = ("failed", "cancelled")
A_MINUTE = 10  # calls, at most, of a service that is down: trials of an open breaker, and what was under way
SEEN_BY_ALL = 6.0  # seconds after which no machine begins what was paused: its next look, and a little
NOTICES = "select kind, subject, name, lane, operation, episode from tg_notice"


def wrong(world: World) -> list[str]:
    """Every promise that was broken, in words."""
    found = [*world.wrong, *_jobs(world), *_calls(world), *_rests(world), *_numbers(world)]
    found += [] if world.stepped else _moments(world)
    found += poison.wrong(world)
    found += world.mailbox.wrong(world.rows, world.judged_at, calm=world.calm)
    return found + [f"{part.name}: {each}" for part in world.parts for each in part.wrong()]


def _jobs(world: World) -> Iterator[str]:
    jobs = {row[0]: row for row in world.rows(JOBS)}
    ends: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for job, fence, seq, kind, *_ in world.rows(EVENTS):
        if seq == 0:
            ends[job][fence] = kind
    begun = {job: found for each in world.services.values() for job, found in each.begun.items()}
    parents = dict[int, int](world.rows("select child, parent from tg_link"))
    for (name, key), id_ in world.put.items():
        if id_ not in jobs:
            yield f"{key} of {name} was acknowledged as job {id_}, which is gone"
    twins = Counter((row[1], row[2]) for row in jobs.values() if row[2] and row[1] in world.services)
    yield from (f"{n} jobs for {twin}" for twin, n in twins.items() if n > 1)
    for id_, (_, kind, _, state, fence, attempt, result, code, deaths) in jobs.items():
        if kind not in (*world.services, "after"):
            continue  # applications judge their own
        if state not in FINAL:
            yield f"job {id_} of {kind} is still {state}"
            continue
        finals = [at for at, end in ends[id_].items() if end in FINAL]
        once = finals[-1:] if id_ in world.retried else finals
        if state == "done" and (once != [fence] or json.loads(result or "{}").get("fence") != fence):
            yield f"job {id_}: fence {fence}, ended at {finals}, result {result}"
        orphan = code == "parent_failed" and (parents[id_] in world.retried or jobs[parents[id_]][3] in ENDED)
        if state == "failed" and not orphan and not (code == "worker_lost" and deaths >= 3):
            yield f"job {id_} failed with {code} after {deaths} deaths"
        if state == "cancelled" and id_ not in world.asked_to_stop:
            yield f"job {id_} is cancelled, and nobody asked for it"
        if id_ not in world.retried:
            yield from _attempts(world, id_, kind, attempt, ends[id_], {at for _, at in begun.get(id_, ())})


def _attempts(world: World, id_: int, kind: str, attempt: int, ends: dict[int, str], begun: set[int]) -> Iterator[str]:
    if begun - set(ends):
        yield f"job {id_}: the fences {sorted(begun - set(ends))} were begun and never ended"
    counted = sum(end != "trial" and (at in begun or end != "given_back") for at, end in ends.items())
    if kind in world.services and attempt != counted:
        yield f"job {id_}: {attempt} attempts, not {counted}: {ends}"
    if world.calm and "lost" in ends.values():
        yield f"job {id_} lost its worker, and none was gone: {ends}"


def _calls(world: World) -> Iterator[str]:
    for name, service in world.services.items():
        if service.most > LIMIT and not world.stepped:
            yield f"{name} saw {service.most} calls at a time, and {LIMIT} are allowed"
        for id_, begun in service.begun.items():
            fences = [fence for _, fence in begun]
            if fences != sorted(set(fences)):
                yield f"job {id_} began at the fences {fences}"


def _rests(world: World) -> Iterator[str]:
    begun = {job: [at for at, _ in found] for each in world.services.values() for job, found in each.begun.items()}
    for id_, since, until in [*world.rested, *((job, at, math.inf) for job, at in world.cancelled.items())]:
        if late := [at for at in begun.get(id_, ()) if since + 0.001 < at < until]:
            yield f"job {id_} began at {late} after it was cancelled at {since}"


def _moments(world: World) -> Iterator[str]:
    """What is said in wall time, which holds as long as nobody moves that."""
    moments = {name: [at for found in each.begun.values() for at, _ in found] for name, each in world.services.items()}
    for name, start, end in world.pauses:
        if any(start + SEEN_BY_ALL < at < end - 0.01 for at in moments[name]):
            yield f"{name} was called while it was paused, from {start:.0f} to {end:.0f}"
    for name, start, end in world.outages:
        asked = sum(start + 120 < at < end for at in moments[name])
        if asked > A_MINUTE * max(1.0, (end - start - 120) / 60):
            yield f"{name} was called {asked} times while it was down, from {start:.0f} to {end:.0f}"
    for name, service in world.services.items():
        yield from _too_soon(world, name, service)


def _too_soon(world: World, name: str, service: Service) -> Iterator[str]:
    for id_, begun in service.begun.items():
        if id_ in world.due and begun[0][0] < world.due[id_] - 0.01:
            yield f"job {id_} came to {name} at {begun[0][0]:.1f}, and was due at {world.due[id_]:.1f}"
    for id_, waits in service.told_to_wait.items():
        soon = [at for at, _ in service.begun[id_] if any(until - 19.9 < at < until - 0.1 for until in waits)]
        if soon:
            yield f"job {id_} came to {name} at {soon}, sooner than it was told: {waits}"


def _numbers(world: World) -> Iterator[str]:
    counted = Counter(row[3] for row in world.rows(JOBS))
    kept = {what: int(n) for what, n in world.rows(TALLIES) if n and ":" not in what and not what.endswith("_total")}
    if kept != dict(counted):
        yield f"kept {kept}, counted {dict(counted)}"
    for told, n in Counter(world.rows(NOTICES)).items():
        if n > 1:
            yield f"{told} was told {n} times"
