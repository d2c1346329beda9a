"""What others see of the polling: metrics, what `doctor` says, and that a cycle over all queues ends."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.apps.feeds.building import HOUR, Desk, fetched, lines
from tidegate import net
from tidegate.cli.root import tidegate
from tidegate_apps.feeds import app as feed_app
from tidegate_apps.feeds.app import app
from tidegate_apps.feeds.jobs import QUEUE
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.settings import FeedsSettings

_PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"


def told(desk: Desk) -> dict[tuple[str, ...], float]:
    """All that is told, by name and labels; without what is 0."""
    samples = [sample for family in feed_app.metrics(desk.there) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples if sample.value}


def test_polls_are_counted_by_how_they_ended_and_feeds_by_how_they_are(desk: Desk) -> None:
    urls = [f"http://{name}.example/" for name in ("well", "gone", "down", "odd", "new")]
    desk.sources.add_many([SourceRequest(feed_url=url) for url in urls[:4]], "ada")
    for url, answer in zip(urls[1:], (fetched(410), net.Unreachable("no"), fetched(418)), strict=False):
        desk.answers[url] = answer
    desk.clock.advance(10)
    desk.poll()
    desk.clock.advance(1.5 * HOUR)
    desk.answers[urls[0]] = fetched(304)
    desk.poll()
    desk.add(urls[4])
    expected = {
        ("tidegate_feeds", "ok"): 1, ("tidegate_feeds", "disabled"): 1, ("tidegate_feeds", "failing"): 2,
        ("tidegate_feeds", "new"): 1, ("tidegate_feed_polls_total", "ok"): 1, ("tidegate_feed_new_items_total",): 2,
        ("tidegate_feed_polls_total", "unmodified"): 1, ("tidegate_feed_polls_total", "gone"): 1,
        ("tidegate_feed_polls_total", "network"): 2, ("tidegate_feed_polls_total", "unexpected"): 2,
    }  # fmt: skip
    assert told(desk) == expected

    desk.clock.advance(4 * HOUR)  # three are due since then, the new one at once, and one rests for three days
    assert told(desk) == {**expected, ("tidegate_feeds_late",): 3}


def test_every_metric_is_on_the_page(quick: Desk) -> None:
    rows = []
    for family in feed_app.metrics(quick.there):
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = sorted({label for sample in family.samples for label in sample.labels})
        shown = ", ".join(f"`{label}`" for label in labels)
        rows.append(f"| feeds | `{name}` | {family.type} | {shown} | {family.documentation} |")
    assert [line for line in _PAGE.read_text().splitlines() if line.startswith("| feeds |")] == rows


@pytest.mark.parametrize(
    ("given", "warned"), [({}, True), ({"contact": "ada@example.org"}, False), ({"poll": False}, False)]
)
def test_who_polls_is_asked_for_somebody_to_write_to(given: dict[str, object], warned: bool) -> None:
    assert app.advice is not None
    assert bool(list(app.advice(FeedsSettings.model_validate(given)))) is warned


def test_doctor_tells_what_an_application_advises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(tidegate, ["doctor", "--json", "--db", f"sqlite:///{tmp_path / 'there.db'}"])
    found = [each for each in json.loads(answer.stdout)["findings"] if each["id"] == "settings.feeds"]
    assert ["feeds.contact" in each["fact"] for each in found] == [True]


def test_a_cycle_over_all_queues_polls_what_is_due_and_ends(quick: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    quick.add("http://127.0.0.1/refused")  # a private address: it is refused, and never tried
    began = quick.now
    done = quick.clock.run(quick.queue.adrain())
    assert (done.done, done.remaining) == (1, 0)
    assert quick.state().last_error_type == "network"
    assert quick.now - began < 60
    assert next(text for _, text in lines(caplog)) == "no_contact setting=feeds.contact"
    quick.sources.poll_now(1)
    assert quick.clock.run(quick.queue.adrain(QUEUE)).done == 1
    assert not [text for _, text in lines(caplog) if text.startswith("no_contact")]  # once is enough
