"""The story as a table, and who plays it: words are measured, and a step waits for what it tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import as_file, files

import pypdfium2  # type: ignore[import-untyped]
import pytest

from tests.text import names, numbers
from tidegate import server
from tidegate.settings import load
from tidegate_demo import stage as tidegate_demo_stage
from tidegate_demo.app import MARK, demo, shown, strip
from tidegate_demo.player import DemoRunner, StoryPlayer
from tidegate_demo.simulators.music import NOWHERE
from tidegate_demo.stage import DemoEnvironment, Facts, Services
from tidegate_demo.story import STORY, TROUBLES, StoryStep, ended

NOTHING = Facts()
# What each step waits for, and the numbers that it then tells.
SEEN: Sequence[tuple[Facts, list[int]]] = (
    (Facts(converted=10, polled=24, feeds=24, plays=3), [10, 24, 24, 3]),
    (Facts(breaker="open", uploads_wait=12), [12]),
    (Facts(spotify_notices=1, spotify_needs=2), [1]),
    (Facts(refusals=3, rests_until=1.0, feeds=24), [3, 7]),
    (Facts(lidarr_taken=40, lidarr_room=40, albums_wait=100), [40, 40]),
    (Facts(albums_wait=30, albums_sent=120, lidarr_room=40), [30, 120, 40]),
    (Facts(breaker="closed", uploads_wait=1, converted=70), [1, 70]),
)  # fmt: skip
# The same, but for one thing that has not happened.
UNSEEN: Sequence[Sequence[Facts]] = (
    [
        replace(SEEN[0][0], polled=23), replace(SEEN[0][0], plays=0), replace(SEEN[0][0], converted=9),
        replace(SEEN[0][0], breaker="open"), replace(SEEN[0][0], spotify_needs=1),
    ],
    [replace(SEEN[1][0], breaker="closed"), replace(SEEN[1][0], uploads_wait=0)],
    [replace(SEEN[2][0], spotify_notices=2), replace(SEEN[2][0], spotify_needs=0)],
    [replace(SEEN[3][0], rests_until=None)],
    [replace(SEEN[4][0], lidarr_taken=39), replace(SEEN[4][0], albums_wait=3)],
    [replace(SEEN[5][0], albums_wait=100)],
    [replace(SEEN[6][0], breaker="half-open"), replace(SEEN[6][0], uploads_wait=20, converted=0)],
)  # fmt: skip


def test_the_story_takes_about_three_minutes_and_each_step_says_where_to_look() -> None:
    assert 150 <= sum(step.lasts for step in STORY) <= 200
    for step in STORY:
        assert step.title.endswith(".")
        assert step.watch.endswith(".")
        assert step.look
        assert all(path.startswith("/") for path, _ in step.look)


@pytest.mark.parametrize("place", range(len(STORY)), ids=[step.title for step in STORY])
def test_a_step_is_seen_when_what_it_tells_has_happened_and_not_before(place: int) -> None:
    facts, figures = SEEN[place]

    assert STORY[place].seen(facts)
    assert set(figures) <= set(numbers(STORY[place].say(facts)))
    for missing in UNSEEN[place]:
        assert not STORY[place].seen(missing)


def test_the_last_step_waits_for_spotify_too() -> None:
    assert not STORY[-1].seen(replace(SEEN[-1][0], spotify_needs=1))


def test_nothing_is_called_safe_that_was_lost() -> None:
    lost = Facts(breaker="open", uploads_wait=1, uploads_failed=2)

    assert numbers(STORY[1].say(lost)) == [1, 2]
    assert numbers(ended(lost))[0] == 2
    assert ended(NOTHING).split(":")[0] != ended(lost).split(":")[0]


# -- playing -----------------------------------------------------------------------------------------------------------

ONE = StoryStep(
    title="One.", do=[DemoEnvironment.rush], say=lambda facts: f"{facts.plays} plays", watch="", look=[],
    seen=lambda facts: facts.plays > 0, lasts=10, patience=5,
)  # fmt: skip
TWO = replace(ONE, title="Two.", do=[DemoEnvironment.revoke], seen=lambda facts: facts.plays > 9)


def test_a_step_is_done_once_and_ends_when_it_has_lasted_and_was_seen() -> None:
    player = StoryPlayer([ONE, TWO])

    assert list(player.tick(100, NOTHING)) == [DemoEnvironment.rush]
    assert (player.place, player.played[0].words) == (0, "0 plays")
    assert list(player.tick(105, Facts(plays=3))) == []
    assert (player.played[0].words, player.played[0].seen_at) == ("3 plays", 105)
    assert list(player.tick(109, NOTHING)) == []  # what was seen stays seen
    assert list(player.tick(110, Facts(plays=4))) == [DemoEnvironment.revoke]
    assert (player.place, player.played[0].state, player.played[0].words) == (1, "over", "4 plays")


def test_a_step_waits_for_what_it_tells_and_then_goes_on_without(caplog: pytest.LogCaptureFixture) -> None:
    player = StoryPlayer([ONE, TWO])
    player.tick(100, NOTHING)

    assert list(player.tick(114.9, NOTHING)) == []
    assert list(player.tick(115, NOTHING)) == [DemoEnvironment.revoke]
    assert (player.played[0].state, player.played[0].seen_at) == ("over", None)
    assert "demo_step_not_seen step=1" in caplog.text


def test_somebody_who_has_seen_enough_gets_the_next_step() -> None:
    player = StoryPlayer([ONE, TWO])
    player.tick(100, NOTHING)
    player.hurry()

    assert list(player.tick(101, NOTHING)) == [DemoEnvironment.revoke]
    assert list(player.tick(102, NOTHING)) == []
    assert player.place == 1  # it was one step, not all of them
    assert (player.played[0].state, player.played[0].hurried) == ("over", True)  # nobody waited for it in vain


def test_a_story_that_is_twice_as_fast_has_steps_that_are_half_as_long_and_as_much_patience() -> None:
    player = StoryPlayer([ONE, TWO], speed=2)
    player.tick(100, NOTHING)

    assert list(player.tick(109.9, NOTHING)) == []
    assert list(player.tick(110, NOTHING)) == [DemoEnvironment.revoke]
    assert list(player.tick(115, Facts(plays=10))) == []
    assert player.over


def test_a_story_that_is_off_does_nothing_and_may_be_played_later_and_ended() -> None:
    player = StoryPlayer([ONE], on=False)
    assert (list(player.tick(100, NOTHING)), player.over, player.told) == ([], True, False)

    player.again()
    assert list(player.tick(101, NOTHING)) == [DemoEnvironment.rush]
    player.end()
    assert (list(player.tick(102, NOTHING)), player.over, player.told) == ([], True, True)
    assert (player.played[0].state, player.played[0].hurried) == ("over", True)


# -- what is shown -----------------------------------------------------------------------------------------------------


def theatre(*, on: bool = True) -> DemoRunner:
    services = Services()
    services.music.connect("local", NOWHERE)
    return DemoRunner(DemoEnvironment(services), StoryPlayer([ONE, TWO], on=on))


def test_the_strip_says_which_step_it_is_and_what_is_measured() -> None:
    found = theatre()
    assert (strip(found).text, [path for path, _ in strip(found).links]) == ("", ["/demo"])
    found.player.tick(100, Facts(plays=7))

    told = strip(found)
    assert (told.mark, numbers(told.title), told.text) == (MARK, [1, 2], "7 plays")
    assert "One." in told.title
    assert "/demo" in [path for path, _ in told.links]

    found.player.end()
    assert (strip(found).tone, numbers(strip(found).title)) == ("calm", [])
    assert strip(found).text == found.words


def test_without_a_story_the_strip_says_what_is_broken() -> None:
    found = theatre(on=False)
    well = strip(found).text

    found.environment.services.gateway.state = "unavailable"
    assert strip(found).text != well
    assert names(strip(found).text, TROUBLES["gateway"].service, TROUBLES["gateway"].ill)
    assert (shown(found)["broken"], shown(found)["at"]) == (1, None)


def test_every_trouble_has_its_words_and_is_off_at_first() -> None:
    stage = theatre().environment

    assert len(TROUBLES) >= 10
    for trouble in TROUBLES.values():
        assert not trouble.on(stage), trouble.name
        assert trouble.ill.endswith(".")
        assert trouble.watch.endswith(".")
        assert trouble.look.startswith("/")


def test_the_settings_of_the_demo_are_settings_of_its_applications() -> None:
    found = theatre()
    apps = [demo(found), *found.environment.services.under(server.there_are()[0])]
    with as_file(files("tidegate_demo") / "tidegate.toml") as file:
        loaded = load(file=file, environ={}, apps=apps)

    assert loaded.apps == ("demo", "convert", "feeds", "lidarr", "music", "tautulli")
    assert float(loaded.app("lidarr").submit_interval) == 3.0


def test_the_files_of_the_demo_are_pdf_files() -> None:
    with pypdfium2.PdfDocument(tidegate_demo_stage.pdf("Tide table (May) 1")) as document:
        assert len(document) == 1
        assert document[0].get_textpage().get_text_bounded() == "Tide table May 1"


def test_no_two_bands_of_the_demo_have_the_same_name() -> None:
    names = tidegate_demo_stage.band_names(0, 250)

    assert len(set(names)) == 250
    assert names[:3] == tidegate_demo_stage.band_names(0, 3)
    assert tidegate_demo_stage.band_names(120, 5) == names[120:125]
