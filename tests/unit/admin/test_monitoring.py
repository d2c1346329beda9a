"""The rules and dashboards that others load ask only for what a server tells, with labels that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from click.testing import CliRunner

from tidegate.admin.monitoring import BOARDS, RULES, board, rules_file
from tidegate.cli.root import tidegate
from tidegate.labels import TARGETS

_TABLE = Path(__file__).parents[3] / "docs/reference/metrics.md"  # another test holds it against /metrics
_ROW = re.compile(r"^\| `([a-z_]+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)


def known() -> dict[str, set[str]]:
    """The labels of each series, by its name."""
    found: dict[str, set[str]] = {}
    for name, kind, labels in _ROW.findall(_TABLE.read_text(encoding="utf-8")):
        names = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {f"{name}_count": names, f"{name}_sum": names, f"{name}_bucket": names | {"le"}}
        else:
            found[name] = names
    return found


def selectors(node: Any) -> Iterator[Any]:
    """Every selector of a parsed query, with the labels that the steps above it ask for."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for field in ("lhs", "rhs", "expr", "vector_selector"):
        below = getattr(node, field, None)
        if below is not None and not isinstance(below, str):
            yield from selectors(below)
    for below in getattr(node, "args", ()):
        yield from selectors(below)


QUERIES = {
    **{rule.name: rule.when for rule in RULES},
    **{
        f"{name}: {panel.title} {n}": query
        for name, (_, panels) in BOARDS.items()
        for panel in panels
        for n, (query, _) in enumerate(panel.lines)
    },
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_a_query_parses_and_asks_for_what_is_told(query: str) -> None:
    series, found = known(), list(selectors(promql_parser.parse(query)))
    assert found
    for each in found:
        assert each.name in series
        labels = {matcher.name for matcher in each.matchers.matchers}
        labels |= {label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", group)}
        assert labels <= series[each.name]


def test_the_walk_finds_every_selector() -> None:
    query = "(max(a) == 0) and (sum by (x) (rate(b[5m])) / histogram_quantile(0.5, sum(rate(c_bucket[5m]))) > 0)"
    assert [each.name for each in selectors(promql_parser.parse(query))] == ["a", "b", "c_bucket"]


@pytest.mark.parametrize(
    ("query", "lasting"),
    [
        ("max by (name) (circuit_breaker_state) == 2", "5m"),
        ('sum by (name) (rate(circuit_breaker_requests_total{result="rejected"}[2m])) > 10', "2m"),
        ("max by (name) (circuit_breaker_consecutive_failures) >= 5", ""),
        ('sum by (name) (increase(circuit_breaker_state_transitions_total{to_state="open"}[1h])) > 5', ""),
    ],
)
def test_the_four_alerts_of_a_breaker_are_there(query: str, lasting: str) -> None:
    assert [rule.lasting for rule in RULES if rule.when == query] == [lasting]


def test_the_file_is_what_prometheus_loads() -> None:
    (group,) = yaml.safe_load(rules_file("https://watch.example.org/"))["groups"]
    assert [each["expr"] for each in group["rules"]] == [rule.when for rule in RULES]
    assert [each.get("for", "") for each in group["rules"]] == [rule.lasting for rule in RULES]
    assert len({each["alert"] for each in group["rules"]}) == len(RULES)
    for each in group["rules"]:
        assert each["labels"]["severity"] in {"warning", "critical"}
        assert set(each["annotations"]) == {"summary", "description", "runbook_url"}
        assert re.fullmatch(r"https://watch\.example\.org/[a-z]*", each["annotations"]["runbook_url"])


def test_legends_and_summaries_name_labels_that_their_query_keeps() -> None:
    shown = [(rule.when, re.findall(r"\$labels\.(\w+)", rule.summary)) for rule in RULES]
    for _, panels in BOARDS.values():
        shown += [(query, re.findall(r"{{(\w+)}}", legend)) for panel in panels for query, legend in panel.lines]
    for query, labels in shown:
        kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))))
        assert set(labels) <= kept, query


@pytest.mark.parametrize("name", BOARDS)
def test_panels_of_a_dashboard_stand_beside_each_other(name: str) -> None:
    panels = board(name)["panels"]
    places = {(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels}
    assert len(places) == len({each["id"] for each in panels}) == len(panels)


def test_a_state_has_the_same_word_in_grafana_as_on_the_page() -> None:
    first = board("targets")["panels"][0]
    words = {each["matcher"]["options"]: each["properties"][0]["value"] for each in first["fieldConfig"]["overrides"]}
    assert words == {token: word.word for token, word in TARGETS.items()}


# -- the verbs ----------------------------------------------------------------------------------------------------


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(tidegate, ["export", *args])
    return done.exit_code, done.output


def test_files_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    code, said = run("grafana", "--out", str(tmp_path / "new" / "boards"))
    written = sorted(path.name for path in (tmp_path / "new" / "boards").iterdir())
    assert (code, written) == (0, [f"tidegate-{name}.json" for name in sorted(BOARDS)])
    assert said.count("Wrote ") == len(BOARDS)
    assert run("alerts", "-o", str(tmp_path / "rules.yml"))[0] == 0
    assert (tmp_path / "rules.yml").read_text(encoding="utf-8") == run("alerts")[1]
    assert json.loads(run("grafana", "queues")[1]) == board("queues")
    assert json.loads(run("alerts", "--json")[1]) == yaml.safe_load(run("alerts")[1])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["grafana"], "targets, queues, workers"),
        (["grafana", "nothing"], "'nothing'"),
        (["alerts", "--page", "here"], "--page: 'here' is not a URL"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], said: str) -> None:
    code, output = run(*args)
    assert (code, output.count("\n")) == (2, 1)
    assert said in output


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, output = run("alerts", "-o", str(tmp_path / "file" / "rules.yml"))
    assert (code, output.count("\n")) == (1, 1)
    assert "cannot be written" in output
