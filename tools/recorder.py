"""A pytest plugin that writes, with ``--requirements=FILE``, which test proves which requirement and how it ended.

Each test that carries ``@pytest.mark.req("LID-07", ...)`` becomes one entry ``{"test", "ids", "outcome"}``. The ids
travel in the report of the test, so that the controller of pytest-xdist sees them as well.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROPERTY = "req"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", metavar="FILE", help="write what each marked test proved to FILE")


def pytest_configure(config: pytest.Config) -> None:
    target = config.getoption("--requirements")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.rootpath / target))


def pytest_itemcollected(item: pytest.Item) -> None:
    item.user_properties.extend((PROPERTY, id_) for marker in item.iter_markers("req") for id_ in marker.args)


class Recorder:
    def __init__(self, target: Path) -> None:
        self.target = target
        self.tests: dict[str, dict[str, object]] = {}

    def pytest_sessionstart(self) -> None:
        # A run that is cut short must not leave the results of an older one.
        self.target.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids = sorted({str(value) for name, value in report.user_properties if name == PROPERTY})
        if not ids:
            return
        entry = self.tests.setdefault(report.nodeid, {"test": report.nodeid, "ids": ids, "outcome": "passed"})
        # Set-up, call and tear-down each report; the worst of them counts.
        if report.failed or (report.skipped and entry["outcome"] == "passed"):
            entry["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.target.write_text(json.dumps([self.tests[node] for node in sorted(self.tests)], indent=1) + "\n")
