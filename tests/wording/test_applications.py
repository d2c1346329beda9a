"""What the applications say beside their pages: the history of a feed, the story of the demo, what a wake did."""

from __future__ import annotations

from tests.apps.demo.test_story import SEEN
from tests.apps.feeds.test_lists_and_hints import HAPPENED
from tests.wording import catalogue
from tidegate_apps.feeds import pages as feeds
from tidegate_apps.feeds.notices import REASONS, WHEN
from tidegate_apps.lidarr import service as lidarr
from tidegate_apps.lidarr.submit_cycle import CycleReport
from tidegate_demo.stage import Facts
from tidegate_demo.story import STORY, TROUBLES, ended

WOKEN = CycleReport(
    at=0.0, ended_at=1.0, eligible=7, submitted=1, failed=4, remaining=2, depth=9, own=0, outcome="held",
    message="It said no.", code=None, failures=1, failing_since=None,
)  # fmt: skip


def test_applications() -> None:
    found = {
        f"feeds/{kind}/{actor}/{detail}": feeds.describe_event(kind, actor, detail) for kind, actor, detail in HAPPENED
    }
    found |= {f"feeds/reason/{code}": text for code, text in REASONS.items()}
    found |= {f"feeds/next_poll/{why}": text for why, text in WHEN.items()}
    for n, (step, (facts, _)) in enumerate(zip(STORY, SEEN, strict=True), 1):
        found[f"demo/step_{n}"] = f"{step.title}\n{step.watch}\n{step.say(facts)}"
    found |= {f"demo/trouble/{name}": f"{t.ill}\n{t.breaks}\n{t.mends}\n{t.watch}" for name, t in TROUBLES.items()}
    found["demo/ended"] = ended(Facts(converted=70))
    found["demo/ended/lost"] = ended(Facts(converted=70, uploads_failed=2))
    found["lidarr/woken"] = lidarr.woken_words(WOKEN)
    found["lidarr/held"] = lidarr.held_words(WOKEN, full=False)
    found["lidarr/full"] = lidarr.held_words(None, full=True)
    found |= {f"lidarr/looking/{state}": lidarr.looking_words(state) for state in ("running", "waiting")}
    catalogue.compare("applications", found)
