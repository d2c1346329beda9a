"""The tour: what the library does, in three outages."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from tidegate.cli.playing import play, show
from tidegate.cli.profiles import PROFILES
from tidegate.core.classify import classify

_WELCOME = """\
Tidegate keeps a program working while the services it calls do not.
Below, three services go down. Time is virtual, the gates are the real ones."""

_BACKOFF = """\
Each failure doubles the wait. A person is told once when the wait is at its
longest, and once when all is well again."""
_BREAKER = """\
Five failures in a row open the breaker. It lets a call try every two minutes,
and closes after three good ones."""
_OUTAGE_TEXT = """\
No call is made before the time that the service named."""
_STOPS: tuple[tuple[str, str, str, str, dict[str, float]], ...] = (
    ("1. A sync loop; the service is down for two hours", _BACKOFF, "sync", "2h down", {}),
    (
        "2. A busy client; the service is down for an hour",
        _BREAKER,
        "tautulli",
        "1h down",
        {"every": 10, "lasts": 7200},
    ),
    ("3. 429: a service that asks for patience", _OUTAGE_TEXT, "sync", "1h 429 retry-after 20m", {"lasts": 10800}),
)


def guide(svg: str | None) -> None:
    """Prints the tour; the first outage is also drawn, into *svg* or a new file."""
    from tidegate.cli.simulate import draw

    click.echo(_WELCOME)
    verdict = classify(ConnectionRefusedError(111, "Connection refused"))
    if verdict is not None:
        click.echo("\nFirst, each failure gets a meaning. What is 'connection refused'?")
        click.echo(f"{verdict.code}, retriable: {verdict.message}\n{verdict.advice}")
    place = svg or str(Path(tempfile.mkdtemp(prefix="tidegate-")) / "outage.svg")
    for number, (title, says, profile, outage, times) in enumerate(_STOPS):
        played = play(PROFILES[profile], outage=outage, every=times.get("every"), lasts=times.get("lasts"))
        click.echo(f"\n{title}\n{'=' * len(title)}\n{says}\n")
        show(played)
        if number == 0:
            draw(played, place)
    click.echo(f"\nThe first outage as a picture: {place}")
    click.echo("Next:  tidegate simulate --profile own --base 10s --cap 5m --outage '1h down'")
    click.echo("       curl -si https://api.example.org/thing | tidegate classify")
