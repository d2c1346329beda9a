"""The numbers on the page of guarantees are those of the code and of the tests that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.planted_secrets import INPUTS
from tests.acceptance.test_sign_in_flood import CLIENTS
from tests.chaos.campaign import WORKERS
from tests.chaos.orders import LEASE
from tests.chaos.schedule import KINDS
from tests.web.api.test_local_trust import HOSTS, PEERS, PROXY_HEADERS, spellings
from tidegate.web import connections
from tidegate.web.connections import FRAMING_PER_BYTE, ConnectionTimeouts
from tools.figures import without_blocks

WORDS = {"four": 4, "five": 5, "a minute": 60}
PAGE = without_blocks((Path(__file__).parents[3] / "docs/explanation/promises.md").read_text(encoding="utf-8"))
LIMITS = ConnectionTimeouts()


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        (r"try (\d+) headers of proxies", [len(PROXY_HEADERS)]),
        (r"in (\w+) spellings each, (\d+) Host headers, (\d+) peers", [len(spellings("A-B")), len(HOSTS), len(PEERS)]),
        (r"from (\d+) addresses at a time", [CLIENTS]),
        (r"put into each of (\d+) inputs", [len(INPUTS)]),
        (r"a secret in each of (\d+) inputs", [len(INPUTS)]),
        (r"head of a request takes more than (\d+) s", [LIMITS.head]),
        (
            r"After (\d+) s, a body arrives with less than (\d+) kB/s, or a response is read with less than (\d+) kB/s",
            [LIMITS.grace, LIMITS.rate / 1000, LIMITS.read_rate / 1000],
        ),
        (r"Head and trailers have more than (\d+) kB", [LIMITS.max_head_bytes / 1024]),
        (r"more than (\d+) kB plus (\d+) bytes for each byte", [LIMITS.max_head_bytes / 1024, FRAMING_PER_BYTE]),
        (r"does not take after (a minute)", [connections.UNREAD_SECONDS]),
        (r"reads on for up to (\d+) s", [LIMITS.hear_out]),
        (r"runs (\w+) real `tidegate worker` processes", [WORKERS]),
        (r"their lease, which is (\d+) s here", [LEASE]),
        (r"nothing on for up to (\d+) s", [KINDS["silence the wire"].most]),
    ],
)
def test_a_number_is_that_of_the_code(sentence: str, numbers: list[float]) -> None:
    found = re.search(sentence, " ".join(PAGE.split()))
    assert found is not None
    assert [WORDS.get(each) or float(each) for each in found.groups()] == numbers
