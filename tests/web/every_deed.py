"""Everything that a person can change through an address of the server, as requests in an order in which each works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.web.api.building import HERE, Shop
from tests.web.local import LocalClient
from tidegate import outbox, server
from tidegate.accounts import access, users
from tidegate.accounts.access import Issuer, Role
from tidegate.cli.demo import settled
from tidegate.events import Notice, NoticeKind
from tidegate.jobs.bulk import service
from tidegate.jobs.listing import Filter
from tidegate.notices.channels import Channel, Webhook
from tidegate.store.base import Tx
from tidegate.store.sql import statements
from tidegate.web.app import build
from tidegate.web.auth import COOKIE, Authenticator
from tidegate.web.site import Site
from tidegate_apps.convert.jobs import QUEUE as CONVERT
from tidegate_apps.convert.models import job_of
from tidegate_apps.lidarr.jobs import LOOKS, WAKES
from tidegate_apps.lidarr.submit_cycle import QUEUE as LIDARR
from tidegate_demo.player import DemoRunner, StoryPlayer
from tidegate_demo.stage import DemoEnvironment, Services

KEY = Issuer.own(b"k" * 32)
OPML = b'<opml version="2.0"><body><outline type="rss" xmlUrl="https://{}.example/feed"/></body></opml>'
_PLANT = """
-- name: fail
update tg_job set state = 'failed', finished_at = {now}, error_code = 'GW_5XX', error_message = 'planted'
where id = :id;
-- name: of_queue
select id from tg_job where queue = :queue and state = :state and parents = 0 order by id;
"""


Asked = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The server with all applications and the demo. Nobody works on its jobs."""

    app: FastAPI
    there: server.Assembled
    session: str  # of ada, who is an admin

    def jobs(self, queue: str, state: str) -> list[int]:
        return [id_ for (id_,) in self.there.queue.store.read(
            lambda tx: tx.query("planted.of_queue", {"queue": queue, "state": state})
        )]  # fmt: skip

    def first(self, queue: str, state: str = "ready") -> int:
        return self.jobs(queue, state)[0]

    def client(self) -> TestClient:
        """Ada at her browser. Without the lifespan of the server: nobody goes on with a bulk action."""
        return LocalClient(
            self.app,
            client=("127.0.0.1", 50000),
            base_url=HERE,
            headers={"origin": HERE},
            cookies={COOKIE: self.session},
        )

    def upload(self) -> str:
        """The id of a conversion of ada's that has failed."""
        body = f"%PDF-1.7\n{self.there.queue.clock.now()}".encode()
        answer = self.client().post("/api/upload", files={"file": ("a.pdf", body, "application/pdf")})
        public_id = str(answer.json()["id"])
        (convert,) = (each for each in self.there.apps if each.app.name == CONVERT)
        self.failed(CONVERT, job_of(convert.db, public_id))
        return public_id

    def failed(self, queue: str, job: int | None = None) -> int:
        """A job of that queue which has given up."""
        found = self.first(queue) if job is None else job
        self.there.queue.store.write(lambda tx: tx.query("planted.fail", {"id": found}))
        return found

    def idle(self, queue: str, path: str) -> Asked:
        """The path, after what waits in a queue was taken out of it: what is there already is not put in twice."""
        for job in self.jobs(queue, "ready"):
            self.there.queue.cancel(job)
        return path, {}

    def notice(self) -> int:
        """One that goes on and nobody has read."""
        now = self.there.queue.clock.now()
        about = Notice(
            kind=NoticeKind.FATAL, target=f"t{now}", key="", episode=now, title="T", message="M", code="gone"
        )  # fmt: skip
        self.there.queue.store.write(lambda tx: outbox.record_target_notice(tx, outbox.of_target(about, "")))
        return int(self.there.queue.store.read(lambda tx: tx.query("notices", {"before": 2**62, "n": 1}))[0][0])

    def bulk(self) -> int:
        """One that is under way."""
        self.failed("mail")
        wanted = Filter(queue="mail", state="failed")
        n = self.there.queue.store.read(lambda tx: service.preview(tx, "retry", wanted)).n
        found = service.begin(self.there.queue.store, "retry", wanted, "otto", expected=n)
        assert found is not None
        return found.id

    def token(self) -> dict[str, str]:
        now = self.there.queue.clock.now()
        return {"authorization": f"Bearer {access.issue_token(KEY, 'ada', Role.ADMIN, 3600, now)}"}


