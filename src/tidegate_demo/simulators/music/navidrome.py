"""A simulated Navidrome: verifies salted password hashes, omits empty lists, and can reject a correct password."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_demo.simulators.music.base import HTML, PAGE, TRACKS, CatalogueTrack, Fault, Listened

_SESSION = 48 * 3600.0
_LOGINS, _IN = 5, 20.0
PASSWORD = "low tide"  # noqa: S105  # of accounts that are not there

Rows = list[dict[str, object]]
Reply = Callable[[str, Mapping[str, str]], object]
Listed = Callable[[str, RecordedRequest], Rows | None]


def failed(code: int, message: str, status: int = 200, retry_after: float | None = None) -> Step:
    """Return a Subsonic failure, which has status 200."""
    return Step(status, _envelope("failed", error={"code": code, "message": message}), retry_after=retry_after)


def _envelope(status: str, **more: object) -> dict[str, object]:
    about = {"version": "1.16.1", "type": "navidrome", "serverVersion": "0.58.0", "openSubsonic": True}
    return {"subsonic-response": {"status": status, **about, **more}}


@dataclass
class SavedList:
    """A playlist; its songs are numbers of the catalogue."""

    name: str
    owner: str
    songs: list[int] = field(default_factory=list)
    comment: str = ""
    changed: float = 0.0
    public: bool = False


FAULTS: Mapping[str, Fault] = {
    "code_0_internal": failed(0, "Internal Server Error: database is locked"),
    "code_0": failed(0, 'strconv.Atoi: parsing "x": invalid syntax'),
    "code_10": failed(10, "missing parameter: 'id'"),
    "code_20": failed(20, "Incompatible Subsonic REST protocol version. Client must upgrade."),
    "code_30": failed(30, "Incompatible Subsonic REST protocol version. Server must upgrade."),
    "code_40": failed(40, "Wrong username or password"),
    "code_41": failed(41, "Token authentication not supported for LDAP users"),
    "code_50": failed(50, "User is not authorized for the given operation"),
    "code_60": failed(60, "The trial period is over"),
    "code_70": failed(70, "Data not found"),
    "too_many_transcodes": failed(0, "too many concurrent transcodes", 429, retry_after=5),
    "not_implemented": Step(501, "This endpoint is not implemented, but may be in future releases"),
    "withdrawn": Step(410, "This endpoint will not be implemented"),
    "web_app": Step(302, b"", {"Location": "/navidrome/app/"}),
    "refused": Step(401, {"error": "Not authenticated"}),
    "login_refused": Step(401, {"error": "Invalid username or password"}),
    "malformed_login": Step(422, {"error": "Invalid request payload"}),
    "too_many_logins": Step(429, "Too Many Requests"),
    "login_broken": Step(500, {"error": "Unknown error authentication user. Please try again"}),
}


class NavidromeServer(Listened):
    """`user` creates accounts. *has_log*: newer versions have a log of plays. *refuses_reused_salts* is a setting."""

    name = "navidrome"
    faults = FAULTS

    def begin(self) -> None:
        super().begin()
        self.passwords: dict[str, str] = {}
        self.playlists: dict[str, SavedList] = {}
        self._key = b"navidrome"
        self.has_log = True
        self.refuses_reused_salts = False
        self.gone: set[int] = set()  # songs that were deleted from the library
        self._salts: set[str] = set()
        self._logins: list[float] = []

    def user(self, name: str, password: str = PASSWORD) -> None:
        """Create an account with two playlists, one of them empty; or set a new password."""
        new = name not in self.passwords
        self.passwords[name] = password
        if new:
            now = self.clock.now()
            self.playlists[f"{name}-1"] = SavedList("For the ferry", name, [0, 5, 9, 13], "Songs that wait", now)
            self.playlists[f"{name}-2"] = SavedList("Still empty", name, changed=now)
            self.listening.heard(name)

    def mount(self, sim: Simulator) -> None:
        calls: Mapping[str, Reply] = {
            "ping": self._ping,
            "getPlaylists": self._lists,
            "getPlaylist": self._list,
            "getNowPlaying": lambda user, given: _envelope("ok", nowPlaying={}),
        }
        for method, reply in calls.items():
            self._route(sim, method, f"* /rest/{method}", partial(self._known, reply=reply))
        self._route(sim, "login", "POST /auth/login", self._login)
        self._route(sim, "song", "GET /api/song", partial(self._session, reply=self._songs))
        self._route(sim, "scrobble", "GET /api/scrobble", partial(self._session, reply=self._scrobbles))
        self._route(sim, "alive", "GET /ping", lambda _: Step(200, "."))
        self._route(sim, "app", "GET /app/", lambda _: Step(200, PAGE, HTML))
        self._route(sim, "other", "GET /{rest:path}", lambda _: FAULTS["web_app"])

    # -- Subsonic API --------------------------------------------------------------------------------------------------

    def _known(self, request: RecordedRequest, reply: Reply) -> object:
        parameters = {**request.form, **request.query} if request.method == "POST" else request.query
        missing = next((name for name in ("u", "t", "s", "v", "c") if not parameters.get(name)), None)
        if missing:
            return failed(10, f"missing parameter: '{missing}'")
        user, salt = parameters["u"], parameters["s"]
        made = hashlib.md5(f"{self.passwords.get(user, '')}{salt}".encode(), usedforsecurity=False).hexdigest()
        right = user in self.passwords and len(salt) >= 6 and hmac.compare_digest(made, parameters["t"])
        if not right or (self.refuses_reused_salts and salt in self._salts):
            return failed(40, "Wrong username or password")
        self._salts.add(salt)
        return reply(user, parameters)

    def _ping(self, user: str, given: Mapping[str, str]) -> object:
        return _envelope("ok")

    def _lists(self, user: str, given: Mapping[str, str]) -> object:
        playlists = [
            _listed(ref, playlist)
            for ref, playlist in self.playlists.items()
            if playlist.owner == user or playlist.public
        ]
        return _envelope("ok", playlists={"playlist": playlists} if playlists else {})

    def _list(self, user: str, given: Mapping[str, str]) -> object:
        playlist = self.playlists.get(given.get("id", ""))
        if playlist is None or not (playlist.owner == user or playlist.public):
            return failed(70, "Playlist not found")
        entries = [_child(TRACKS[number]) for number in playlist.songs]
        return _envelope("ok", playlist={**_listed(given["id"], playlist), **({"entry": entries} if entries else {})})

    # -- native API ----------------------------------------------------------------------------------------------------

    def _login(self, request: RecordedRequest) -> object:
        now = self.clock.now()
        self._logins = [at for at in self._logins if now - at < _IN]
        if len(self._logins) >= _LOGINS:
            return FAULTS["too_many_logins"]
        self._logins.append(now)
        credentials = request.json
        user = credentials.get("username", "")
        if user not in self.passwords or self.passwords[user] != credentials.get("password"):
            return FAULTS["login_refused"]
        return Step(200, {"id": user, "name": user, "username": user, "isAdmin": False, "token": self._made(user)})

    def _made(self, user: str) -> str:
        said = f"{user}.{self.clock.now() + _SESSION:.0f}"
        return f"{said}.{hmac.digest(self._key, said.encode(), 'sha256').hex()}"

    def _session(self, request: RecordedRequest, reply: Listed) -> object:
        token = request.headers.get("x-nd-authorization").removeprefix("Bearer ")
        said, _, signed = token.rpartition(".")
        user, _, ends = said.rpartition(".")
        right = hmac.compare_digest(signed, hmac.digest(self._key, said.encode(), "sha256").hex())
        if not right or float(ends) <= self.clock.now() or user not in self.passwords:
            return FAULTS["refused"]
        response = reply(user, request)
        if response is None:
            return FAULTS["web_app"]
        query = request.query
        start, end = (int(query.get(name) or other) for name, other in (("_start", 0), ("_end", len(response))))
        headers = {"X-Total-Count": str(len(response)), "X-ND-Authorization": self._made(user)}
        return Step(200, response[start:end], headers)

    def end_sessions(self) -> None:
        """Invalidate all sessions, as a restart with another key does."""
        self._key = hashlib.sha256(self._key).digest()

    def _scrobbles(self, user: str, request: RecordedRequest) -> Rows | None:
        if not self.has_log:
            return None
        since = float(request.query.get("from") or 0)
        log = [(int(at), track) for at, track in self.listening.heard(user, since)]
        rows: Rows = [
            {"id": number, "mediaFileId": f"nd{track.number}", "submissionTime": at}
            for number, (at, track) in enumerate(log, 1)
        ]
        return rows if request.query.get("_order") == "ASC" else rows[::-1]

    def _songs(self, user: str, request: RecordedRequest) -> Rows:
        wanted = {value for name, value in request.pairs if name == "id"}
        there = [track for track in TRACKS if track.number not in self.gone]
        if wanted:
            return [_media(track, None) for track in there if f"nd{track.number}" in wanted]
        last = {track.number: at for at, track in self.listening.heard(user)}
        rows = [_media(track, last.get(track.number)) for track in there]
        if request.query.get("_sort") == "play_date":
            rows.sort(key=lambda row: str(row.get("playDate", "")), reverse=request.query.get("_order") == "DESC")
        return rows


def _listed(ref: str, found: SavedList) -> dict[str, object]:
    seconds = sum(TRACKS[number].seconds for number in found.songs)
    return {
        "id": ref,
        "name": found.name,
        "comment": found.comment,
        "songCount": len(found.songs),
        "duration": seconds,
        "public": found.public,
        "owner": found.owner,
        "changed": _date(found.changed),
    }


def _child(track: CatalogueTrack) -> dict[str, object]:
    return {
        "id": f"nd{track.number}",
        "title": track.title,
        "album": track.album,
        "artist": track.artist,
        "isDir": False,
        "duration": track.seconds,
        "musicBrainzId": track.mbid,
        "isrc": [track.isrc],
    }


def _media(track: CatalogueTrack, played: float | None) -> dict[str, object]:
    row: dict[str, object] = {
        "id": f"nd{track.number}",
        "title": track.title,
        "album": track.album,
        "artist": track.artist,
        "duration": float(track.seconds),
        "mbzRecordingID": track.mbid,
        "mbzArtistId": track.artist_mbid,
        "mbzReleaseGroupId": track.album_mbid,
    }
    return row if played is None else {**row, "playDate": _date(int(played)), "playCount": 1}


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
