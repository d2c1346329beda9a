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
from tidegate.errors import NotFound
from tidegate.jobs import explain as job_explain
from tidegate.jobs import reports
from tidegate.labels import TARGETS
from tidegate.store.base import Tx, now_of
from tidegate.targets import actions
from tidegate.targets import explain as target_explain
from tidegate.targets import reports as target_reports
from tidegate.targets.explain import WaitReason
from tidegate.targets.reports import TargetDetail, TargetReport

# -- explain -----------------------------------------------------------------------------------------------------------

_ENDED_BY = {
    "time": "at that time",
    "person": "when an operator ends it",
    "probe": "when a probe succeeds",
    "call": "when a call returns",
    "job": "when that job is done",
    "worker": "when a worker runs",
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


class ExplainGroup(CommandGroup):
    """`tidegate explain 3` means job 3, `tidegate explain spotify` the target spotify."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        subject = next((arg for arg in args if not arg.startswith("-")), None)
        if subject is not None and args[0] not in (*self.commands, *ctx.help_option_names):
            ctx.meta[_GUESSED] = True
            args = ["job" if subject.isascii() and subject.isdecimal() else "target", *args]
        return super().parse_args(ctx, args)


_GUESSED = "tidegate.cli.guessed"


@click.group(
    cls=ExplainGroup,
    subcommand_metavar="[ID | TARGET | job ID | target NAME]",
    epilog="""
    tidegate explain 12
    tidegate explain spotify --key 7
    tidegate explain target 12
    """,
)
def explain() -> None:
    """Explain why a job is not running, or what holds a target.

    A number is the id of a job, another word the name of a target. Name the kind if a target's name is a number.
    """


@explain.command(epilog="tidegate explain job 12")
@click.argument("job_id", type=NUMBER, metavar="ID")
@command_at_store
def job(job_id: int, url: str, driver: str | None, as_json: bool) -> int:
    """Explain why a job is not running, most important reason first."""
    with store_at(url, driver) as store:
        report = store.read(lambda tx: reports.job(tx, job_id))
    about = report.job

    def lines() -> list[str]:
        head = f"job {about.id} ({about.kind}, queue {about.queue}) is {about.state}"
        return [f"{head}." if not report.reasons else f"{head}, and not running:", *lines_of(report.reasons)]

    document = {"job": about.id, "state": str(about.state), "reasons": [reason.as_json() for reason in report.reasons]}
    say(document, as_json, lines)
    return Exit.OK


@explain.command(epilog="tidegate explain target spotify --key 7")
@click.argument("name")
@click.option("--key", help="One key, such as a user or a feed.")
@command_at_store
def target(name: str, key: str | None, url: str, driver: str | None, as_json: bool) -> int:
    """Explain what holds the jobs of a target, or of one key."""
    with store_at(url, driver) as store:
        try:
            reasons = store.read(lambda tx: target_explain.target(tx, name, "" if key is None else key))
        except NotFound as error:
            if not click.get_current_context().meta.get(_GUESSED):
                raise
            raise NotFound(f"{name!r} is neither the id of a job nor the name of a target: {error}") from error
    subject = name if key is None else f"key {key} of {name}"
    say(
        {"target": name, "key": key, "reasons": [reason.as_json() for reason in reasons]},
        as_json,
        lambda: [f"Nothing holds {subject}."] if not reasons else [f"{subject} is held:", *lines_of(reasons)],
    )
    return Exit.OK


_FOR = "Duration, such as 30m, 2h or 1d."
_key_option = click.option("--key", default="", help="One key, such as a user or a feed.")


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate targets list
    tidegate targets pause spotify --for 2h
    """,
)
def targets() -> None:
    """List targets, and pause, test, clear, enable, disable or reset them."""


@targets.command("list", epilog="tidegate targets list")
@command_at_store
def list_(url: str, driver: str | None, as_json: bool) -> int:
    """List targets with the state of their gate."""
    return show_what(target_reports.every, _lines, url, driver, as_json=as_json)


def _lines(targets: list[TargetReport]) -> list[str]:
    head = ("TARGET", "STATE", "RUNNING", "HELD KEYS", "NEXT TRY", "WHY")
    rows = [
        (target.name, target.word, str(target.running), str(target.held_keys), when(target.next_try), target.reason)
        for target in targets
    ]
    tones = {label.word: label.tone for label in TARGETS.values()}
    return table(rows, head, tones) or ["No targets yet."]


@targets.command(epilog="tidegate targets show spotify")
@click.argument("name")
@command_at_store
def show(name: str, url: str, driver: str | None, as_json: bool) -> int:
    """Show one target: what holds it, its failing keys, and its last events."""
    return show_what(lambda tx: target_reports.one(tx, name), _detail, url, driver, as_json=as_json)


