"""`tidegate convert gateway`: the gateway by itself, for a machine that does nothing else."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import click


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8322, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 takes a free one."
)
@click.option("--at-a-time", type=click.IntRange(1, 256), help="Conversions at a time.  [default: one for each core]")
@click.option(
    "--most-bytes", default=50 * 1024 * 1024, show_default="50 MB", type=click.IntRange(1024),
    help="How large a file may be; as convert.most_bytes of whoever asks.",
)  # fmt: skip
@click.option(
    "--timeout", default="3m", show_default=True, metavar="DURATION",
    help="How long whoever asks waits for one conversion; as convert.gateway_timeout there.",
)  # fmt: skip
@click.option(
    "--mappings", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder with more mappings."
)
@click.option("--json", "as_json", is_flag=True, help="Print where it is as one line of JSON.")
def gateway(
    host: str, port: int, at_a_time: int | None, most_bytes: int, timeout: str, mappings: Path | None, as_json: bool
) -> int:
    """Turns PDF files into XML over HTTP, until SIGTERM or SIGINT.

    It asks nobody for a password: keep it where only Tidegate reaches it, and set convert.gateway_url there.
    """
    from tidegate.web import PortTaken
    from tidegate_apps.convert.gateway.limits import GatewayLimits
    from tidegate_apps.convert.gateway.mappings import Mappings
    from tidegate_apps.convert.gateway.serving import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

    try:
        known = Mappings(mappings)
    except ValueError as error:
        raise click.UsageError(f"--mappings: {error}") from error

    def ready(address: str) -> None:
        about = {"address": address, "mappings": known.names}
        lines = f"The gateway is at {address}\n  mappings  {', '.join(known.names)}\n  stop with Ctrl-C"
        click.echo(json.dumps(about) if as_json else lines)

    limits = GatewayLimits.for_one_who_waits(_seconds(timeout), most_bytes)
    if at_a_time is not None:
        limits = replace(limits, conversions=at_a_time)
    try:
        serve(host, port, limits, known, ready=ready)
    except PortTaken as error:
        raise _Unusable(str(error)) from error
    return 0


def _seconds(lasts: str) -> float:
    from tidegate.guard import Seconds

    try:
        return float(Seconds(lasts))
    except ValueError as error:
        raise click.UsageError(f"--timeout: {error}") from error


class _Unusable(click.ClickException):
    exit_code = 3
