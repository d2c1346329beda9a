"""An object store that does as it is told: as much of S3 as is needed here, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tidegate.testing import RecordedRequest, Simulator, Step

URL = "s3://bucket/files"
_MOST = 4 * 1024 * 1024
_NAMES = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class Bucket:
    """Keeps what it is sent, and refuses a second one where that is asked."""

    sim: Simulator
    kept: dict[str, bytes] = field(default_factory=dict)

    def answer(self, asked: RecordedRequest) -> Step:
        key = asked.params["key"]
        if asked.method == "PUT":
            if asked.headers.get("if-none-match") == "*" and key in self.kept:
                return Step(412, "<Error><Code>PreconditionFailed</Code></Error>")
            self.kept[key] = asked.body
            return Step(200, b"", {"ETag": '"1"'})
        if key not in self.kept:
            return Step(404, "<Error><Code>NoSuchKey</Code></Error>")
        about = {"ETag": '"1"', "Last-Modified": "Mon, 16 Nov 2026 02:00:00 GMT"}
        return Step(200, self.kept[key], about)

    def remove(self, asked: RecordedRequest) -> Step:
        keys = re.findall("<Key>(.*?)</Key>", asked.text)
        for key in keys:
            self.kept.pop(key, None)
        gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return Step(200, f"<DeleteResult {_NAMES}>{gone}</DeleteResult>")


@contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket that URL names, for whoever opens that meanwhile."""
    with Simulator(max_body=_MOST) as sim:
        found = Bucket(sim)
        sim.on("/bucket/{key:path}", found.answer)
        sim.on("POST /bucket", found.remove)
        sim.on("GET /bucket", f"<ListBucketResult {_NAMES}></ListBucketResult>")
        for name, value in {
            "AWS_ENDPOINT": sim.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "ada",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        yield found
