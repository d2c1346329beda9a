"""`tidegate simulate`: an outage on a virtual clock as table, JSON or chart, and the options of the policy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tidegate.cli import options as cli_options
from tidegate.cli.exits import Exit
from tidegate.cli.options import duration
from tidegate.cli.root import Command
from tidegate.cli.simulate_play import PROFILES, PlayedSimulation, ProfileOptions, Scale, SimulationProfile, play, show
from tidegate.faults.classification import classify
from tidegate.faults.codes import CORE
from tidegate.simulation import report
from tidegate.simulation.chart import picture
from tidegate.validation import JsonObject

# -- tour --------------------------------------------------------------------------------------------------------------
#
# What the library does, in three outages.

_WELCOME = """\
Tidegate keeps a program working while the services it calls fail.
Below, three services fail. Time is virtual, the gates are the real ones."""

_BACKOFF = """\
Each failure doubles the wait. Tidegate sends one notice when the wait is at its
longest, and one after the recovery."""
_BREAKER = """\
Five consecutive failures open the breaker. Every two minutes one call tests the
service. Three successful ones close the breaker."""
_OUTAGE_TEXT = """\
Tidegate makes no call before the time that the service asked for."""
_STOPS: tuple[tuple[str, str, str, str, dict[str, float]], ...] = (
    ("1. A sync loop; the service is down for two hours", _BACKOFF, "sync", "2h down", {}),
    (
        "2. A busy client; the service is down for an hour",
        _BREAKER,
        "tautulli",
        "1h down",
        {"every": 10, "lasts": 7200},
    ),
    (
        "3. A service responds with 429 and Retry-After",
        _OUTAGE_TEXT,
        "sync",
        "1h 429 retry-after 20m",
        {"lasts": 10800},
    ),
)


def guide(svg: str | None) -> None:
    """Print the tour. The first outage is also drawn, to *svg* or a new file."""
    click.echo(_WELCOME)
    verdict = classify(ConnectionRefusedError(111, "Connection refused"))
    if verdict is not None:
        click.echo("\nFirst, Tidegate classifies each failure. What is 'connection refused'?")
        click.echo(f"{verdict.code}, retriable: {verdict.message}\n{verdict.advice}")
    place = svg or str(Path(tempfile.mkdtemp(prefix="tidegate-")) / "outage.svg")
    for number, (title, text, profile, outage, times) in enumerate(_STOPS):
        played = play(PROFILES[profile], outage=outage, every=times.get("every"), lasts=times.get("lasts"))
        click.echo(f"\n{title}\n{'=' * len(title)}\n{text}\n")
        show(played)
        if number == 0:
            draw(played, place)
    click.echo(f"\nThe first outage as a picture: {place}")
    click.echo("Next:  tidegate simulate --profile own --base 10s --cap 5m --outage '1h down'")
    click.echo("       curl -si https://api.example.org/thing | tidegate classify")


F = TypeVar("F", bound=Callable[..., Any])

_COOLDOWN = "write it as CODE=TIMES/REST, such as network=10/12h"
# Option name -> parameter of the breaker.
_OF_BREAKER = {
    "consecutive": "consecutive",
    "min_requests": "min_requests",
    "failure_ratio": "failure_ratio",
    "interval": "interval",
    "open_for": "timeout",
    "max_open": "max_timeout",
}


def _cooldowns(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, tuple[int, float]]:
    cooldowns: dict[str, tuple[int, float]] = {}
    for item in value:
        code, _, row = item.partition("=")
        times, _, rest = row.partition("/")
        if not times.isdecimal() or not int(times) or not rest:
            raise click.BadParameter(f"{item!r} is not a cooldown; {_COOLDOWN}", ctx, param)
        if code not in CORE:
            from tidegate.cli.root import suggestion

            raise click.BadParameter(f"unknown code {code!r}; {suggestion(code, list(CORE))}", ctx, param)
        cooldowns[code] = (int(times), duration(ctx, param, rest) or 0.0)
    return cooldowns


_OPTIONS = (
    click.option("--base", metavar="TIME", callback=duration, help="Backoff: first wait."),
    click.option("--cap", metavar="TIME", callback=duration, help="Backoff: longest wait."),
    click.option("--factor", type=click.FloatRange(1, 1000), help="Backoff: growth factor of the waits."),
    click.option("--jitter", type=click.FloatRange(0, 1), help="Backoff: random part of a wait, plus or minus."),
    click.option("--breaker/--no-breaker", default=None, help="Use a breaker, or none."),
    click.option("--consecutive", type=click.IntRange(1), help="Breaker: consecutive failures that open it."),
    click.option("--min-requests", type=click.IntRange(1), help="Breaker: minimum number of calls that can open it."),
    click.option(
        "--failure-ratio", type=click.FloatRange(0, 1, min_open=True), help="Breaker: ratio of failures that opens it."
    ),
    click.option(
        "--interval", metavar="TIME", callback=duration, help="Breaker: interval after which it resets its counts."
    ),
    click.option("--open-for", metavar="TIME", callback=duration, help="Breaker: how long it stays open."),
    click.option(
        "--max-open", metavar="TIME", callback=duration, help="Breaker: maximum open time; it grows with the outage."
    ),
    click.option(
        "--breaker-per", type=click.Choice(["target", "key"]), help="Breaker: one per target, or one per key."
    ),
    click.option(
        "--cooldown",
        metavar="CODE=TIMES/REST",
        multiple=True,
        callback=_cooldowns,
        help="Suspend after failures of one code, such as network=10/12h; repeatable.",
    ),
)


def options(command: F) -> F:
    """Add all policy options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_options(profile: SimulationProfile, own: JsonObject) -> SimulationProfile:
    """Return the profile with the options of the command line applied."""
    of_breaker = {name: own[option] for option, name in _OF_BREAKER.items() if own[option] is not None}
    if own["breaker"] is False and of_breaker:
        raise click.UsageError("--no-breaker was combined with an option of the breaker; remove one of them")
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


