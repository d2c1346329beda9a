"""What commands print, and their help."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wording import catalogue
from tidegate import Target
from tidegate.cli import root
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue

Command = Callable[[str], str]
PASSWORD = b"correct horse battery\n"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a line in an empty folder; what it printed, without moments, is the answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in os.environ:
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOGNAME", "ada")

    def run(line: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASSWORD)))
        code = root.run(shlex.split(line))
        printed = capsys.readouterr()
        # Programs of earlier tests still report, to databases that are gone by now.
        lines = [each for each in printed.err.splitlines(keepends=True) if "report_dropped" not in each]
        return f"{catalogue.timeless(printed.out + ''.join(lines))}exit {code}"

    return run


def jobs() -> None:
    """Six jobs, of which one is done and one has failed; the others wait, one of them for another."""
    with Queue("sqlite:///tidegate.db") as queue:

        @queue.job(queue="mail", target=Target("api", breaker=True), key=lambda n: n % 2, name="send")
        async def send(n: int) -> None:
            if n == 1:
                raise Fail("gone")

        send.enqueue_many([(0,), (1,)])
        asyncio.run(queue.adrain())
        send.options(due="1h").enqueue_many([(2,), (3,)])
        send.options(after=[send.enqueue(4)]).enqueue(5)


OF_A_DATABASE = """
jobs list --queue none
jobs show 99
jobs retry --queue mail
jobs retry --kind none
jobs cancel --queue mail
jobs cancel --kind none
jobs forget --queue mail
jobs forget --kind none
jobs retry --queue mail --expect 7
jobs retry 1
jobs retry 2
jobs cancel 2
jobs retry --state cancelled
jobs retry --state done
jobs retry --state cancelled --expect 1
jobs forget 1
jobs pause mail --for 2h
explain job 5
explain job 6
jobs resume mail
jobs resume mail
targets test api
targets pause api --for 1h
targets test api
targets resume api
targets resume api
targets disable api --key 7 --for 1h
targets enable api --key 7
targets disable api --key 7
explain target api
targets clear api --key 7
targets clear api --key 7
targets reset api
targets show none
targets pause none --for 1h
jobs cancel --queue mail --expect 4
jobs forget --queue mail --expect 5
bulk cancel 1
bulk show 9
activity --actor eve
db check
db migrate
db backup tidegate.db --replace
db restore copy.db
db restore --db postgresql://127.0.0.1:1/jobs
db restore none.db --yes
channels test none
user list
user add ada --password-stdin
user add ada --role admin --password-stdin
user add ada --role admin --password-stdin
user add bob --role viewer
user add bob --role viewer --password-stdin
user role bob operator
user role ada viewer
user role ada king
user remove bob
user remove bob
user password eve --password-stdin
token list
token remove ci
token create ci --role king
token create ci --role viewer --ttl 0
token jwt --role viewer --ttl 0.5
token jwt --role viewer --name ''
"""

OF_AN_EMPTY_FOLDER = """
jobs list
jobs list --db env:NOBODY
jobs list --db sqlite:///none.db
jobs list --db 'postgresql://nobody@127.0.0.1:1/none?connect_timeout=1'
jobs lst
usr list
config check
config server.prot
config zzzz
init
init
worker nobody_has_this
worker needy
worker broken
worker empty
worker two
worker two:c
worker my-program:q
worker two:a --queues ' , '
worker two:a --config tidegate.toml
classify --status 204
classify --status 429 --header 'Retry-After:120'
classify --status 401
classify --message frobnicated
classify --status 99
classify --status 200 --rules spotfy
classify --status 200 --rules zzz
classify --status 200 --header nonsense
classify --header A:b
classify --body x
classify --message x --status 500
classify --status 500 --body x --body-file y
classify none.txt
classify
simulate --every soon
simulate --every 0
simulate --every 2h --for 1h
simulate --every 1ms
simulate --outage 2hdown
simulate --base 1h --cap 1m
simulate --profile synk
simulate --cooldown netwrk=1/2h
simulate --cooldown network
simulate --no-breaker --consecutive 3
simulate --svg none/at/all.svg
feeds list
"""


def said(command: Command, lines: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines.strip().splitlines():
        key = line if line not in found else f"{line} (again)"
        found[key] = command(line)
    return found


def test_commands_at_a_database(command: Command) -> None:
    jobs()
    catalogue.compare("commands_at_a_database", said(command, OF_A_DATABASE))


def test_commands_in_an_empty_folder(command: Command) -> None:
    Path("empty.py").write_text("q = 1\n")
    two = "from tidegate.jobs.queue import Queue\na = Queue('sqlite:///a.db')\nb = Queue('sqlite:///b.db')\n"
    Path("two.py").write_text(two)
    Path("broken.py").write_text("1 / 0\n")
    Path("needy.py").write_text("import nobody_has_this\n")
    catalogue.compare("commands", said(command, OF_AN_EMPTY_FOLDER))


def anywhere(text: str, folder: Path) -> str:
    """Without what differs from machine to machine."""
    return re.sub(r"[\d,]+(?= MB)|(?<=SQLite )[\d.]+", "#", text.replace(str(folder), "<folder>"))


def test_doctor(command: Command, tmp_path: Path) -> None:
    """In a folder with nothing, with mistakes, with a database that others can read, and with jobs that wait."""
    found = {"nothing": command("doctor")}
    jobs()
    Path("tidegate.db").chmod(0o600)
    found["jobs_without_worker"] = command("doctor")
    Path("tidegate.db").chmod(0o644)
    with Queue("sqlite:///tidegate.db") as queue:
        queue.target("api").pause("1h", by="ada")
        queue.target("api").force("open", "1h", by="ada")
    Path("tidegate.toml").write_text("simulators = true\n[server]\nhost = '0.0.0.0'\n")
    found["warnings"] = command("doctor")
    Path("tidegate.toml").write_text("[server]\nprot = 1\nhost = 'here'\n")
    found["wrong_settings"] = command("doctor")
    Path("tidegate.toml").unlink()
    Path("tidegate.db").write_bytes(b"no database")
    found["no_database"] = command("doctor")
    catalogue.compare("doctor", {key: anywhere(text, tmp_path) for key, text in found.items()})


# click keeps the options of a command from its first call, and other tests call groups without the root.
HELP_OF_ALL_COMMANDS = """
import click, json
from tidegate.cli import root

found = {}

def walk(command, name, parent):
    wide = {**command.context_settings, "terminal_width": 200, "max_content_width": 200}
    context = click.Context(command, info_name=name, parent=parent, **wide)
    found[context.command_path] = command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            walk(command.get_command(context, below), below, context)

walk(root.tidegate, "tidegate", None)
print(json.dumps(found))
"""


def test_help() -> None:
    done = subprocess.run([sys.executable, "-c", HELP_OF_ALL_COMMANDS], check=True, capture_output=True, text=True)
    catalogue.compare("help", json.loads(done.stdout))
