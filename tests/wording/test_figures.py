"""How policies, charts and outages are put into words."""

from __future__ import annotations

from functools import partial

from tests.unit.web.test_charts import START, STEP, point, queue, target
from tests.unit.web.test_policy import CASES, words
from tests.wording import catalogue
from tidegate import Target
from tidegate.jobs.history import CallCounts
from tidegate.simulation import report
from tidegate.simulation.outage import Outage
from tidegate.testing import simulate


def test_figures() -> None:
    found = {
        f"policy/{name}": "\n".join(f"{row}: {value}" for row, value in words(**numbers).items())
        for name, (numbers, _) in CASES.items()
    }
    calls = CallCounts(at=START + STEP, good=3, bad=1, rejected=9)
    charts = {
        "queue": queue(point(1, 10, 1, 0.5, 3), point(2, 1190, 2, 2.5, 7, 120)),
        "quiet": queue(point(1)),
        "target": target(calls),
    }
    found |= {
        f"chart/{name}": "\n".join(f"{each.title}: {each.short}" for each in past.charts)
        for name, past in charts.items()
    }
    for text in ("2h down, 1h 30% errors, 30m 429 retry-after 5m, 1m hang", "9h down"):
        found[f"outage/{text}"] = Outage.parse(text).label
        found[f"summary/{text}"] = report.summary(
            simulate(partial(Target, "s", "sync"), outage=text, every="5m", lasts="6h")
        )
    catalogue.compare("figures", found)
