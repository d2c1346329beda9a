"""The benchmark of feeds polls what it says it polls."""

from __future__ import annotations

import asyncio

from bench.feeds import Size, floor, ours, run, serving


def test_the_bare_loop_and_ours_find_the_same_feeds() -> None:
    size = Size(hosts=3, feeds=2, items=5)
    with serving(size) as urls:
        bare, own = asyncio.run(floor(urls)), asyncio.run(ours(urls))
        assert bare.entries == own.entries == 30
        assert bare.etags == own.etags
        assert len(set(bare.etags.values())) == len(urls) == 6
        again = asyncio.run(ours(urls, own.etags))
        assert (again.entries, again.unchanged) == (0, 6)


def test_every_row_has_a_number() -> None:
    rows = run(Size(hosts=2, feeds=1, items=3), rounds=1)
    assert len(rows) == 5
    assert all(row.found[0].isdigit() for row in rows)
