"""`tidegate targets` and `tidegate explain`: the state of targets, actions on them, and wait reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from tidegate.cli.database import NUMBER, by_option, command_at_store, say, show_what, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.options import duration
from tidegate.cli.root import CommandGroup
from tidegate.jobs import explain as job_explain
from tidegate.jobs import reports
from tidegate.store.base import Tx, now_of
from tidegate.targets import actions
from tidegate.targets import explain as target_explain
from tidegate.targets import reports as target_reports
from tidegate.targets.explain import WaitReason
from tidegate.targets.reports import TargetDetail, TargetReport

# -- explain -----------------------------------------------------------------------------------------------------------

_ENDED_BY = {
    "time": "by itself",
    "person": "by a person",
    "probe": "when a probe succeeds",
    "call": "when a call comes back",
    "job": "when that job is done",
    "worker": "by a worker",
}


def lines_of(reasons: list[WaitReason]) -> list[str]:
    """Format each reason in three lines: what, since and until when, who ends it."""
    lines: list[str] = []
    for n, reason in enumerate(reasons, 1):
        times = [f"since {when(reason.since)}"] if reason.since is not None else []
        times += [f"until {when(reason.until)}"] if reason.until is not None else []
        ends = _ENDED_BY[str(reason.ended_by)]
        lines += [
            f"{n}. {reason.reason} ({reason.subject})",
            f"   {reason.message}",
            f"   {', '.join([*times, f'ends {ends}'])}",
        ]
    return lines


@click.group(cls=CommandGroup)
def explain() -> None:
    """Says why a job is not running, or what stands before a target."""


@explain.command()
@click.argument("job_id", type=NUMBER, metavar="ID")
@command_at_store
def job(job_id: int, url: str, driver: str | None, as_json: bool) -> int:
    """Says why a job is not running, the first reason first."""
    with store_at(url, driver) as store:
        report = store.read(lambda tx: reports.job(tx, job_id))
    about = report.job

    def lines() -> list[str]:
        head = f"job {about.id} ({about.kind}, queue {about.queue}) is {about.state}"
        return [f"{head}." if not report.reasons else f"{head}, and not running:", *lines_of(report.reasons)]

    document = {"job": about.id, "state": str(about.state), "reasons": [reason.as_json() for reason in report.reasons]}
    say(document, as_json, lines)
    return Exit.OK


@explain.command()
@click.argument("name")
@click.option("--key", help="One key of it, such as a user or a feed.")
@command_at_store
def target(name: str, key: str | None, url: str, driver: str | None, as_json: bool) -> int:
    """Says what stands before the jobs of a target, or of one key of it."""
    with store_at(url, driver) as store:
        whys = store.read(lambda tx: target_explain.target(tx, name, "" if key is None else key))
    subject = name if key is None else f"key {key} of {name}"
    say(
        {"target": name, "key": key, "reasons": [reason.as_json() for reason in whys]},
        as_json,
        lambda: [f"Nothing stands before {subject}."] if not whys else [f"before {subject}:", *lines_of(whys)],
    )
    return Exit.OK


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


def _lines(targets: list[TargetReport]) -> list[str]:
    head = ("TARGET", "STATE", "RUNNING", "HELD KEYS", "NEXT TRY", "WHY")
    rows = [
        (target.name, target.word, str(target.running), str(target.held_keys), when(target.next_try), target.reason)
        for target in targets
    ]
    return table(rows, head) or ["There is no target."]


@targets.command()
@click.argument("name")
@command_at_store
def show(name: str, url: str, driver: str | None, as_json: bool) -> int:
    """Shows one target: what holds it, its keys that are not well, its last events."""
    return show_what(lambda tx: target_reports.one(tx, name), _detail, url, driver, as_json=as_json)


def _detail(detail: TargetDetail) -> list[str]:
    report = detail.report
    lines = [f"{report.name}: {report.word}. {report.reason}", f"breaker {report.breaker} since {when(report.since)}"]
    lines += [f"{name} {value}" for name, value in report.rules.items()]
    lines += ["", *lines_of(detail.reasons)] if detail.reasons else []
    keys = [(row.lane or "-", row.reason, row.code or "", when(row.until) or "a person acts") for row in detail.keys]
    lines += ["", *table(keys, ("KEY", "HELD BY", "CODE", "UNTIL"))] if keys else []
    events = [(when(event.at), event.kind, event.lane or "", event.actor) for event in detail.events[:20]]
    lines += ["", *table(events, ("AT", "EVENT", "KEY", "BY"))] if events else []
    programs = [
        (program, str(summary.get("unhealthy", "")), when(summary.get("at")))
        for program, summary in report.programs.items()
    ]
    return lines + (["", *table(programs, ("PROGRAM", "UNHEALTHY KEYS", "SAID AT"))] if programs else [])


@dataclass(frozen=True, slots=True)
class TargetCommand:
    """An action on a target and the text of its result. False means that nothing changed."""

    work: Callable[[Tx], Any]
    said: Callable[[Any], str]
    shown: Callable[[Any], Any] = lambda result: result  # as JSON


def _action(describe: Callable[..., TargetCommand]) -> click.Command:
    """Build the command of the action that *describe* returns: with its name, its options, and --by."""
    own = list(getattr(describe, "__click_params__", ()))

    @targets.command(describe.__name__)
    @click.argument("name")
    @by_option
    @command_at_store
    @wraps(describe)
    def run(url: str, driver: str | None, as_json: bool, **options: Any) -> int:
        action = describe(**options)
        with store_at(url, driver) as store:
            result = store.write(action.work)
            store.announce()
        say({"done": result is not False, "result": action.shown(result)}, as_json, lambda: [action.said(result)])
        return Exit.NEGATIVE if result is False else Exit.OK

    run.params.sort(key=lambda param: (isinstance(param, click.Option), param not in own))  # common options last
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
    subject = _who(name, key)
    return TargetCommand(
        lambda tx: actions.clear_key(tx, name, key, by),
        lambda was: f"{subject} is cleared." if was else f"There was nothing to clear of {subject}.",
    )


@_action
@_key_option
def enable(name: str, key: str, by: str) -> TargetCommand:
    """Ends the rest of a target's key, whoever ordered it."""
    subject = _who(name, key)
    return TargetCommand(
        lambda tx: actions.enable_key(tx, name, key, by),
        lambda was: f"{subject} is enabled." if was else f"{subject} was not disabled.",
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
        lambda tx: job_explain.begin(tx, name, by, key), lambda trial: trial.says, lambda trial: trial.as_json()
    )


def _who(name: str, key: str) -> str:
    return f"key {key} of {name}" if key else name