# -- simulate ----------------------------------------------------------------------------------------------------------


@click.command(
    cls=Command,
    epilog="""
    tidegate simulate
    tidegate simulate --profile sync --outage '2h down'
    tidegate simulate --profile tautulli --outage '1h 30% errors' --every 1s --for 2h
    tidegate simulate --profile own --base 10s --cap 5m --breaker --consecutive 3 --svg outage.svg
    """,
)
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="requests",
    help="Policy to simulate; own starts empty.  [default: requests]",
)
@click.option(
    "--outage",
    metavar="TEXT",
    help="What fails, such as '2h down', '2h hang', '2h 30% errors', '2h 503' or '2h 429 retry-after 10m'."
    " Add 'at 1h' for its start. Separate several with commas; none for no outage.",
)
@click.option(
    "--every", metavar="TIME", callback=cli_options.duration, help="Interval between two calls, such as 30s or 5m."
)
@click.option(
    "--for", "lasts", metavar="TIME", callback=cli_options.duration, help="Length of the simulation, such as 6h or 7d."
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Random seed; the same seed gives the same result."
)
@click.option(
    "--retry", type=click.IntRange(1, 101), default=1, show_default=True, help="Maximum attempts of each call."
)
@click.option("--probe", is_flag=True, help="End the open state by a health probe every 10 s, instead of by time.")
@click.option("--keys", type=click.IntRange(0, 100_000), default=0, help="Number of keys that take turns.")
@click.option("--failing-keys", type=click.IntRange(1), help="Number of keys with the outage.  [default: all]")
@options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--svg", metavar="FILE", help="Also draw the timeline to FILE.")
@click.option("--tour", is_flag=True, help="Show a tour of three outages; of the other options, only --svg counts.")
def simulate(
    profile: str,
    outage: str | None,
    every: float | None,
    lasts: float | None,
    seed: int,
    retry: int,
    probe: bool,
    keys: int,
    failing_keys: int | None,
    as_json: bool,
    svg: str | None,
    tour: bool,
    **own: Any,
) -> int:
    """Simulate an outage on a virtual clock, and compare the calls of Tidegate, of a plain loop and of retries.

    Tidegate's calls pass the real gates of a profile.
    """
    if tour:
        guide(svg)
        return Exit.OK
    chosen = chosen_options(PROFILES[profile], own)
    if probe:
        chosen = chosen.probed()
    scale = Scale(retry=retry, keys=keys, failing_keys=failing_keys, seed=seed)
    played = play(chosen, outage=outage, every=every, lasts=lasts, scale=scale)
    if svg is not None:
        draw(played, svg)
    if as_json:
        click.echo(json.dumps(report.as_json(played.result, played.title), indent=2))
        return Exit.OK
    show(played)
    if svg is not None:
        click.echo(f"\nWrote the picture to {svg}.")
    return Exit.OK


def draw(played: PlayedSimulation, svg: str) -> None:
    """Write the chart. A path that is not writable is a user error."""
    try:
        Path(svg).write_text(picture(played.result, played.title), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise click.UsageError(
            f"--svg: {svg} cannot be written ({reason}); give a file in an existing folder"
        ) from error
