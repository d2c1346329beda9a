"""MusicBrainz, Fanart.tv and OpenAI: one answer for each entry, and "there is none" is one of them."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import httpx2
import pytest

from tests.apps.music.providers.building import AGENT, Desk, artists, fault_in, one_found, rows
from tidegate.faults.codes import CORE
from tidegate.testing import VirtualClock
from tidegate_apps.music.provider import Batch, Enrichment, EnrichmentRequest, Operation, Provider
from tidegate_apps.music.providers.musicbrainz import escaped
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator
from tidegate_demo.simulators.music.base import ALBUMS, ARTISTS, TRACKS, known_as

IDS, ART, TAGS = Operation.IDS, Operation.ART, Operation.TAGS


async def found(provider: Provider, operation: Operation, *wanted: EnrichmentRequest) -> list[Enrichment]:
    return await rows(provider.enrich(operation, wanted))


def album(number: int, **changes: str) -> EnrichmentRequest:
    track = ALBUMS[number]
    return EnrichmentRequest(kind="album", id=number, name=track.album, artist=track.artist, mbid=changes.get("mbid"))


# -- MusicBrainz -----------------------------------------------------------------------------------------------------


async def test_every_artist_album_and_song_is_found_by_its_name(desk: Desk) -> None:
    provider = desk.provider("musicbrainz")
    wanted = [EnrichmentRequest(kind="artist", id=n, name=name.upper()) for n, name in enumerate(ARTISTS)]
    assert [each.mbid for each in await found(provider, IDS, *wanted)] == [known_as("artist", name) for name in ARTISTS]
    albums = await found(provider, IDS, *(album(n) for n in range(len(ALBUMS))))
    assert [each.mbid for each in albums] == [track.album_mbid for track in ALBUMS]
    songs = [EnrichmentRequest(kind="song", id=t.number, name=t.title, artist=t.artist) for t in TRACKS[:16]]
    assert [each.mbid for each in await found(provider, IDS, *songs)] == [track.mbid for track in TRACKS[:16]]


@pytest.mark.parametrize("name", ["Harbour", "Nobody At All", 'AC/DC "(live)" [x] && y || !z\\', "*", "   "])
async def test_a_name_that_is_not_there_is_an_answer(desk: Desk, name: str) -> None:
    only = one_found(await found(desk.provider("musicbrainz"), IDS, EnrichmentRequest(kind="artist", id=3, name=name)))
    assert only == Enrichment(id=3, nothing=True)


def test_names_cannot_break_out_of_the_query() -> None:
    assert escaped('a" OR artist:"*') == 'a\\" OR artist\\:\\"\\*'


async def test_a_merged_id_is_replaced_and_a_deleted_one_is_gone(desk: Desk) -> None:
    provider = desk.provider("musicbrainz")
    old, new = known_as("artist", "before the merger"), known_as("artist", ARTISTS[0])
    desk.sim.musicbrainz.merged[old] = new
    desk.sim.musicbrainz.deleted.add(known_as("artist", ARTISTS[1]))
    gone = known_as("artist", ARTISTS[1])
    answers = await found(
        provider,
        IDS,
        *(EnrichmentRequest(kind="artist", id=n, name="x", mbid=mbid) for n, mbid in enumerate((old, gone))),
    )
    assert [(each.mbid, each.nothing) for each in answers] == [(new, False), (None, True)]


async def test_one_entry_that_is_refused_does_not_stop_the_others(desk: Desk) -> None:
    provider = desk.provider("musicbrainz")
    desk.sim.musicbrainz.next("invalid_mbid")
    batches = [batch async for batch in provider.enrich(IDS, artists(0, 8))]
    assert [(bad.id, bad.why) for bad in batches[0].bad] == [(0, CORE["bad_request"].message)]
    assert [each.id for each in batches[1].items] == [8]


def test_all_users_together_ask_once_in_eleven_tenths_of_a_second() -> None:
    clock = VirtualClock()
    sim = MusicSimulator(clock=clock)
    desk = Desk(sim, clock, sim.transport(), NOWHERE)
    providers = [desk.provider("musicbrainz", user=f"user{n}") for n in range(8)]

    async def all_at_once() -> None:
        await asyncio.gather(*(found(each, IDS, *artists(0, 8, 12)) for each in providers))

    clock.run(all_at_once())
    assert (len(sim.asked()), sim.musicbrainz.refused) == (24, 0)
    assert clock.monotonic() == pytest.approx(23 * 1.1)
    starts = [each.at for each in sim.asked()]
    assert min(later - earlier for earlier, later in pairwise(starts)) == pytest.approx(1.1)


async def test_while_another_program_at_our_address_is_too_fast_we_are_refused_too(desk: Desk) -> None:
    provider = desk.provider("musicbrainz")
    async with httpx2.AsyncClient(headers={"User-Agent": AGENT}, timeout=60) as other:
        for _ in range(4):
            await other.get(f"{desk.base}/musicbrainz/ws/2/artist", params={"query": 'artist:"x"'})
    refused = await fault_in(provider)
    assert refused is not None
    assert (refused.code, refused.reach) == ("rate_limited", "target")
    desk.clock.advance(refused.retry_after or 0)
    await provider.check()


async def test_whoever_does_not_say_who_it_is_is_not_let_in(desk: Desk) -> None:
    async with httpx2.AsyncClient(timeout=60) as other:
        answer = await other.get(f"{desk.base}/musicbrainz/ws/2/artist/{TRACKS[0].artist_mbid}")
    assert answer.status_code == 403


# -- Fanart.tv -------------------------------------------------------------------------------------------------------


async def test_the_best_liked_picture_of_each_kind_is_taken(desk: Desk) -> None:
    provider = desk.provider("fanart")
    number = next(track.number for track in TRACKS if desk.sim.fanart.has(track.artist))
    only = one_found(await found(provider, ART, *artists(number, mbids=True)))
    assert {name: url.rpartition("/")[2] for name, url in only.art.items()} == {
        "thumb": "2", "background": "3", "logo": "4",
    }  # fmt: skip


@pytest.mark.parametrize("version", ["v3", "v3.2"])
async def test_covers_are_found_in_both_versions(desk: Desk, version: str) -> None:
    desk.sim.fanart.version = version
    number = next(n for n, track in enumerate(ALBUMS) if desk.sim.fanart.has(track.album))
    only = one_found(await found(desk.provider("fanart"), ART, album(number, mbid=ALBUMS[number].album_mbid)))
    assert sorted(only.art) == ["cover", "disc"]


@pytest.mark.parametrize("fault", ["not_found", "not_found_in_200", "no_pictures"])
async def test_to_have_no_pictures_is_an_answer(desk: Desk, fault: str) -> None:
    desk.sim.fanart.now(fault)
    only = one_found(await found(desk.provider("fanart"), ART, *artists(0, mbids=True)))
    assert (only.id, only.nothing, only.art) == (0, True, {})


async def test_an_answer_about_another_album_is_no_error(desk: Desk) -> None:
    desk.sim.fanart.now("other_album")
    only = one_found(await found(desk.provider("fanart"), ART, album(0, mbid=ALBUMS[0].album_mbid)))
    assert only.nothing


@pytest.mark.parametrize(
    ("fault", "code"),
    [("key_invalid", "key_invalid"), ("key_missing_in_200", "key_invalid"), ("error_in_200", "upstream_failure")],
)
async def test_a_wrong_key_is_not_taken_for_no_pictures(desk: Desk, fault: str, code: str) -> None:
    provider = desk.provider("fanart")
    desk.sim.fanart.now(fault)
    refused = await fault_in(provider)
    assert refused is not None
    assert refused.code == code


async def test_without_an_id_nothing_is_asked(desk: Desk) -> None:
    song = EnrichmentRequest(kind="song", id=5, name="A", mbid=TRACKS[0].mbid)
    odd = EnrichmentRequest(kind="artist", id=6, name="B", mbid="../albums")
    batches: list[Batch[Enrichment]] = [
        batch async for batch in desk.provider("fanart").enrich(ART, [*artists(0), song, odd])
    ]
    assert [bad.id for batch in batches for bad in batch.bad] == [0, 5, 6]
    assert desk.sim.asked() == []


async def test_a_personal_key_goes_along(desk: Desk) -> None:
    await desk.provider("fanart", client_key="mine").check()
    [asked] = desk.sim.asked()
    assert (asked.headers["client-key"], asked.raw_query) == ("mine", "")


# -- OpenAI ----------------------------------------------------------------------------------------------------------

CODES = {
    "insufficient_quota": "quota_exhausted", "credit_balance_exhausted": "quota_exhausted",
    "organization_spend_limit_exceeded": "quota_exhausted", "project_spend_limit_exceeded": "quota_exhausted",
    "organization_usage_limit_exceeded": "quota_exhausted", "quota_in_200": "quota_exhausted",
    "rate_limit": "rate_limited", "slow_down": "rate_limited", "key_invalid": "unauthorized",
    "region": "region_refused", "model_not_found": "model_refused", "server_error": "upstream_failure",
    "overloaded": "overloaded", "no_choices": "no_completion", "no_content": "no_completion",
}  # fmt: skip
OF_ONE_ENTRY = ("request_too_large", "too_long", "unprocessable", "cut_by_length", "told_to_stop", "babble")


@pytest.mark.parametrize("fault", CODES)
async def test_each_refusal_of_openai_means_what_it_says(desk: Desk, fault: str) -> None:
    provider = desk.provider("openai")
    desk.sim.openai.now(fault)
    refused = await fault_in(provider)
    assert refused is not None
    assert refused.code == CODES[fault]
    if fault == "rate_limit":
        assert refused.retry_after == 360


@pytest.mark.parametrize("fault", OF_ONE_ENTRY)
async def test_what_the_model_cannot_do_for_one_entry_is_told_of_it(desk: Desk, fault: str) -> None:
    desk.sim.openai.now(fault)
    [batch] = [batch async for batch in desk.provider("openai").enrich(TAGS, artists(8))]
    assert [(bad.id, bool(bad.why)) for bad in batch.bad] == [(8, True)]


def test_every_fault_of_openai_is_in_one_of_the_tables() -> None:
    from tidegate_demo.simulators.music.metadata import OpenAiService

    assert {*CODES, *OF_ONE_ENTRY, "content_filter", "refusal", "conflict"} == set(OpenAiService.faults)


@pytest.mark.parametrize("fault", ["content_filter", "refusal"])
async def test_a_model_that_declines_has_no_tags_to_give(desk: Desk, fault: str) -> None:
    desk.sim.openai.now(fault)
    assert await found(desk.provider("openai"), TAGS, *artists(8)) == [Enrichment(id=8, nothing=True)]


async def test_a_model_that_thinks_before_it_answers_has_room_for_both(desk: Desk) -> None:
    desk.sim.openai.thinks = 1500
    [answer] = await found(desk.provider("openai"), TAGS, *artists(0))
    assert answer.tags == tuple(desk.sim.openai.tags(TRACKS[0].artist))


async def test_many_artists_are_tagged_ten_at_a_time(desk: Desk) -> None:
    desk.sim.openai.unknown.add(TRACKS[8].artist)
    wanted = [EnrichmentRequest(kind="artist", id=n, name=ARTISTS[n % len(ARTISTS)]) for n in range(25)]
    answers = await found(desk.provider("openai"), TAGS, *wanted)
    assert [each.id for each in answers] == list(range(25))
    assert [each.tags for each in answers] == [tuple(desk.sim.openai.tags(each.name)) for each in wanted]
    assert {each.nothing for each, w in zip(answers, wanted, strict=True) if w.name == TRACKS[8].artist} == {True}
    assert len(desk.sim.asked()) == 3


async def test_an_entry_that_is_too_much_is_found_by_halves_and_the_others_are_tagged(desk: Desk) -> None:
    long = ARTISTS[5]
    desk.sim.openai.too_long.add(long)
    wanted = [EnrichmentRequest(kind="artist", id=n, name=name) for n, name in enumerate(ARTISTS[:8])]
    batches = [batch async for batch in desk.provider("openai").enrich(TAGS, wanted)]
    assert [bad.id for batch in batches for bad in batch.bad] == [5]
    assert sorted(each.id for batch in batches for each in batch.items) == [0, 1, 2, 3, 4, 6, 7]
    assert sorted(desk.sim.openai.tagged) == sorted(set(ARTISTS[:8]) - {long}), "nobody is paid for twice"


async def test_what_is_refused_for_good_is_not_sent_in_halves(desk: Desk) -> None:
    desk.sim.openai.now("told_to_stop")
    [batch] = [batch async for batch in desk.provider("openai").enrich(TAGS, artists(0, 8, 12))]
    assert [bad.id for bad in batch.bad] == [0, 8, 12]
    assert len(desk.sim.asked()) == 1


async def test_what_a_gateway_does_not_take_of_a_request_is_left_out_from_then_on(desk: Desk) -> None:
    desk.sim.openai.refuses = {"response_format", "max_completion_tokens"}
    provider = desk.provider("openai")
    for _ in range(2):
        assert [each.id for each in await found(provider, TAGS, *artists(0, 8))] == [0, 8]
    assert [sorted(each.json) for each in desk.sim.asked()][-2:] == [["messages", "model"]] * 2
    assert len(desk.sim.asked()) == 4

    desk.sim.openai.refuses = {"messages"}
    [batch] = [batch async for batch in provider.enrich(TAGS, artists(0))]
    assert [bad.id for bad in batch.bad] == [0]


async def test_an_answer_in_a_fence_is_read(desk: Desk) -> None:
    answer = {"choices": [{"message": {"content": '```json\n{"1": ["folk"]}\n```\n'}, "finish_reason": "stop"}]}
    desk.sim.then("POST /openai/v1/chat/completions", answer)
    [only] = await found(desk.provider("openai"), TAGS, *artists(0))
    assert only.tags == ("folk",)


async def test_what_the_model_says_is_cleaned(desk: Desk) -> None:
    said = {"1": ["Folk", "folk", "", 7, "x" * 80, *(f"t{n}" for n in range(20))], "2": "none", "3": ["stranger"]}
    answer = {"choices": [{"message": {"content": json.dumps(said)}, "finish_reason": "stop"}]}
    desk.sim.then("POST /openai/v1/chat/completions", answer)
    first, second = await found(desk.provider("openai"), TAGS, *artists(0, 8))
    assert first.tags == ("folk", "t0", "t1", "t2", "t3", "t4", "t5", "t6")
    assert (second.tags, second.nothing) == ((), True)


async def test_a_refusal_names_the_request_for_the_operator(desk: Desk) -> None:
    desk.sim.openai.now("server_error")
    with pytest.raises(Exception, match=r"\b500\b.* /openai/v1/models .*\breq_simulated\b"):
        await desk.provider("openai").check()


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
async def test_a_gateway_is_found_with_and_without_its_version(desk: Desk, tail: str) -> None:
    from dataclasses import replace

    from tidegate_apps.music.provider import ProviderConnection
    from tidegate_apps.music.registry import kinds, make_provider

    there = replace(desk.there(), addresses={"openai": f"{desk.base}/openai{tail}"})
    provider = make_provider(
        kinds()["openai"], ProviderConnection(user="a", provider="openai", values=desk.values("openai")), there
    )
    assert provider is not None
    await provider.check()
