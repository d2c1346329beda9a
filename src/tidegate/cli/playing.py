"""Plays one profile and shows what happened."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from tidegate.cli.profiles import SimulationProfile
from tidegate.cli.strip import LEGEND, strip
from tidegate.cli.tables import table
from tidegate.core.duration import brief
from tidegate.ops import report
from tidegate.ops.outage import Outage
from tidegate.ops.simulate import Simulation
from tidegate.testing.simulation import simulate

_WIDTH = 80
_MAX_TOLD = 6
HEAD = ["", "Tidegate", "a plain loop", "a loop of 3 tries"]


@dataclass(frozen=True, slots=True)
class PlayedSimulation:
    profile: SimulationProfile
    result: Simulation

    @property
    def title(self) -> str:
        return f"{self.profile.name}: {self.result.plan.outage.label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Attempts of each call in all, the keys that calls belong to, those of them that have the outage, and chance."""

    retry: int = 1
    keys: int = 0
    failing_keys: int | None = None
    seed: int = 1


ALONE = Scale()


def play(
    profile: SimulationProfile,
    *,
    outage: str | None = None,
    every: float | None = None,
    lasts: float | None = None,
    scale: Scale = ALONE,
) -> PlayedSimulation:
    """Plays *profile*, with what it is usually played with where nothing is given; a wrong number is one line."""
    try:
        with _quiet():
            result = simulate(
                profile.make,
                outage=Outage.parse(profile.outage if outage is None else outage),
                every=profile.every if every is None else every,
                lasts=profile.lasts if lasts is None else lasts,
                retry=scale.retry,
                probe=profile.probe,
                keys=scale.keys,
                failing_keys=scale.failing_keys,
                seed=scale.seed,
            )
    except ValueError as error:
        # The values name their own fields; here these are options.
        raise click.UsageError(
            f"--{error}".replace("--lasts:", "--for:").replace("--failing_keys:", "--failing-keys:")
        ) from error
    return PlayedSimulation(profile, result)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log of the transitions: they are what is shown."""
    log = logging.getLogger("tidegate")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def show(played: PlayedSimulation) -> None:
    """The numbers of the policy, what was played, the table, the timeline and what people were told."""
    result = played.result
    click.echo(played.profile.name)
    for line in (*played.profile.says, report.describe_simulation(result)):
        click.echo(textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="    "))
    click.echo()
    table(HEAD, report.rows(result))
    click.echo()
    for line in strip(result, _WIDTH):
        click.echo(line)
    click.echo(f"{'':<12}{LEGEND}")
    if result.told:
        click.echo()
    for told in result.told[:_MAX_TOLD]:
        click.echo(f"{brief(told.at):>8}  told: {told.title}")
    if len(result.told) > _MAX_TOLD:
        click.echo(f"{'':>8}  and {len(result.told) - _MAX_TOLD} more")
