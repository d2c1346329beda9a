"""The command as a process: cheap to ask for help, honest about what is missing, and as documented."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

from tests.unit.cli.conftest import Command
from tidegate import Queue, Target
from tidegate.cli.exits import Exit
from tidegate.cli.root import COMMANDS, tidegate

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()
ROUNDS = 7

HELP = """
import sys, time
start = time.process_time()
sys.argv = ["tidegate", "--help"]
from tidegate.cli import main
try:
    main()
except SystemExit:
    pass
print(time.process_time() - start, *sys.modules, file=sys.stderr)
"""
ASYNCIO = (
    "import sys, time; start = time.process_time(); import asyncio; print(time.process_time() - start, file=sys.stderr)"
)


def fresh(code: str, pycache: Path) -> list[str]:
    """What *code* prints on stderr, in an interpreter that keeps its bytecode in *pycache*."""
    command = [sys.executable, "-I", "-X", f"pycache_prefix={pycache}", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr.split()


def test_help_lists_the_verbs(command: Command) -> None:
    run = command("--help")

    assert run.code == 0
    for verb, (_, says) in COMMANDS.items():
        assert re.search(rf"^  {verb} +{re.escape(says[:30])}", run.out, re.MULTILINE)


def test_help_imports_no_verb_and_nothing_heavy(tmp_path: Path) -> None:
    loaded = fresh(HELP, tmp_path)[1:]

    assert "click" in loaded
    heavy = {"rich", "pydantic", "httpx", "httpx2", "asyncio", *(module for module, _ in COMMANDS.values())}
    assert not heavy & set(loaded)


@pytest.mark.alone
def test_help_costs_at_most_three_times_the_import_of_asyncio(tmp_path: Path) -> None:
    costs: dict[str, list[float]] = {HELP: [], ASYNCIO: []}
    for code in costs:
        fresh(code, tmp_path)  # compiles to bytecode, which is not what is measured
    for _ in range(ROUNDS):
        for code, measured in costs.items():
            measured.append(float(fresh(code, tmp_path)[0]))

    assert min(costs[HELP]) <= 3 * min(costs[ASYNCIO])


def test_without_click_there_is_a_hint_and_exit_code_3() -> None:
    code = "import sys; sys.modules['click'] = None; from tidegate.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (Exit.CONFIGURATION, "")
    assert run.stderr.endswith(": pip install 'tidegate[cli]'\n")


def test_no_verb_at_all_shows_the_help_and_is_a_mistake(command: Command) -> None:
    run = command()

    assert run.code == Exit.USAGE
    assert "Commands:" in run.err


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("clasify", "did you mean 'classify'?"),
        ("zzz", f"choose one of: {', '.join(COMMANDS)}"),
        ("--nope", "see tidegate --help"),
    ],
)
def test_an_unknown_verb_gets_a_suggestion(command: Command, verb: str, told: str) -> None:
    run = command(verb)

    assert (run.code, run.err.count("\n")) == (2, 1)
    assert told in run.err


def test_the_version_is_told(command: Command) -> None:
    assert re.fullmatch(r"tidegate \d+\.\d+\.\d+\n", command("--version").out)


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    code = "from tidegate.cli import main; import sys; sys.argv = ['tidegate', 'simulate', '--json']; main()"
    run = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)

    assert (run.returncode, run.stderr) == (1, "")


def on_a_terminal(args: list[str], **environment: str) -> str:
    ours, theirs = pty.openpty()
    everything = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
    code = f"from tidegate.cli import main; import sys; sys.argv = {['tidegate', *args]!r}; main()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=everything) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # how Linux says that the other side of a terminal is closed
            pass
        process.wait()
    os.close(ours)
    return shown.decode()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('colour') / 'jobs.db'}"
    with Queue(url) as queue:

        @queue.job(name="send", target=Target("api"), key=lambda: "evil\x1b[31m")
        def send() -> None: ...

        queue.cancel(send.enqueue().id, by="ada")
        send.enqueue()
    return url


@pytest.mark.parametrize("args", [["simulate"], ["doctor"], ["jobs", "nope"], ["jobs", "list"]], ids=" ".join)
@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_and_can_be_turned_off(
    database: str, args: list[str], environment: dict[str, str], coloured: bool
) -> None:
    shown = on_a_terminal([*args, "--db", database] if args[-1] == "list" else args, **environment)

    assert (re.search(r"\x1b\[(1|3\d)", shown) is not None) is coloured
    assert "\x1b[31m" not in shown or args[-1] in ("nope", "doctor")


def commands(verbs: Iterable[str] = COMMANDS) -> list[tuple[str, click.Command]]:
    context = click.Context(tidegate)
    return [(verb, found) for verb in verbs if (found := tidegate.get_command(context, verb)) is not None]


def options_of(command: click.Command) -> set[str]:
    """Every option of a verb, and of the verbs below it."""
    if isinstance(command, click.Group):
        return {name for each in command.commands.values() for name in options_of(each)}
    return {
        name
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }


@pytest.mark.parametrize(
    "command_of_verb",
    [each for _, verb in commands() for each in (verb.commands.values() if isinstance(verb, click.Group) else [verb])],
    ids=lambda command: str(command.name),
)
def test_every_command_can_speak_json_and_says_what_it_does(command_of_verb: click.Command) -> None:
    assert "--json" in options_of(command_of_verb)
    assert (command_of_verb.help or "").strip()


def test_the_reference_names_every_exit_code() -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == {int(code) for code in Exit}


def test_the_verdict_in_the_reference_is_what_the_command_prints(command: Command) -> None:
    shown = PAGE.partition("$ tidegate classify --status 429 --header 'Retry-After: 120'\n")[2].partition("```")[0]

    assert command("classify", "--status", "429", "--header", "Retry-After: 120").out == shown
