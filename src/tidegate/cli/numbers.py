"""The options of `simulate` for numbers of one's own, and their mistakes in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from tidegate.cli.profiles import ProfileOptions, SimulationProfile
from tidegate.core.codes import CORE
from tidegate.core.duration import seconds

F = TypeVar("F", bound=Callable[..., Any])

_COOLDOWN = "write it as CODE=TIMES/REST, such as network=10/12h"
# The option's name here -> the breaker's own.
_OF_BREAKER = {
    "consecutive": "consecutive",
    "min_requests": "min_requests",
    "failure_ratio": "failure_ratio",
    "interval": "interval",
    "open_for": "timeout",
    "max_open": "max_timeout",
}


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds, of a text such as 30s or 5m."""
    if value is None:
        return None
    try:
        return seconds(float(value) if value.replace(".", "", 1).isdigit() else value, field="it")
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is no time; give a number of seconds, or 30s, 5m, 1h30m, 2d", ctx, param
        ) from error


def _cooldowns(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for each in value:
        code, _, row = each.partition("=")
        times, _, rest = row.partition("/")
        if not times.isdecimal() or not int(times) or not rest:
            raise click.BadParameter(f"{each!r} is not understood; {_COOLDOWN}", ctx, param)
        if code not in CORE:
            from tidegate.cli.root import suggestion

            raise click.BadParameter(f"there is no code {code!r}; {suggestion(code, list(CORE))}", ctx, param)
        found[code] = (int(times), duration(ctx, param, rest) or 0.0)
    return found


_OPTIONS = (
    click.option("--base", metavar="TIME", callback=duration, help="Backoff: the first wait."),
    click.option("--cap", metavar="TIME", callback=duration, help="Backoff: the longest wait."),
    click.option("--factor", type=click.FloatRange(1, 1000), help="Backoff: by how much each wait grows."),
    click.option("--jitter", type=click.FloatRange(0, 1), help="Backoff: give or take this share of a wait."),
    click.option("--breaker/--no-breaker", default=None, help="With a breaker, or without."),
    click.option("--consecutive", type=click.IntRange(1), help="Breaker: opens after so many failures in a row."),
    click.option("--min-requests", type=click.IntRange(1), help="Breaker: fewer calls than this never open it."),
    click.option("--failure-ratio", type=click.FloatRange(0, 1, min_open=True), help="Breaker: opens at this share."),
    click.option("--interval", metavar="TIME", callback=duration, help="Breaker: it counts anew after this."),
    click.option("--open-for", metavar="TIME", callback=duration, help="Breaker: how long it stays open."),
    click.option("--max-open", metavar="TIME", callback=duration, help="Breaker: it grows with the outage to this."),
    click.option("--breaker-per", type=click.Choice(["target", "key"]), help="Breaker: whose calls one counts."),
    click.option("--cooldown", metavar="CODE=TIMES/REST", multiple=True, callback=_cooldowns,
                 help="Rest after so many failures of one code, such as network=10/12h; may be repeated."),
)  # fmt: skip


def options(command: F) -> F:
    """Adds all of them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_options(profile: SimulationProfile, own: Mapping[str, Any]) -> SimulationProfile:
    """The profile with the numbers of the command line in place of its own."""
    of_breaker = {name: own[option] for option, name in _OF_BREAKER.items() if own[option] is not None}
    if own["breaker"] is False and of_breaker:
        raise click.UsageError("--no-breaker goes with no other number of the breaker; leave one of them out")
    try:
        return ProfileOptions(
            base=own["base"],
            cap=own["cap"],
            factor=own["factor"],
            jitter=own["jitter"],
            breaker=own["breaker"],
            breaker_per=own["breaker_per"],
            breaker_numbers=of_breaker,
            cooldown=own["cooldown"],
        ).over(profile)
    except ValueError as error:
        raise click.UsageError(str(error).replace("Backoff.", "--")) from error
