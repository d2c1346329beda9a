"""`tidegate simulate`: an outage on the virtual clock, as a table, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tidegate.cli import numbers
from tidegate.cli.exits import Exit
from tidegate.cli.playing import PlayedSimulation, Scale, play, show
from tidegate.cli.profiles import PROFILES
from tidegate.ops import report
from tidegate.ops.picture import picture


@click.command()
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="requests",
    help="Whose numbers; own starts with none.  [default: requests]",
)
@click.option(
    "--outage",
    metavar="TEXT",
    help="Such as '2h down', '2h hang', '2h 30% errors', '2h 503', '2h 429 retry-after 10m';"
    " ending in 'at 1h' to say when; several with commas; none.",
)
@click.option(
    "--every", metavar="TIME", callback=numbers.duration, help="The pause between two calls, such as 30s or 5m."
)
@click.option("--for", "lasts", metavar="TIME", callback=numbers.duration, help="How long is played, such as 6h or 7d.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same result.")
@click.option(
    "--retry", type=click.IntRange(1, 101), default=1, show_default=True, help="Attempts of each call in all."
)
@click.option("--probe", is_flag=True, help="A health probe, asked every 10 s, ends the open state instead of time.")
@click.option("--keys", type=click.IntRange(0, 100_000), default=0, help="The calls belong to this many keys in turn.")
@click.option("--failing-keys", type=click.IntRange(1), help="Only this many keys have the outage.  [default: all]")
@numbers.options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--svg", metavar="FILE", help="Also draw the timeline into FILE.")
@click.option(
    "--tour", is_flag=True, help="A short tour of the library, in three outages; other options but --svg do not count."
)
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
    """Plays an outage on a virtual clock, through the real gates, and shows what they do.

    \b
    tidegate simulate --profile requests --outage "2h down"
    tidegate simulate --profile tautulli --outage "1h 30% errors" --every 1s --for 2h
    tidegate simulate --profile own --base 10s --cap 5m --breaker --consecutive 3 --svg outage.svg

    A plain loop, which asks every time, and a loop of three tries are played beside it.
    """  # noqa: D301 - the mark keeps the lines of an example apart
    if tour:
        from tidegate.cli.tour import guide

        guide(svg)
        return Exit.OK
    chosen = numbers.chosen_options(PROFILES[profile], own)
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
        click.echo(f"\nThe picture is in {svg}")
    return Exit.OK


def draw(played: PlayedSimulation, svg: str) -> None:
    """Writes the picture; a place that cannot be written is the user's mistake."""
    try:
        Path(svg).write_text(picture(played.result, played.title), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise click.UsageError(
            f"--svg: {svg} cannot be written ({reason}); give a file in a folder that is there"
        ) from error