def _detail(detail: TargetDetail) -> list[str]:
    report = detail.report
    lines = [f"{report.name}: {report.word}. {report.reason}", f"breaker {report.breaker} since {when(report.since)}"]
    lines += [f"{name} {value}" for name, value in report.rules.items()]
    lines += ["", *lines_of(detail.reasons)] if detail.reasons else []
    keys = [(row.lane or "-", row.reason, row.code or "", when(row.until) or "an operator acts") for row in detail.keys]
    lines += ["", *table(keys, ("KEY", "HELD BY", "CODE", "UNTIL"))] if keys else []
    events = [(when(event.at), event.kind, event.lane or "", event.actor) for event in detail.events[:20]]
    lines += ["", *table(events, ("AT", "EVENT", "KEY", "BY"))] if events else []
    programs = [
        (program, str(summary.get("unhealthy", "")), when(summary.get("at")))
        for program, summary in report.programs.items()
    ]
    return lines + (["", *table(programs, ("PROGRAM", "UNHEALTHY KEYS", "REPORTED AT"))] if programs else [])


@dataclass(frozen=True, slots=True)
class TargetCommand:
    """An action on a target and the text of its result. False means that nothing changed."""

    work: Callable[[Tx], Any]
    said: Callable[[Any], str]
    shown: Callable[[Any], Any] = lambda result: result  # as JSON


_EXAMPLES = {
    "pause": "tidegate targets pause spotify --for 2h",
    "resume": "tidegate targets resume spotify",
    "clear": "tidegate targets clear spotify --key 7",
    "enable": "tidegate targets enable spotify --key 7",
    "disable": "tidegate targets disable spotify --key 7 --for 1d",
    "reset": "tidegate targets reset spotify",
    "test": "tidegate targets test spotify",
}


def _action(describe: Callable[..., TargetCommand]) -> click.Command:
    """Build the command of the action that *describe* returns: with its name, its options, and --by."""
    own = list(getattr(describe, "__click_params__", ()))

    @targets.command(describe.__name__, epilog=_EXAMPLES[describe.__name__])
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
    """Pause a target: no worker claims its jobs until then."""

    def work(tx: Tx) -> float:
        return actions.pause_target(tx, name, now_of(tx) + lasts, by)

    return TargetCommand(work, lambda until: f"{name} is paused until {when(until)}.")


@_action
def resume(name: str, by: str) -> TargetCommand:
    """End the pause of a target."""
    return TargetCommand(
        lambda tx: actions.resume_target(tx, name, by),
        lambda was: f"{name} is no longer paused." if was else f"{name} was not paused.",
    )


@_action
@_key_option
def clear(name: str, key: str, by: str) -> TargetCommand:
    """Clear all state of a key, for example after new credentials. Its jobs run immediately."""
    subject = _who(name, key)
    return TargetCommand(
        lambda tx: actions.clear_key(tx, name, key, by),
        lambda was: f"{subject} is cleared." if was else f"{subject} had no state to clear.",
    )


@_action
@_key_option
def enable(name: str, key: str, by: str) -> TargetCommand:
    """Enable a disabled key of a target."""
    subject = _who(name, key)
    return TargetCommand(
        lambda tx: actions.enable_key(tx, name, key, by),
        lambda was: f"{subject} is enabled." if was else f"{subject} was not disabled.",
    )


@_action
@_key_option
@click.option("--for", "lasts", metavar="TIME", callback=duration, help=f"{_FOR}  [default: until `enable`]")
def disable(name: str, key: str, lasts: float | None, by: str) -> TargetCommand:
    """Disable a key of a target: no worker claims its jobs, for a time or until you enable it."""

    def work(tx: Tx) -> None:
        until = None if lasts is None else now_of(tx) + lasts
        actions.disable_key(tx, name, key, by, until)

    return TargetCommand(work, lambda _: f"{_who(name, key)} is disabled.")


@_action
def reset(name: str, by: str) -> TargetCommand:
    """Close the breaker of a target and clear its counts."""
    return TargetCommand(
        lambda tx: actions.reset_breaker(tx, name, by), lambda was: f"The breaker of {name} is closed; it was {was}."
    )


@_action
@click.option("--key", help="One key, such as a user or a feed.  [default: any]")
def test(name: str, key: str | None, by: str) -> TargetCommand:
    """Test a target now: one job that waits for it runs immediately."""
    return TargetCommand(
        lambda tx: job_explain.begin(tx, name, by, key), lambda trial: trial.says, lambda trial: trial.as_json()
    )


def _who(name: str, key: str) -> str:
    return f"key {key} of {name}" if key else name
