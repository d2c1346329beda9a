"""The whole server: the core, the five applications on their simulators, and people with and without rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from tests.web.api.building import HERE, Shop
from tests.web.local import LocalClient
from tidegate import server
from tidegate.accounts import users
from tidegate.settings import load
from tidegate.store.base import Tx
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site
from tidegate_apps.convert.models import job_of

# Ann and bob have accounts of the same kind, and what one puts in is none of the other's business.
PEOPLE = {"ada": "admin", "otto": "operator", "ann": "viewer", "bob": "viewer"}
HERS = "what-ann-alone-may-read"


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A server, and what each of its people shows to get in."""

    app: FastAPI
    there: server.Assembled
    tokens: Mapping[str, str]

    def headers(self, name: str) -> dict[str, str]:
        """What *name* sends with a request; nothing for somebody who is unknown."""
        return {"authorization": f"Bearer {self.tokens[name]}"} if name in self.tokens else {}

    def put_in(self) -> tuple[int, str]:
        """The number and the id of a conversion that is ann's; 0 and nothing while uploads are paused."""
        files = {"file": (f"{HERS}.pdf", b"%PDF-1.7\n" + HERS.encode(), "application/pdf")}
        with LocalClient(self.app, client=("127.0.0.1", 50000), base_url=HERE) as client:
            answer = client.post("/api/upload", headers=self.headers("ann"), files=files)
        assert answer.status_code in (200, 202, 503), answer.text
        public_id = str(answer.json().get("id", ""))
        (convert,) = (each for each in self.there.apps if each.app.name == "convert")
        return job_of(convert.db, public_id) or 0, public_id


@contextmanager
def house(folder: Path, *names: str, simulators: bool = True) -> Iterator[House]:
    """A server whose database and files are in *folder*; it answers to *names*, too. Nobody works on its jobs."""
    apps, broken = server.there_are()
    assert broken == {}
    (folder / "tidegate.toml").write_text(
        f'db = "sqlite:///{folder / "t.db"}"\nsecret_key = "{"k" * 32}"\n'
        f'[convert]\nstorage = "{folder / "files"}"\nleast_free = 0.0\n'
    )
    loaded = load(file=folder / "tidegate.toml", environ={}, apps=apps)
    with server.assembled(loaded, apps, simulators=simulators) as there:
        Shop(folder, queue=there.queue).fill()

        def add(tx: Tx) -> dict[str, str]:
            for name, role in PEOPLE.items():
                users.add_user(tx, name, role, "no password fits")
            return {name: users.add_token(tx, name, role, "ada") for name, role in PEOPLE.items()}

        site = Site(
            queue=there.queue, telling=there.telling, apps=tuple(there.apps), hosts=names,
            config=lambda: [each.as_json() for each in loaded.effective()],
            access=Authenticator((), server.secrets_of(loaded)),
        )  # fmt: skip
        yield House(app=build(site), there=there, tokens=there.queue.store.write(add))


def routes_of(app: Any, before: str = "") -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Method, path and function of every route there is."""
    for route in app.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_of(inner, before + route.include_context.prefix)
        elif getattr(route, "methods", None):
            for method in sorted(route.methods - {"HEAD"}):
                yield method, before + route.path, route.endpoint
