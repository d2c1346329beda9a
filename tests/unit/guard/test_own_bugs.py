"""A bug of the program is not a failure of the service: it passes, uncounted and unheld."""

from __future__ import annotations

import json
import logging
import ssl
import sysconfig
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import httpx2
import pytest
import requests

from tests.unit.guard.scene import Scene
from tidegate import classify, fault_of
from tidegate.faults import attribution
from tidegate.faults.attribution import has_readable_text, is_own_bug


def key_error() -> object:
    return dict[str, int]()["user"]


def type_error() -> object:
    return len(7)  # type: ignore[arg-type]


def wrong_arguments() -> object:
    return key_error(1)  # type: ignore[call-arg]


def index_error() -> object:
    return list[int]()[0]


def attribute_error() -> object:
    return None.name  # type: ignore[attr-defined]


def name_error() -> object:
    return undefined  # type: ignore[name-defined]  # noqa: F821


def assertion_error() -> object:
    assert not object()
    return None


def import_error() -> object:
    import no_such_module  # type: ignore[import-not-found]

    return no_such_module


def not_implemented() -> object:
    raise NotImplementedError


def recursion() -> object:
    return recursion()


def unicode_error() -> object:
    return "ü".encode("ascii")


def not_encodable() -> object:
    return json.dumps(object())


def no_file() -> object:
    return open("/no/such/file")  # noqa: PTH123


def bad_url() -> object:
    return httpx2.Client().get(7)  # type: ignore[arg-type]


def no_number() -> object:
    return int("abc")


def negative_timeout() -> object:
    return requests.get("http://127.0.0.1:9/", timeout=-1)


def overflow() -> object:
    return 10.0**400


def empty() -> object:
    return next(iter([]))


OWN: list[Callable[[], object]] = [
    key_error, type_error, wrong_arguments, index_error, attribute_error, name_error, assertion_error, import_error,
    not_implemented, recursion, unicode_error, not_encodable, no_file, bad_url,
    no_number, negative_timeout, overflow, empty,
]  # fmt: skip


def invalid_url() -> object:
    return httpx2.get("http://[::1/")


def missing_schema() -> object:
    return requests.get("nope.invalid")


def invalid_header() -> object:
    return requests.get("http://127.0.0.1:9/", headers={"a": "b\nc"})


def wrong_certificate() -> object:
    return ssl.create_default_context(cafile=__file__)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (invalid_url, "bad_address"), (missing_schema, "bad_address"), (invalid_header, "bad_request"),
    (wrong_certificate, "network"),
]  # fmt: skip


def not_json() -> object:
    return httpx2.Response(200, content=b"{'no': json}").json()


def not_text() -> object:
    return httpx2.Response(200, content=b"\xff\xfe\xff").json()


def nested() -> object:
    return json.loads("[" * 200_000)


def in_a_library() -> object:
    """As if a client library read a field that the response does not have."""
    code = compile("def read():\n    return {}['items']", f"{sysconfig.get_path('purelib')}/client.py", "exec")
    names: dict[str, Any] = {"__name__": "spotipy.client"}
    exec(code, names)
    return names["read"]()


THEIRS: list[Callable[[], object]] = [not_json, not_text, nested, in_a_library]


