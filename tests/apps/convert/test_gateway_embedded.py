"""The gateway that is built in: begun at the first call, with the limits of the application, and ended with it."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, refusal, valid
from tidegate_apps.convert.client import Gateway
from tidegate_apps.convert.gateway import Embedded
from tidegate_apps.convert.settings import ConvertSettings


def test_it_takes_what_the_application_takes_and_no_more() -> None:
    with ExitStack() as closing:
        url = Gateway(ConvertSettings(most_bytes=len(pdfs.text())), closing).url

        valid(process(url, pdfs.text()))
        assert refusal(process(url, pdfs.text() + b" ")) == (413, "too_large")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health", timeout=60)


@pytest.mark.req("CNV-08")
def test_one_that_cannot_be_started_is_one_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    with ExitStack() as closing:
        gateway = Gateway(ConvertSettings(), closing)
        with pytest.raises(httpx2.ConnectError):
            gateway.probe()
        (tmp_path / "not there").mkdir()
        gateway.probe()


def test_it_starts_once_and_may_be_stopped_twice() -> None:
    embedded = Embedded()
    url = embedded.start()

    assert embedded.url == url
    with pytest.raises(RuntimeError, match=url):
        embedded.start()
    embedded.stop()
    embedded.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = embedded.url
    assert embedded.start() != ""
    embedded.stop()
