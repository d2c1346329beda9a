"""What an application is, and what installing one does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tidegate import Capacity, Queue, Target, apps
from tidegate.apps import App, Installed, Page, ScheduledJob, install
from tidegate.errors import NotFound
from tidegate.faults import Code, Reach, Reason
from tidegate.jobs import JobFunction
from tidegate.secrets import Secrets
from tidegate.settings import SettingsError, load

CITY = Code(
    name="NO_CITY", reason=Reason.ITEM, reach=Reach.ITEM, message="No city has that name.", advice="Check the name."
)


STATEMENTS = """
-- name: add
insert into weather_city (name) values (:name);

-- name: cities
select name from weather_city;
"""


class Settings(BaseModel):
    url: str = "https://weather.example"
    cap: int = 5


def declared(there: Installed[Settings]) -> JobFunction[[str], None]:
    target = Target("weather", capacity=there.capacity["weather"])

    @there.queue.job(queue="weather", target=target)
    def fetch(city: str) -> None: ...

    return fetch


def hourly(there: Installed[Settings]) -> Iterable[ScheduledJob]:
    yield ScheduledJob(cron="0 * * * *", job=there.jobs, args=("Oslo",))


@pytest.fixture
def queue(tmp_path: Path) -> Iterable[Queue]:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:
        yield q


def weather(tmp_path: Path) -> App[Settings]:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001_weather.sql").write_text("create table weather_city (name text primary key);\n")
    return App(
        name="weather",
        settings=Settings,
        codes=[CITY],
        statements=STATEMENTS,
        migrations=tmp_path / "migrations",
        capacity=lambda there: {"weather": Capacity(there.settings.cap, depth=lambda: 0)},
        jobs=declared,
        schedules=hourly,
    )


def test_installing_gives_tables_jobs_schedules_codes_and_settings(tmp_path: Path, queue: Queue) -> None:
    there = install(weather(tmp_path), queue, Settings(cap=7))

    there.db.all("add", name="Oslo")
    assert there.db.all("cities") == [("Oslo",)]
    assert there.capacity["weather"].limits.cap == 7
    assert queue.get(there.jobs.enqueue("Oslo").id).queue == "weather"
    assert queue.queues() == {"weather"}
    assert there.codes["NO_CITY"].message == "No city has that name."
    with pytest.raises(ValueError, match=r"'weather\.fetch 0"):
        queue.schedule("0 * * * *", there.jobs, ("Rome",))


def test_without_settings_it_has_its_defaults(tmp_path: Path, queue: Queue) -> None:
    assert install(weather(tmp_path), queue).settings == Settings()


def test_an_application_may_be_nothing_but_a_name(queue: Queue) -> None:
    there: Installed[None] = install(App(name="empty"), queue)
    assert (there.settings, there.jobs, queue.queues()) == (None, None, frozenset())


def shown(request: Any, there: Any) -> Any: ...


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: App(name="My App"), r"name: .*'My App'.*2.*20"),
        (
            lambda: App(name="weather", commands="weather"),
            r"commands: .*'weather'.*'module:attribute'",
        ),
        (lambda: App(name="weather", codes=[CITY, CITY]), "code 'NO_CITY' stands twice"),
        (lambda: Page(path="weather", show=shown), r"path: .*'weather'.*'/weather'"),
    ],
)
def test_a_mistake_is_said_when_it_is_made(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_one_that_is_not_there_is_said_with_those_that_are() -> None:
    with pytest.raises(NotFound, match="'wether'"):
        apps.load("wether")


def test_one_that_needs_more_than_is_installed_is_left_out_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the metadata of an installed package says it."""
    home = tmp_path / "odd-1.0.dist-info"
    home.mkdir()
    (home / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n"
        "Requires-Dist: pytest; extra == 'easy'\nRequires-Dist: no-such-package>=1; extra == 'hard'\n"
    )
    points = ["plain = odd:app", "light = odd:app [easy]", "heavy = odd:app [easy,hard]"]
    (home / "entry_points.txt").write_text("\n".join([f"[{apps.GROUP}]", *points]))
    monkeypatch.syspath_prepend(str(tmp_path))

    assert {"plain", "light"} <= set(apps.known())
    assert "heavy" not in apps.known()
    assert apps.lacking()["heavy"] == "odd[easy,hard]"
    with pytest.raises(NotFound, match=r"pip install 'odd\[easy,hard\]'"):
        apps.load("heavy")
    with pytest.raises(SettingsError, match=r"'heavy'.*pip install 'odd\[easy,hard\]'"):
        load(environ={"TIDEGATE_APPS": "heavy"})
    (tmp_path / "tidegate.toml").write_text("[heavy]\nurl = 'https://heavy.example'\n")
    assert load(file=tmp_path / "tidegate.toml", environ={}).apps == ()


def test_it_closes_what_it_was_given(queue: Queue) -> None:
    there: Installed[None] = install(App(name="weather"), queue)
    closed: list[str] = []
    there.closing.callback(closed.append, "client")
    there.closing.close()
    assert closed == ["client"]


def test_an_application_encrypts_with_the_key_that_it_is_given(queue: Queue) -> None:
    made: list[Secrets] = []

    def key() -> Secrets:
        made.append(Secrets("k" * 32))
        return made[-1]

    there: Installed[None] = install(App(name="weather"), queue, key=key)
    assert made == []  # nothing is made before it is needed
    assert Secrets("k" * 32).decrypt("token", there.secrets.encrypt("token", "s3cret")) == "s3cret"
    assert "Secrets" not in repr(there)


def test_without_a_server_an_application_has_a_key_of_its_own(queue: Queue) -> None:
    there: Installed[None] = install(App(name="weather"), queue)
    assert there.secrets.decrypt("token", there.secrets.encrypt("token", "s3cret")) == "s3cret"
