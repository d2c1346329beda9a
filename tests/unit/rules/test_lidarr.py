"""Lidarr: refusals that are successes, and outages of somebody else."""

from __future__ import annotations

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, Refused, answer, check, page
from tidegate.rules import lidarr

PACK = lidarr
API = "https://lidarr.test/api/v1"
MISTAKE = "fatal/item/item"


def invalid(*errors: tuple[str, str, str], path: str = "/artist") -> Answer:
    """A validation answer with rows of property, message and error code."""
    names = ("propertyName", "errorMessage", "errorCode")
    return answer(400, [dict(zip(names, each, strict=True)) | {"severity": "error"} for each in errors], API + path)


EXISTS = ("ForeignArtistId", "This artist has already been added.", "ArtistExistsValidator")
ALBUM_EXISTS = ("ForeignAlbumId", "This album has already been added.", "AlbumExistsValidator")
PATH = ("Path", "Path '/music/Air' is already configured for an existing artist", "ArtistPathValidator")
UNKNOWN = ("MusicbrainzId", "An artist with this ID was not found", "")
PROFILE = ("QualityProfileId", "Quality Profile does not exist", "QualityProfileExistsValidator")
METADATA = ("MetadataProfileId", "Metadata profile does not exist", "MetadataProfileExistsValidator")
ROOT = ("RootFolderPath", "Root folder does not exist", "RootFolderExistsValidator")
PROBLEM = {"type": "about:blank", "title": "One or more validation errors occurred.", "status": 400, "errors": {}}
LONG = '[{"propertyName":"ForeignArtistId","errorCode":"ArtistExistsValidator","attemptedValue":"' + "x" * 9000 + '"}]'

CASES = [
    Case("200, a queue", answer(200, {"totalRecords": 3, "records": []}, f"{API}/queue"), GOOD),
    Case("201, an artist", answer(201, {"id": 7, "artistName": "Air"}, f"{API}/artist"), GOOD),
    Case("200, artist?mbId= of an unknown id", answer(200, [], f"{API}/artist?mbId=x"), GOOD),
    Case("400 ArtistExistsValidator (looks like a client error)", invalid(EXISTS), GOOD, rule="exists"),
    Case("400 AlbumExistsValidator", Refused(invalid(ALBUM_EXISTS, path="/album")), GOOD, rule="exists"),
    Case("400 exists, and its own path is taken", invalid(PATH, EXISTS), GOOD, rule="exists"),
    Case("400 exists, longer than what is read", answer(400, LONG, f"{API}/artist"), GOOD, rule="exists"),
    Case("400 ArtistPathValidator", invalid(PATH), MISTAKE, "path_taken", "path-taken"),
    Case("400 MusicbrainzId not found", invalid(UNKNOWN), MISTAKE, "unknown_music", "unknown-id"),
    Case("400 quality profile missing", invalid(PROFILE), "fatal/config/target", "profile_missing", "profile-missing"),
    Case("400 metadata profile missing", invalid(METADATA), "fatal/config/target", "profile_missing",
         "profile-missing"),
    Case("400 root folder missing", invalid(ROOT), "fatal/config/target", "profile_missing", "root-folder-missing"),
    Case("400 'Artist' must not be empty", invalid(("Artist", "'Artist' must not be empty.", "NotEmptyValidator")),
         MISTAKE, "bad_request", "status:400"),
    Case("400 problem details", answer(400, PROBLEM, f"{API}/artist"), MISTAKE, "bad_request", "status:400"),
    Case("400 whose body broke off", answer(400, b'[{"errorCode":"ArtistExistsVal', f"{API}/artist"), MISTAKE,
         "bad_request", "status:400"),
    Case("lookup 200 []", answer(200, "[]\n", f"{API}/artist/lookup?term=lidarr:x"), MISTAKE, "unknown_music",
         "empty-lookup"),
    Case("lookup result with empty artistName",
         answer(200, [{"artistName": "", "foreignArtistId": "x"}], f"{API}/artist/lookup?term=lidarr:x"), MISTAKE,
         "nameless", "nameless"),
    Case("lookup result with a name", answer(200, [{"artistName": "Air"}], f"{API}/artist/lookup?term=lidarr:x"), GOOD),
    Case("401 with empty body", answer(401, b"", f"{API}/queue"), "fatal/auth/target", "unauthorized", "key-refused"),
    Case("403 of a proxy", answer(403, b"", f"{API}/queue"), "fatal/auth/target", "unauthorized", "key-refused"),
    Case("404 on an id", answer(404, {"message": "NotFound"}, f"{API}/artist/7"), MISTAKE, "not_found", "status:404"),
    Case("409, a race", answer(409, {"message": "constraint failed"}, f"{API}/artist"), GOOD, rule="exists-by-race"),
    Case("500", answer(500, {"message": "no", "description": "at Foo()"}, f"{API}/command"),
         "retriable/transient/target", "upstream_failure", "status:500"),
    Case("503 starting up", answer(503, {"errorMessage": "Lidarr is starting up, please try again later"}, API),
         "retriable/transient/target", "starting", "starting"),
    Case("503 LidarrAPI (looks like Lidarr is down)",
         answer(503, {"message": "Search for 'x' failed. Unable to communicate with LidarrAPI."}, f"{API}/artist"),
         "retriable/overloaded/operation", "metadata_down", "metadata-down"),
    Case("503 of a proxy", answer(503, b"", API), "retriable/overloaded/target", "overloaded", "status:503"),
    Case("timeout on POST", TimeoutError("timed out"), "retriable/transient/target", "timeout", "kind:timeout"),
    Case("200 HTML: a wrong base path", page(200, "https://lidarr.test/"), "retriable/transient/target", "html_answer",
         "web-page"),
]  # fmt: skip


@pytest.mark.req("SYNC-04", "LID-10")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_lidarr_means_by_it(case: Case) -> None:
    check(case, PACK)


@pytest.mark.req("LID-10")
def test_the_three_refusals_that_are_for_good_have_codes_of_their_own() -> None:
    for_good = {case.code for case in CASES if case.rule in {"path-taken", "unknown-id", "empty-lookup"}}

    assert for_good == {"path_taken", "unknown_music"}
    assert not any(case.code in for_good for case in CASES if case.rule.startswith("status:"))
