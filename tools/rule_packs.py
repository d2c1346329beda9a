"""Writes docs/reference/rule-packs.md: every rule of every pack, from the packs themselves.

``python -m tools.rule_packs`` prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from itertools import groupby

from tidegate.durations import brief, seconds
from tidegate.faults.confirm import Confirm
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules import PACKS

HEAD = """\
# Rule packs

A rule pack classifies the responses of one service. Use `Target("spotify", rules=tidegate.rules.spotify)`, or try it in
a terminal:

```
tidegate classify --status 403 --body '{"error": {"status": 403, "message": "Premium required"}}' --rules spotify
```

The first rule of the pack that matches decides. If no rule matches, [the general rules](../explanation/classifying.md)
decide. The code "good" means that the response is a success. `fault.rule` ends with the name of the rule, as in
`spotify:scope-missing`. You can also [write your own pack](../how-to/write-a-rule-pack.md).

`UPDATE_DOCS=1 python -m pytest tests/unit/rules/test_docs.py` generates this page from the packs.
"""


def page() -> str:
    return "\n".join([HEAD, *(line for pack in PACKS for line in _section(pack))])


def _section(pack: Pack) -> Iterator[str]:
    yield f"## {pack.name}\n"
    yield "| rule | when | code | reach |"
    yield "| --- | --- | --- | --- |"
    for rule in pack.rules:
        code, reach = "good", ""
        if rule.code is not None:
            code, reach = f"`{rule.code}`", str(rule.reach or pack.code_book[rule.code].reach)
        yield f"| {rule.name} | {'; '.join(_conditions(rule))} | {code} | {reach} |"
    yield ""
    if pack.codes:
        yield "| own code | reason | message and advice |"
        yield "| --- | --- | --- |"
        for each in pack.codes:
            yield f"| `{each.name}` | {each.reason} | {each.message} {each.advice} |"
        yield ""
    for policy in pack.confirm:
        yield f"- {_confirmed(policy)}"
    yield ""


def _conditions(rule: Rule) -> Iterator[str]:
    if rule.status is not None:
        yield f"status {_statuses(rule.status)}"
    if rule.kind is not None:
        yield f"a failure of kind {rule.kind}"
    if rule.says is not None:
        yield f"it says {_values(rule.says)}"
    for path, want in rule.json.items():
        yield f"`{path}` is {_values(want)}"
    if rule.text:
        yield f"the text has {_values([rule.text] if isinstance(rule.text, str) else rule.text)}"
    if rule.path:
        yield f"the path has {_values([rule.path] if isinstance(rule.path, str) else rule.path)}"
    for name, fragment in rule.header.items():
        yield f"header `{name}` has `{fragment}`"
    if rule.html is not None:
        yield "a web page" if rule.html else "no web page"
    if rule.test is not None:
        yield _first_line(rule.test)
    if rule.after is not None:
        yield f"waits: {_first_line(rule.after)}"


def _first_line(function: object) -> str:
    line = (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:]


def _values(wanted: object) -> str:
    if wanted is ANY:
        return "anything"
    if isinstance(wanted, Collection) and not isinstance(wanted, str) and len(wanted):
        numbers = sorted(each for each in wanted if isinstance(each, int))
        texts = [each for each in wanted if not isinstance(each, int)]
        ordered = texts if isinstance(wanted, (tuple, list)) else sorted(texts)
        return " or ".join(f"`{each}`" for each in (*numbers, *ordered))
    return f"`{wanted}`"


def _statuses(status: int | range | tuple[int, ...]) -> str:
    if isinstance(status, int):
        return str(status)
    names = []
    for _, run in groupby(enumerate(status), lambda each: each[1] - each[0]):
        numbers = [number for _, number in run]
        names.append(f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 2 else ", ".join(map(str, numbers)))
    return ", ".join(names).replace("0, ", "none, ", 1) if 0 in status else ", ".join(names)


def _confirmed(policy: Confirm) -> str:
    """A policy in words."""
    ending = "a success" if policy.good else f"`{policy.becomes or policy.code}`"
    text = f"`{policy.code}` counts as {ending}"
    if policy.times > 1:
        apart = f", {brief(seconds(policy.apart))} apart" if policy.apart else ""
        text += f" after {policy.times} occurrences{apart}"
    if policy.unless_worked:
        text += ", unless a call of the target has ever succeeded"
    if policy.only_worked:
        text += ", or immediately if no call of the target has ever succeeded"
    if policy.fewer_than is not None:
        text += f", unless {policy.fewer_than} keys report it within {brief(seconds(policy.within))}"
    return f"{text}; otherwise as `{policy.until_then}`."


if __name__ == "__main__":
    sys.stdout.write(page())
