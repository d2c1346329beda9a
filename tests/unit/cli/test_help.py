"""The help of every command: one voice, one heading, examples that can be run, and one meaning per option."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator

import click
import pytest

from tests.unit.cli.conftest import Command
from tidegate.cli.root import tidegate


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        below = command.get_command(context, name)  # type: ignore[attr-defined]
        yield from walk(below, click.Context(below, parent=context, info_name=name))


ALL = list(walk(tidegate, click.Context(tidegate, info_name="tidegate")))
every_command = pytest.mark.parametrize(("command", "context"), ALL, ids=[context.command_path for _, context in ALL])


@every_command
def test_help_is_in_the_imperative_and_has_an_example(command: click.Command, context: click.Context) -> None:
    first = (command.help or "").split()[0]

    assert first[0].isupper()
    assert not first.endswith("s")
    assert "Examples:\n  " in command.get_help(context)
    assert "Verbs:" not in command.get_help(context)
    assert ("Commands:" in command.get_help(context)) is isinstance(command, click.Group)


@every_command
def test_the_examples_of_a_command_can_be_parsed(command: click.Command, context: click.Context) -> None:
    for line in (command.epilog or "").strip().splitlines():
        words = shlex.split(re.split(r" [<>] ", line.rpartition(" | ")[2].strip())[0])
        assert words[0] == "tidegate"
        found: click.Command = tidegate
        place, rest = click.Context(tidegate, info_name="tidegate"), words[1:]
        while isinstance(found, click.Group) and rest and rest[0] in found.list_commands(place):
            name = rest.pop(0)
            found = found.get_command(place, name)  # type: ignore[assignment]
            place = click.Context(found, parent=place, info_name=name)
        if not isinstance(found, click.Group):  # else its default subcommand, as in `tidegate config server`
            values, left, _ = found.make_parser(place).parse_args(rest)
            assert not left
            missing = [p.name for p in found.params if p.required and not values.get(p.name or "")]
            assert not missing
        assert line.strip() in context.command.get_help(context)


def test_an_option_has_one_meaning() -> None:
    paths = defaultdict(set)
    for command, context in ALL:
        for option in command.params:
            for name in option.opts:
                paths[name].add(context.command_path)

    assert paths["--url"] == {"tidegate classify"}  # the URL that was called
    assert paths["--server"] == {"tidegate convert run"}
    assert {"tidegate serve", "tidegate worker", "tidegate doctor", "tidegate jobs list"} < paths["--db"]
    assert {f"tidegate {app}" for app in ("feeds", "music", "lidarr", "tautulli", "convert")} <= {
        " ".join(path.split()[:2]) for path in paths["--db"]
    }


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        (("classify", "--status", "200", "--rules", "nope"), None),
        (("classify", "--status", "200", "--rules", "Spotfy"), "'spotify'"),
        (("jobs", "nope"), None),
        (("jobs", "lst"), "'list'"),
        (("feeds", "lst"), "'list'"),
        (("jobs", "list", "--nope"), None),
        (("jobs", "list", "--limt"), "--limit"),
    ],
)
def test_only_a_typo_gets_a_suggestion(command: Command, given: tuple[str, ...], suggested: str | None) -> None:
    run = command(*given)

    assert (run.code, run.err.count("\n")) == (2, 1)
    assert ("did you mean" in run.err) is (suggested is not None)
    assert suggested is None or f"did you mean {suggested}?" in run.err
