"""What a claim costs when there is much to claim from."""

from __future__ import annotations

import time

from bench.row import Row
from tidegate import Queue
from tidegate.jobs import claim
from tidegate.store.sql import Dialect, compiled

_FEW, _MANY, _CLAIM, _TIMES = 10_000, 1_000_000, 50, 20
_MOST = 1.5  # times what it costs among few
_COLUMNS = "queue, kind, state, created_at, due_at, args, most_attempts"
_VALUES = "'grown', 'grown', 'ready', 1, 1, '1', 3"
_FILL = {
    Dialect.SQLITE: f"with recursive n(i) as (select 1 union all select i + 1 from n where i < :n) "
    f"insert into tg_job ({_COLUMNS}) select {_VALUES} from n",
    Dialect.POSTGRES: f"insert into tg_job ({_COLUMNS}) select {_VALUES} from generate_series(1, :n)",
}


def claim_row(queue: Queue, what: str) -> Row:
    """The best claim of many among a million jobs against one among ten thousand. The jobs stay."""
    store = queue.store
    store.add([compiled("grow", _FILL[store.dialect], store.dialect)])
    found = []
    for slices in (1, _MANY // _FEW - 1):
        for _ in range(slices):
            store.write(lambda tx: tx.query("grow", {"n": _FEW}))
        if store.dialect is Dialect.POSTGRES:
            store.write(lambda tx: tx.execute("analyze tg_job"))
        found.append(min(_claim(queue) for _ in range(_TIMES)))
    few, many = found
    text = f"{many * 1000:.1f} ms, {many / few:.2f}x of {_FEW:,} rows"
    return Row(f"{what}, claim of {_CLAIM} among {_MANY:,} rows", text, f"<= {_MOST:g}x", many <= _MOST * few)


def _claim(queue: Queue) -> float:
    lane = claim.ReadyKey("grown", "", "")
    began = time.perf_counter()
    taken = queue.store.write(lambda tx: claim.claim(tx, lane, _CLAIM, "bench", 30))
    took = time.perf_counter() - began
    assert len(taken) == _CLAIM
    return took