def raised(fn: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        fn()
    return caught.value


@pytest.mark.parametrize("fn", OWN)
def test_an_own_bug_is_neither_counted_nor_held_nor_repeated(fn: Callable[[], object]) -> None:
    scene = Scene(profile="requests")
    calls: list[int] = []

    def broken() -> object:
        calls.append(1)
        return fn()

    guarded = scene.target.guard(retry=3)(broken)
    error = [raised(guarded) for _ in range(20)][-1]

    assert len(calls) == 20
    assert scene.target.unhealthy() == []
    assert scene.target.breaker is not None
    assert (scene.target.breaker.state, scene.target.breaker.counts.failures) == ("closed", 0)
    assert len(scene.events) == 0
    fault = fault_of(error)
    assert fault is not None
    assert (fault.own_bug, fault.code, fault.retriable) == (True, "unexpected", True)


@pytest.mark.parametrize(("fn", "code"), REFUSED)
@pytest.mark.parametrize("key", [None, 7])
def test_a_request_that_no_client_can_send_is_a_bug_of_the_program(
    fn: Callable[[], object], code: str, key: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(profile="requests")
    errors = [raised(scene.target.key(key).guard(retry=3)(fn)) for _ in range(20)]

    fault = fault_of(errors[-1])
    assert fault is not None
    assert (fault.own_bug, fault.code, fault.counts_as_failure, fault.unclassified) == (True, code, None, False)
    assert (scene.holds(key=key), scene.target.unhealthy(), len(scene.events)) == ([], [], 0)
    assert own_bugs_logged(caplog) == 1


@pytest.mark.req("SYNC-01")
@pytest.mark.parametrize(("fn", "code"), REFUSED)
def test_profile_sync_holds_the_key_of_such_a_request(fn: Callable[[], object], code: str) -> None:
    scene = Scene(profile="sync")
    raised(scene.target.key(7).guard()(fn))

    assert [each.fault.code for each in scene.target.unhealthy() if each.fault] == (
        [] if code == "bad_request" else [code]
    )


@pytest.mark.parametrize("fn", [fn for fn, _ in REFUSED])
def test_a_rule_of_faults_gives_such_a_request_another_meaning(fn: Callable[[], object]) -> None:
    scene = Scene(profile="requests", faults={Exception: "upstream_failure"})
    for _ in range(5):
        raised(scene.target.guard()(fn))
    assert scene.holds(key=None) == ["breaker"]


@pytest.mark.parametrize("fn", THEIRS)
def test_what_a_client_library_raises_while_it_reads_a_response_is_the_services(fn: Callable[[], object]) -> None:
    scene = Scene(profile="requests")
    error = [raised(scene.target.guard()(fn)) for _ in range(5)][-1]

    fault = fault_of(error)
    assert fault is not None
    assert not fault.own_bug
    assert scene.target.breaker is not None
    assert scene.target.breaker.state == "open"


def test_an_own_bug_is_logged_once_with_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(profile="requests")
    with caplog.at_level(logging.WARNING, "tidegate.target"):
        for _ in range(5):
            raised(scene.target.guard()(key_error))

    lines = [record for record in caplog.records if "own_bug" in record.getMessage()]
    assert len(lines) == 1
    assert "faults=" in lines[0].getMessage()


def own_bugs_logged(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.getMessage().startswith("own_bug ") for record in caplog.records)


def test_one_bug_with_many_messages_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(profile="requests")

    @scene.target.guard()
    def look_up(user: int) -> int:
        return dict[int, int]()[user]

    with caplog.at_level(logging.WARNING, "tidegate.target"):
        for user in range(100):
            raised(lambda user=user: look_up(user))  # type: ignore[misc]
        assert own_bugs_logged(caplog) == 1
        raised(scene.target.guard()(attribute_error))
    assert own_bugs_logged(caplog) == 2


def test_a_bug_is_told_apart_by_operation_type_and_line(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(profile="requests")

    def either(first: bool) -> object:
        if first:
            return dict[str, int]()["user"]
        return dict[str, int]()["user"]

    with caplog.at_level(logging.WARNING, "tidegate.target"):
        for _ in range(3):
            for first in (True, False):
                for operation in ("recent", "plays"):
                    guarded = scene.target.guard(operation=operation)(either)
                    raised(lambda call=guarded, first=first: call(first))  # type: ignore[misc]
    assert own_bugs_logged(caplog) == 4


def test_after_many_bugs_a_new_one_is_still_logged(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(profile="requests")
    with caplog.at_level(logging.WARNING, "tidegate.target"):
        for number in range(200):
            raised(scene.target.guard(operation=f"operation {number}")(key_error))
    assert own_bugs_logged(caplog) == 200


def test_a_rule_of_faults_overrides() -> None:
    scene = Scene(profile="requests", faults={KeyError: "upstream_failure"})
    for _ in range(5):
        raised(scene.target.guard()(key_error))
    assert scene.target.breaker is not None
    assert scene.target.breaker.state == "open"

    own = Scene(profile="requests", faults={ConnectionError: None})

    def refused() -> None:
        raise ConnectionRefusedError

    for _ in range(5):
        raised(own.target.guard()(refused))
    assert own.target.breaker is not None
    assert (own.target.breaker.state, own.target.unhealthy()) == ("closed", [])


def test_an_old_answer_does_not_hide_an_own_bug() -> None:
    scene = Scene(profile="requests", when_open="serve-stale")
    answers: list[Callable[[], object]] = [lambda: "fresh", key_error]

    @scene.target.guard()
    def recent() -> object:
        return answers.pop(0)()

    assert recent() == "fresh"
    assert isinstance(raised(recent), KeyError)


def test_an_own_bug_in_a_half_open_trial_gives_its_place_back() -> None:
    scene = Scene(profile="requests", breaker={"max_requests": 1})
    assert scene.target.breaker is not None
    scene.target.breaker.force("open", scene.clock.now() + 1)
    scene.clock.advance(1)

    raised(scene.target.guard()(key_error))
    assert scene.target.breaker.state == "half-open"
    assert scene.call("ok", key=None) == "ok"
    assert scene.target.breaker.state == "closed"


@pytest.mark.req("SYNC-01", "SYNC-07")
def test_profile_sync_counts_an_own_bug_towards_its_own_retries() -> None:
    scene = Scene(profile="sync", breaker={"consecutive": 1})
    raised(scene.target.key(7).guard(operation="recent")(key_error))

    assert scene.holds() == ["backoff"]
    assert scene.target.breaker is not None
    assert scene.target.breaker.state == "closed", "it says nothing about the service"


def test_an_exception_that_was_never_raised_is_not_known_to_be_a_bug() -> None:
    assert not is_own_bug(KeyError("user"))
    fault = classify(KeyError("user"))
    assert fault is not None
    assert (fault.rule, fault.counts_as_failure) == ("unknown", True)


class ConfigError(ValueError):
    pass


class ApiError(Exception):
    pass


@pytest.mark.req("SYNC-02", "SYNC-03")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("timeout must be positive"), "unexpected"),
        (ConfigError("timeout must be positive"), "unexpected"),
        (LookupError("connection refused"), "unexpected"),
        (ApiError("timeout of the upstream"), "timeout"),
        (RuntimeError("spotify API returned status 403"), "forbidden"),
        (httpx2.HTTPError("HTTP Error 503"), "overloaded"),
    ],
)
def test_texts_are_read_only_where_the_class_says_nothing_or_speaks_of_the_network(error: Exception, code: str) -> None:
    fault = classify(error)
    assert fault is not None
    assert fault.code == code
    assert has_readable_text(error) is (code != "unexpected")


ACME = """
import json

class Client:
    def track(self, body):
        return json.loads(body)["track"]["name"]

    def first(self, body):
        return json.loads(body)[0]

    def build_request(self, name):
        return "/tracks/" + name
"""


@pytest.fixture
def acme() -> Iterator[Any]:
    """A client library that nobody knows."""
    module = ModuleType("acme_tracks")
    exec(compile(ACME, "acme_tracks/__init__.py", "exec"), module.__dict__)
    yield module.Client()
    attribution._WRAPPED.discard("acme_tracks")  # noqa: SLF001 - nobody unwraps a client
    attribution._roles.clear()  # noqa: SLF001


@pytest.mark.parametrize(
    ("method", "given"), [("track", "{}"), ("track", "[]"), ("track", "<html>"), ("first", "[]"), ("first", "{}")]
)
def test_a_wrapped_client_that_cannot_read_a_response_is_a_failure_of_the_service(
    acme: Any, method: str, given: str
) -> None:
    scene = Scene(profile="requests")
    client = scene.target.wrap(acme)
    for _ in range(5):
        with pytest.raises((LookupError, TypeError, ValueError)):
            getattr(client, method)(given)

    assert scene.holds(key=None) == ["breaker"]


def test_what_the_program_gives_a_wrapped_client_by_mistake_stays_a_bug(acme: Any) -> None:
    scene = Scene(profile="requests")
    client = scene.target.wrap(acme)
    for call in (client.track, lambda: client.build_request(None)):
        with pytest.raises(TypeError):
            call()

    assert scene.events.of("call_failed") == []


def test_a_client_of_the_program_itself_is_not_a_library() -> None:
    scene = Scene(profile="requests")

    class Own:
        def track(self) -> object:
            return key_error()

    with pytest.raises(KeyError):
        scene.target.wrap(Own()).track()
    assert scene.events.of("call_failed") == []
