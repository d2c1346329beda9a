"""Existing clients behind a target: an adapter for requests, and a wrapper for any object with methods."""

from __future__ import annotations

import asyncio
import copy
import gzip
import pickle
from typing import Any, Self

import pytest
import requests

from tests.unit.faults.wire import answer, refused, resets, says, serving
from tests.unit.guard.scene import Answered, Scene, down, held
from tests.unit.guard.test_transport import BIG, FAILED
from tidegate import Held, fault_of, rules


def session(scene: Scene) -> requests.Session:
    made = requests.Session()
    made.mount("http://", scene.target.key(7).adapter())
    return made


@pytest.mark.parametrize(
    ("status", "reason"), [(200, None), (404, None), (401, "fatal"), (429, "backoff"), (500, "backoff")]
)
def test_an_adapter_records_the_status_and_passes_the_answer_on(status: int, reason: str | None) -> None:
    scene = Scene()
    with serving(says(answer(status, b"body"))) as url, session(scene) as client:
        assert client.get(url, timeout=60).content == b"body"

    assert scene.holds(operation="GET /path") == ([] if reason is None else [reason])


def test_an_adapter_follows_redirects_and_blames_nobody_for_them() -> None:
    scene = Scene()
    there_and_here = serving(says(answer(200, b"there")))
    with there_and_here as there, serving(says(answer(302, Location=there))) as here, session(scene) as client:
        assert client.get(here, timeout=60).content == b"there"
    assert len(scene.events) == 0


def test_an_adapter_sees_an_error_inside_a_200_and_a_body_that_breaks_off() -> None:
    scene = Scene(rules=rules.navidrome, confirm=())
    packed = gzip.compress(FAILED)
    with serving(says(answer(200, packed, Content_Encoding="gzip"))) as url, session(scene) as client:
        assert client.get(url, timeout=60).content == FAILED
    assert scene.holds() == ["fatal"]

    broken = Scene(concurrency=1)
    script = resets(answer(200, b"x", missing=99))
    with serving(script) as url, session(broken) as client, pytest.raises(requests.RequestException) as caught:
        client.get(url, timeout=60)
    assert fault_of(caught.value) is not None
    assert broken.holds() == ["backoff"]
    assert broken.room() == 1


def test_an_adapter_leaves_a_streamed_body_to_its_reader() -> None:
    scene = Scene(rules=rules.navidrome)
    with serving(says(answer(200, BIG))) as url, session(scene) as client:
        response = client.get(url, stream=True, timeout=60)
        assert b"".join(response.iter_content(1000)) == BIG
    assert len(scene.events) == 0


def test_an_adapter_records_a_refused_connection_and_holds_the_next_request() -> None:
    scene = Scene()
    with refused() as url, session(scene) as client:
        with pytest.raises(requests.ConnectionError):
            client.get(url, timeout=60)
        with pytest.raises(Held):
            client.get(url, timeout=60)


def test_an_adapter_is_one_around_any_other_and_refuses_what_is_none() -> None:
    inner = requests.adapters.HTTPAdapter(max_retries=3)
    made = Scene().target.adapter(inner)

    assert made.max_retries is inner.max_retries
    made.close()
    with pytest.raises(TypeError, match=r"^inner "):
        Scene().target.adapter(object())


# -- wrap --------------------------------------------------------------------------------------------------------------


class Api:
    """A client as people write them."""

    version = "2.1"

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.closed = False
        self.entered = 0

    def history(self, since: int, *, most: int = 10) -> tuple[int, int]:
        """The plays since then."""
        if self.error is not None:
            raise self.error
        return since, most

    async def ahistory(self, since: int) -> int:
        await asyncio.sleep(0)
        return self.history(since)[0]

    def _private(self) -> str:
        return "unguarded"

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *details: object) -> None:
        self.close()


def test_public_methods_of_either_colour_go_through_the_gates() -> None:
    scene, api = Scene(), Api()
    wrapped = scene.target.key(7).wrap(api)

    assert wrapped.history(5, most=2) == (5, 2)
    assert scene.clock.run(wrapped.ahistory(5)) == 5
    api.error = down()
    with pytest.raises(ConnectionRefusedError):
        wrapped.history(5)
    with held("backoff"):
        scene.clock.run(wrapped.ahistory(5))
    assert scene.events.assert_one("call_failed").operation == "history"


def test_everything_else_is_the_clients_own() -> None:
    scene, api = Scene(), Api()
    wrapped: Any = scene.target.wrap(api)
    scene.target.pause("1h")
    name = "_private"

    assert (wrapped.version, getattr(wrapped, name)()) == ("2.1", "unguarded")
    assert isinstance(wrapped, Api)
    wrapped.error = Answered(500)
    assert isinstance(api.error, Answered)
    del wrapped.error
    assert not hasattr(api, "error")
    assert "history" in dir(wrapped)
    assert repr(wrapped) == f"<{api!r} behind 'spotify'>"
    assert not hasattr(wrapped, "nothing")
    wrapped.close()
    assert api.closed, "a gate that is shut must not keep a program from cleaning up"


def test_a_method_keeps_its_identity_and_its_signature_and_a_replaced_one_is_seen() -> None:
    api = Api()
    wrapped: Any = Scene().target.wrap(api)

    assert wrapped.history is wrapped.history
    assert (wrapped.history.__name__, wrapped.history.__doc__) == ("history", "The plays since then.")
    before = wrapped.history
    wrapped.history = lambda since: (0, 0)
    assert wrapped.history is not before
    assert wrapped.history(5) == (0, 0)


def test_a_context_manager_gives_the_wrapper_and_not_the_bare_client() -> None:
    scene, api = Scene(), Api()
    wrapped = scene.target.wrap(api)
    with wrapped as entered:
        assert entered is wrapped

    async def main() -> None:
        async with wrapped as entered:
            assert entered is wrapped

    asyncio.run(main())
    assert (api.entered, api.closed) == (2, True)


def test_a_wrapper_goes_when_nobody_holds_it() -> None:
    import gc
    import weakref

    wrapped = Scene().target.wrap(Api())
    wrapped.history(5)
    gone = weakref.ref(wrapped)
    gc.disable()
    try:
        del wrapped
        assert gone() is None
    finally:
        gc.enable()


def test_a_copy_that_is_not_made_yet_has_no_attributes_and_no_recursion() -> None:
    from tidegate.guard.transports import Adapter
    from tidegate.guard.wrap import Wrapped

    for cls in (Adapter, Wrapped):
        assert not hasattr(cls.__new__(cls), "anything")


def test_a_callable_object_with_an_async_call_is_guarded_as_such() -> None:
    class Recent:
        async def __call__(self) -> str:
            raise down()

    scene = Scene()
    with pytest.raises(ConnectionRefusedError):
        scene.clock.run(scene.target.key(7).guard(operation="recent")(Recent())())
    assert scene.holds() == ["backoff"]


def test_a_copy_of_a_wrapped_client_is_behind_the_same_gates_and_a_pickle_of_one_says_why_not() -> None:
    scene, api = Scene(), Api()
    wrapped = scene.target.wrap(api)
    for copied in (copy.copy(wrapped), copy.deepcopy(wrapped)):
        copied.entered += 1
        assert (copied.entered, api.entered) == (1, 0), "the client was copied, too"
        assert copied.history(5) == (5, 10)

    copied.error = down()
    with pytest.raises(ConnectionRefusedError):
        copied.history(5)
    with pytest.raises(Held):
        wrapped.history(5)

    with pytest.raises(TypeError, match=r"\bpickle"):
        pickle.dumps(wrapped)