@contextmanager
def whole(folder: Path) -> Iterator[Whole]:
    """The server of the demo, filled."""
    theatre = DemoRunner(DemoEnvironment(Services()), StoryPlayer((), on=False))
    loaded, apps = settled(theatre, folder, 0)
    with server.assembled(loaded, apps, simulators=True) as there:
        queue = there.queue
        there.telling.channels = (Channel(name="hook", config=Webhook(url="http://127.0.0.1:1/")),)
        Shop(folder, queue=queue).fill()
        theatre.environment.fill(there.apps)
        theatre.environment.more_albums(8)
        queue.drain(LOOKS)
        # As after the first trouble: what is ended with it must not be a line of its own.
        queue.store.write(lambda tx: tx.query("target_new", {"name": "lastfm"}))
        queue.store.add(statements(_PLANT, queue.store.dialect, "planted."))

        def people(tx: Tx) -> str:
            for name, role in (("ada", "admin"), ("otto", "operator")):
                users.add_user(tx, name, role, "no password fits")
            users.begin_session(tx, "otto")
            return users.begin_session(tx, "ada")

        session = queue.store.write(people)
        site = Site(queue=queue, telling=there.telling, apps=tuple(there.apps), access=Authenticator([KEY]))
        yield Whole(app=build(site), there=there, session=session)


Ask = Callable[[Whole], Asked]


def _to(path: str, **sent: Any) -> Ask:
    return lambda _: (path, sent)


def _form(path: str, **fields: str) -> Ask:
    return _to(path, data=fields)


def _body(path: str, **fields: Any) -> Ask:
    return _to(path, json=fields)


def _of(path: str, number: Callable[[Whole], int | str], **sent: Any) -> Ask:
    return lambda there: (path.format(number(there)), sent)


_PASSWORD = "correct horse battery"
_HOUR = {"for": 3600.0}

