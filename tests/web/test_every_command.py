"""Whatever people change at the command line is on the page Activity: once."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.web.every_deed import OPML, Whole, whole
from tests.web.test_every_deed import lines
from tidegate.audit import ACTIONS
from tidegate.cli import root
from tidegate_apps.lidarr.submit_cycle import QUEUE as LIDARR

Words = Callable[[Whole], list[object]]
NOWHERE = "http://127.0.0.1:1"
_PASSWORD = "correct horse battery"


def _said(*words: object) -> Words:
    return lambda _: list(words)


# The command, and what follows it.
DEEDS: dict[str, Words] = {
    "jobs retry": lambda s: [s.first("mail", "failed")],
    "jobs cancel": lambda s: [s.first("mail", "waiting")],
    "jobs forget": lambda s: [s.first("mail", "done")],
    "jobs pause": _said("mail", "--for", "1h"),
    "jobs resume": _said("mail"),
    "bulk cancel": lambda s: [s.bulk()],
    "targets pause": _said("mailer", "--for", "1h"),
    "targets resume": _said("mailer"),
    "targets reset": _said("mailer"),
    "targets disable": _said("mailer"),
    "targets test": _said("mailer"),
    "targets enable": _said("mailer"),
    "targets clear": _said("mailer"),
    "channels test": _said("hook"),
    "user add": _said("vera", "--role", "viewer", "--password-stdin"),
    "user password": _said("vera", "--password-stdin"),
    "user role": _said("vera", "operator"),
    "user sign-out": _said("otto"),
    "user remove": _said("vera"),
    "token create": _said("backup", "--role", "viewer"),
    "token remove": _said("backup"),
    "convert uploads pause": _said("30m"),
    "convert uploads resume": _said(),
    "convert storage adopt": _said(),
    "feeds add": _said("https://new.example/feed"),
    "feeds import": _said("feeds.opml"),
    "feeds poll": _said("1", "2", "--wait", "1"),
    "feeds disable": _said("1"),
    "feeds enable": _said("1"),
    "lidarr wake": _said(),
    "lidarr retry": lambda s: [s.failed(LIDARR)],
    "lidarr cancel": lambda s: [s.first(LIDARR)],
    "music connect": _said("lastfm", "user=ada", "--user", "ada"),
    "music sync": _said("lastfm", "--user", "ada", "--wait", "0"),
    "music disconnect": _said("lastfm", "--user", "ada"),
    "tautulli sync": _said(),
}
# Commands that leave no line, and why.
READS = "it changes nothing"
NONE: dict[str, str] = {
    **dict.fromkeys((
        "jobs list", "jobs queues", "jobs show", "bulk list", "bulk show", "activity", "targets list", "targets show",
        "channels list", "explain job", "explain target", "user list", "token list", "db check", "db status",
        "config check", "config show", "doctor", "classify", "export alerts", "export grafana", "simulate",
        "feeds export", "feeds list", "lidarr list", "lidarr status", "music list", "music status", "tautulli ping",
        "tautulli status", "completion",
    ), READS),
    "init": "there is no database yet",
    "demo": "it has one of its own",
    "serve": "it is the server",
    "worker": "it is a worker",
    "convert gateway": "it is the gateway",
    "convert run": "it is work: the job is its record",
    "token jwt": "nothing is kept of it",
    "db backup": "the database stays as it is",
    "db migrate": "the tables may not be there yet",
    "db restore": "what was in the database is gone, the lines too",
}  # fmt: skip


def commands(found: click.Command, *path: str) -> Iterator[str]:
    if not isinstance(found, click.Group):
        yield " ".join(path)
        return
    context = click.Context(found)
    for name in found.list_commands(context):
        inner = found.get_command(context, name)
        assert inner is not None
        yield from commands(inner, *path, name)


@pytest.mark.timeout(600)
def test_each_command_that_changes_something_leaves_one_line_or_says_why_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(commands(root.tidegate)) == DEEDS.keys() | NONE.keys()
    assert not DEEDS.keys() & NONE.keys()
    with whole(tmp_path) as there:
        settings = tmp_path / "tidegate.toml"
        own = f'db = "sqlite:///{tmp_path / "tidegate.db"}"\nsecret_key = "{"k" * 32}"\n'
        more = f'\n[channels.hook]\nkind = "webhook"\nurl = "{NOWHERE}/"\n'
        more += f'[lidarr]\nbase_url = "{NOWHERE}"\napi_key = "key"\n[tautulli]\nurl = "{NOWHERE}"\napi_key = "key"\n'
        settings.write_text(own + more)
        (tmp_path / "feeds.opml").write_bytes(OPML)
        monkeypatch.chdir(tmp_path)

        wrong = {}
        for command, words in DEEDS.items():
            said = [str(each) for each in words(there)]
            before = len(lines(there))
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{_PASSWORD}{command}\n".encode())))
            with contextlib.suppress(SystemExit):  # what came of it is not asked here
                root.run([*command.split(), *said])
            now = lines(there)
            deeds = [each.deed for each in now[: len(now) - before]]
            if [deed.origin for deed in deeds if deed.action in ACTIONS] != ["cli"] or len(deeds) != 1:
                wrong[command] = f"{[each.as_json()['says'] for each in now[: len(deeds)]]}"

        assert wrong == {}
