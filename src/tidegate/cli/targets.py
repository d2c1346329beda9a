"""`tidegate targets`: how the services are, and what people do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from tidegate.cli.at_store import by_option, command_at_store, say, show_what, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.explain import lines_of
from tidegate.cli.groups import CommandGroup
from tidegate.cli.numbers import duration
from tidegate.ops import actions, target_reports, trials
from tidegate.ops.target_reports import TargetDetail, TargetReport
from tidegate.store.now import now_of
from tidegate.store.tx import Tx

_FOR = "For how long, such as 30m, 2h or 1d."
_key_option = click.option("--key", default="", help="One key of it, such as a user or a feed.")


@click.group(cls=CommandGroup)
def targets() -> None:
    """Shows how targets are, and pauses, tests, clears, enables, disables or resets them."""


@targets.command("list")
@command_at_store
def list_(url: str, driver: str | None, as_json: bool) -> int:
    """Lists every target, with the state of its gate."""
    return show_what(target_reports.every, _lines, url, driver, as_json=as_json)


def _lines(found: list[TargetReport]) -> list[str]:
    head = ("TARGET", "STATE", "RUNNING", "HELD KEYS", "NEXT TRY", "WHY")
    rows = [
        (each.name, each.word, str(each.running), str(each.held_keys), when(each.next_try), each.reason)
        for each in found
    ]  # fmt: skip
    return table(rows, head) or ["There is no target."]


@targets.command()
@click.argument("name")
@command_at_store
def show(name: str, url: str, driver: str | None, as_json: bool) -> int:
    """Shows one target: what holds it, its keys that are not well, its last events."""
    return show_what(lambda tx: target_reports.one(tx, name), _detail, url, driver, as_json=as_json)


def _detail(found: TargetDetail) -> list[str]:
    report = found.report
    lines = [f"{report.name}: {report.word}. {report.reason}", f"breaker {report.breaker} since {when(report.since)}"]
    lines += [f"{name} {value}" for name, value in report.rules.items()]
    lines += ["", *lines_of(found.reasons)] if found.reasons else []
    keys = [(row.lane or "-", row.reason, row.code or "", when(row.until) or "a person acts") for row in found.keys]
    lines += ["", *table(keys, ("KEY", "HELD BY", "CODE", "UNTIL"))] if keys else []
    events = [(when(event.at), event.kind, event.lane or "", event.actor) for event in found.events[:20]]
    lines += ["", *table(events, ("AT", "EVENT", "KEY", "BY"))] if events else []
    programs = [(who, str(said.get("unhealthy", "")), when(said.get("at"))) for who, said in report.programs.items()]
    return lines + (["", *table(programs, ("PROGRAM", "UNHEALTHY KEYS", "SAID AT"))] if programs else [])


@dataclass(frozen=True, slots=True)
class TargetCommand:
    """What is done to a target, and what is said of its result; False means that there was nothing to do."""

    work: Callable[[Tx], Any]
    said: Callable[[Any], str]
    shown: Callable[[Any], Any] = lambda result: result  # as JSON


def _action(describe: Callable[..., TargetCommand]) -> click.Command:
    """The verb that does what *describe* says of a target: it has the name of it, its options, and --by."""
    own = list(getattr(describe, "__click_params__", ()))

    @targets.command(describe.__name__)
    @click.argument("name")
    @by_option
    @command_at_store
    @wraps(describe)
    def run(url: str, driver: str | None, as_json: bool, **asked: Any) -> int:
        action = describe(**asked)
        with store_at(url, driver) as store:
            result = store.write(action.work)
            store.announce()
        say({"done": result is not False, "result": action.shown(result)}, as_json, lambda: [action.said(result)])
        return Exit.NEGATIVE if result is False else Exit.OK

    run.params.sort(key=lambda param: (isinstance(param, click.Option), param not in own))  # what all have comes last
    return run


@_action
@click.option("--for", "lasts", required=True, metavar="TIME", callback=duration, help=_FOR)
def pause(name: str, lasts: float, by: str) -> TargetCommand:
    """Claims no job of a target for a time."""

    def work(tx: Tx) -> float:
        return actions.pause_target(tx, name, now_of(tx) + lasts, by)

    return TargetCommand(work, lambda until: f"{name} is paused until {when(until)}.")


@_action
def resume(name: str, by: str) -> TargetCommand:
    """Ends the pause of a target."""
    return TargetCommand(
        lambda tx: actions.resume_target(tx, name, by),
        lambda was: f"{name} goes on." if was else f"{name} was not paused.",
    )


@_action
@_key_option
def clear(name: str, key: str, by: str) -> TargetCommand:
    """Forgets all state of a target's key, as after new credentials: its jobs go at once."""
    who = _who(name, key)
    return TargetCommand(
        lambda tx: actions.clear_key(tx, name, key, by),
        lambda was: f"{who} is cleared." if was else f"There was nothing to clear of {who}.",
    )


@_action
@_key_option
def enable(name: str, key: str, by: str) -> TargetCommand:
    """Ends the rest of a target's key, whoever ordered it."""
    who = _who(name, key)
    return TargetCommand(
        lambda tx: actions.enable_key(tx, name, key, by),
        lambda was: f"{who} is enabled." if was else f"{who} was not disabled.",
    )


@_action
@_key_option
@click.option("--for", "lasts", metavar="TIME", callback=duration, help=f"{_FOR} Without it until `enable`.")
def disable(name: str, key: str, lasts: float | None, by: str) -> TargetCommand:
    """Claims no job of a target's key, for a time or until it is enabled."""

    def work(tx: Tx) -> None:
        until = None if lasts is None else now_of(tx) + lasts
        actions.disable_key(tx, name, key, by, until)

    return TargetCommand(work, lambda _: f"{_who(name, key)} is disabled.")


@_action
def reset(name: str, by: str) -> TargetCommand:
    """Closes the breaker of a target and forgets its counts."""
    return TargetCommand(
        lambda tx: actions.reset_breaker(tx, name, by), lambda was: f"The breaker of {name} was {was} and is closed."
    )


@_action
@click.option("--key", help="One key of it, such as a user or a feed; without it any.")
def test(name: str, key: str | None, by: str) -> TargetCommand:
    """Tests a target now: one job that waits behind it goes at once."""
    return TargetCommand(
        lambda tx: trials.begin(tx, name, by, key), lambda trial: trial.says, lambda trial: trial.as_json()
    )


def _who(name: str, key: str) -> str:
    return f"key {key} of {name}" if key else name