# The route, and what is asked of it.
DEEDS: dict[str, Ask] = {
    "POST /api/v1/targets/{name:path}/pause": _body("/api/v1/targets/mailer/pause", **_HOUR),
    "POST /api/v1/targets/{name:path}/resume": _to("/api/v1/targets/mailer/resume"),
    "POST /api/v1/targets/{name:path}/force": _body("/api/v1/targets/mailer/force", state="open", **_HOUR),
    "POST /api/v1/targets/{name:path}/test": _to("/api/v1/targets/mailer/test"),
    "POST /api/v1/targets/{name:path}/reset": _to("/api/v1/targets/mailer/reset"),
    "POST /api/v1/targets/{name:path}/disable": _body("/api/v1/targets/mailer/disable", key="7", **_HOUR),
    "POST /api/v1/targets/{name:path}/enable": _body("/api/v1/targets/mailer/enable", key="7"),
    "POST /api/v1/targets/{name:path}/clear": _body("/api/v1/targets/mailer/clear", key="7"),
    "POST /targets/{name:path}/pause": _form("/targets/mailer/pause", lasts="1h"),
    "POST /targets/{name:path}/resume": _to("/targets/mailer/resume"),
    "POST /targets/{name:path}/hold": _form("/targets/mailer/hold", lasts="1h"),
    "POST /targets/{name:path}/test": _to("/targets/mailer/test"),
    "POST /targets/{name:path}/reset": _to("/targets/mailer/reset"),
    "POST /targets/{name:path}/disable": _form("/targets/mailer/disable", key="7", lasts="1h"),
    "POST /targets/{name:path}/enable": _form("/targets/mailer/enable", key="7"),
    "POST /targets/{name:path}/clear": _form("/targets/mailer/clear", key="7"),
    "POST /api/v1/queues/{name:path}/pause": _body("/api/v1/queues/mail/pause", **_HOUR),
    "POST /api/v1/queues/{name:path}/resume": _to("/api/v1/queues/mail/resume"),
    "POST /queue/{name:path}/pause": _form("/queue/mail/pause", lasts="1h"),
    "POST /queue/{name:path}/resume": _to("/queue/mail/resume"),
    "POST /api/v1/jobs/{id}/retry": _of("/api/v1/jobs/{}/retry", lambda s: s.first("mail", "failed")),
    "POST /api/v1/jobs/{id}/cancel": _of("/api/v1/jobs/{}/cancel", lambda s: s.first("mail", "waiting")),
    "POST /api/v1/jobs/{id}/forget": _of("/api/v1/jobs/{}/forget", lambda s: s.first("mail", "done")),
    "POST /jobs/{id_}/retry": _of("/jobs/{}/retry", lambda s: s.first("mail", "failed")),
    "POST /jobs/{id_}/cancel": _of("/jobs/{}/cancel", lambda s: s.first("mail", "waiting")),
    "POST /jobs/{id_}/forget": _of("/jobs/{}/forget", lambda s: s.first("mail", "done")),
    "POST /api/v1/bulk-actions": _body(
        "/api/v1/bulk-actions", action="retry", filter={"queue": "mail", "state": "failed"}, expected=1
    ),
    "POST /bulk": _form("/bulk", action="cancel", queue="feeds", state="queued", expected="1"),
    "POST /api/v1/bulk-actions/{id}/cancel": _of("/api/v1/bulk-actions/{}/cancel", Whole.bulk),
    "POST /actions/{id_}/cancel": _of("/actions/{}/cancel", Whole.bulk),
    "POST /api/v1/notices/{id}/ack": _of("/api/v1/notices/{}/ack", Whole.notice),
    "POST /api/v1/notices/{id}/snooze": _of("/api/v1/notices/{}/snooze", Whole.notice, json={"lasts": "1h"}),
    "POST /notices/{id_}/read": _of("/notices/{}/read", Whole.notice),
    "POST /notices/{id_}/snooze": _of("/notices/{}/snooze", Whole.notice, data={"lasts": "1h"}),
    "POST /notices/read": lambda s: ("/notices/read", {"data": {"newest": str(s.notice())}}),
    "POST /api/v1/channels/{name}/test": _to("/api/v1/channels/hook/test"),
    "POST /channels/{name}/test": _to("/channels/hook/test"),
    "POST /channels/address": _form("/channels/address", mail="ada@example.org"),
    "POST /demo/services/{name}/break": _to("/demo/services/spotify/break"),
    "POST /demo/services/{name}/mend": _to("/demo/services/spotify/mend"),
    "POST /demo/story/again": _to("/demo/story/again"),
    "POST /api/convert/uploads/pause": _body("/api/convert/uploads/pause", seconds=60.0),
    "POST /api/convert/uploads/resume": _to("/api/convert/uploads/resume"),
    "POST /convert/uploads/pause": _form("/convert/uploads/pause", lasts="1h"),
    "POST /convert/uploads/resume": _to("/convert/uploads/resume"),
    "POST /api/jobs/{id}/retry": _of("/api/jobs/{}/retry", Whole.upload),
    "POST /convert/jobs/{id}/retry": _of("/convert/jobs/{}/retry", Whole.upload),
    "POST /api/v1/sources": _body("/api/v1/sources", feed_url="https://new.example/feed"),
    "PATCH /api/v1/sources/{id}": _body("/api/v1/sources/1", name="Another name"),
    "POST /api/v1/sources/{id}/poll": _to("/api/v1/sources/1/poll"),
    "PATCH /api/v1/sources/{id}/feed-disable": lambda s: (
        "/api/v1/sources/1/feed-disable", {"json": {"reason": "manual"}, "headers": s.token()},
    ),
    "PATCH /api/v1/sources/{id}/feed-enable": lambda s: ("/api/v1/sources/1/feed-enable", {"headers": s.token()}),
    "DELETE /api/v1/sources/{id}": _to("/api/v1/sources/1"),
    "POST /api/v1/sources/opml": _to(
        "/api/v1/sources/opml", content=OPML.replace(b"{}", b"a"), headers={"content-type": "text/x-opml"}
    ),
    "POST /feeds/import": _to("/feeds/import", files={"file": ("f.opml", OPML.replace(b"{}", b"b"))}),
    "POST /feeds/add": _form("/feeds/add", feed_url="https://other.example/feed"),
    "POST /feeds/{id}/poll": _to("/feeds/2/poll"),
    "POST /feeds/{id}/disable": _to("/feeds/2/disable"),
    "POST /feeds/{id}/enable": _to("/feeds/2/enable"),
    "POST /feeds/{id}/remove": _to("/feeds/2/remove"),
    "POST /api/v1/lidarr/queue/{id}/cancel": _of("/api/v1/lidarr/queue/{}/cancel", lambda s: s.first(LIDARR)),
    "POST /api/v1/lidarr/queue/{id}/retry": _of("/api/v1/lidarr/queue/{}/retry", lambda s: s.failed(LIDARR)),
    "POST /lidarr/{id}/cancel": _of("/lidarr/{}/cancel", lambda s: s.first(LIDARR)),
    "POST /lidarr/{id}/retry": _of("/lidarr/{}/retry", lambda s: s.failed(LIDARR)),
    "POST /api/v1/lidarr/retry": lambda s: ("/api/v1/lidarr/retry", {"params": {"planted": s.failed(LIDARR)}}),
    "POST /lidarr/retry": lambda s: ("/lidarr/retry", {"params": {"planted": s.failed(LIDARR)}}),
    "POST /api/v1/lidarr/wake": _to("/api/v1/lidarr/wake"),
    "POST /api/v1/lidarr/look": _to("/api/v1/lidarr/look"),
    "POST /lidarr/wake": lambda s: s.idle(WAKES, "/lidarr/wake"),
    "POST /lidarr/look": lambda s: s.idle(LOOKS, "/lidarr/look"),
    "PUT /api/v1/music/connections/{provider}": _body("/api/v1/music/connections/lastfm", values={"user": "ada"}),
    "POST /api/v1/music/connections/{provider}/sync": _to("/api/v1/music/connections/lastfm/sync"),
    "DELETE /api/v1/music/connections/{provider}": _to("/api/v1/music/connections/lastfm"),
    "POST /music/connect/{provider}": _form("/music/connect/lastfm", user="ada"),
    "POST /music/sync/{provider}": _to("/music/sync/lastfm"),
    "POST /music/disconnect/{provider}": _to("/music/disconnect/lastfm"),
    "POST /api/v1/tautulli/sync": _to("/api/v1/tautulli/sync"),
    "POST /tautulli/sync": _to("/tautulli/sync"),
    "POST /people/add": _form("/people/add", name="vera", role="viewer", password=_PASSWORD),
    "POST /people/{name}/role": _form("/people/vera/role", role="operator"),
    "POST /people/{name}/password": _form("/people/vera/password", password=_PASSWORD[::-1]),
    "POST /people/{name}/sign-out": _to("/people/otto/sign-out"),
    "POST /people/{name}/remove": _to("/people/vera/remove"),
    "POST /tokens/add": _form("/tokens/add", name="backup", role="viewer"),
    "POST /tokens/{name}/remove": _to("/tokens/backup/remove"),
}  # fmt: skip

# Routes that leave no line, and why.
NONE: dict[str, str] = {
    "POST /api/v1/classify": "it changes nothing",
    "POST /api/upload": "it is work: the job is its record, and a visitor has no name",
    "POST /convert/upload": "it is work: the job is its record, and a visitor has no name",
    "POST /demo/story/next": "only how fast a story is told",
    "POST /demo/story/end": "only how fast a story is told",
    "POST /preferences": "only how the page looks, in a cookie",
    "POST /sign-in": "the log has it; it changes nothing for others",
    "POST /sign-out": "one's own session",
}
