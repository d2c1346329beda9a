"""PDF to XML: what the gateway costs beside a bare loop over the same extraction, and beside pdfminer.six.

A document of 20 pages of text, 50 lines each. The loop runs in one process and has no limits; the gateway takes the
same file over HTTP, 20 requests at a time, and converts in child processes with limits. Wall-clock time, side by side;
the extraction itself is compared in CPU time.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
from pdfminer.high_level import extract_text_to_fp
from pdfminer.layout import LAParams

from bench.job_loops import at_least
from bench.row import Row
from tests.apps.convert import pdfs
from tidegate_apps.convert.gateway import Embedded
from tidegate_apps.convert.gateway.child import ConversionOrder, convert
from tidegate_apps.convert.gateway.mappings import NAMES

PAGES, IN_FLIGHT, ROUNDS = 20, 20, 3
EACH = 40  # documents of one round
AHEAD = 5  # times as quick as the peer


def run() -> list[Row]:
    pdf = pdfs.text(PAGES)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "document.pdf"
        source.write_bytes(pdf)
        own, peer = extraction(source)
        loop, gateway = side_by_side(source, pdf)
    return [
        Row(f"convert, bare loop over {PAGES} pages in one process", f"{loop:,.1f}/s"),
        at_least(f"convert, the gateway with {IN_FLIGHT} in flight", gateway, loop, 0.5),
        Row(f"convert, pdfminer.six to XML, {PAGES} pages", f"{peer * 1000:,.0f} ms"),
        *(ahead_of(mapping, seconds, peer) for mapping, seconds in own.items()),
    ]


def ahead_of(mapping: str, seconds: float, peer: float) -> Row:
    times = peer / seconds
    return Row(
        f"convert, {mapping}", f"{seconds * 1000:,.0f} ms, {times:.1f}x pdfminer.six", f">= {AHEAD}x", times >= AHEAD
    )


def extraction(source: Path, rounds: int = ROUNDS) -> tuple[dict[str, float], float]:
    """Seconds of CPU for one document: of each mapping, and of pdfminer.six; the best of a few that take turns."""
    works: dict[str, Callable[[], object]] = {name: partial(converted, source, name) for name in NAMES}
    works["pdfminer.six"] = partial(mined, source)
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            best[name] = min(best[name], spent(work))
    peer = best.pop("pdfminer.six")
    return best, peer


def side_by_side(source: Path, pdf: bytes) -> tuple[float, float]:
    """Documents per second of the loop and of the gateway; the best of a few rounds that take turns."""
    loop = gateway = 0.0
    with Embedded() as url, httpx2.Client(timeout=120) as client, ThreadPoolExecutor(IN_FLIGHT) as pool:

        def ask(_: int) -> None:
            files = {"file": ("document.pdf", pdf, "application/pdf")}
            client.post(f"{url}/process", files=files, data={"mapping": "layout"}).raise_for_status()

        list(pool.map(ask, range(IN_FLIGHT)))  # children are started once, and then reused
        for _ in range(ROUNDS):
            loop = max(loop, per_second(lambda: in_a_loop(source)))
            gateway = max(gateway, per_second(lambda: list(pool.map(ask, range(EACH)))))
    return loop, gateway


def in_a_loop(source: Path) -> None:
    for _ in range(EACH):
        converted(source, "layout")


def converted(source: Path, mapping: str) -> None:
    result = source.with_suffix(".xml")
    made = convert(ConversionOrder(source=str(source), result=str(result), mapping=mapping, pretty=False, most=1 << 30))
    result.unlink()
    if made.refused or not made.words:
        raise RuntimeError(f"nothing was converted: {made}")


def mined(source: Path) -> None:
    with source.open("rb") as file:
        extract_text_to_fp(file, io.BytesIO(), output_type="xml", laparams=LAParams())


def spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def per_second(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return EACH / (time.perf_counter() - start)
