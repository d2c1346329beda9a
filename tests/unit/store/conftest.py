from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.unit.store.combining import Recorder
from tidegate.errors import StoreError
from tidegate.store.group_commit import GroupCommit


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def combiner(recorder: Recorder) -> Iterator[GroupCommit]:
    found = GroupCommit(recorder)
    yield found
    assert not recorder.in_transaction
    with contextlib.suppress(StoreError):  # it was closed
        assert found.run(lambda: "still works") == "still works"
