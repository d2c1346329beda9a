"""A large database in seconds, skewed like life: one kind has nearly all jobs, a rare code has 20, one target has 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

NOW = 1_800_000_000.0  # the moment after the last job


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many jobs have ended, how many have not, and how many targets there are."""

    ended: int = 1_000_000
    queued: int = 100_000
    targets: int = 1000

    @property
    def jobs(self) -> int:
        return self.ended + self.queued


RARE = 20  # jobs of the rare queue, kind and code
THREE = "three"  # the target of 3 jobs

# A part of the queued jobs are the newest of all, a part the oldest, the others lie in between.
_JOBS = """
insert into tg_job (queue, kind, target, lane, state, priority, created_at, due_at, args, attempt, most_attempts, fence,
    lease_by, lease_until, claimed_at, error_code, error_message, last_code, last_message, last_at, finished_at,
    parents, parents_open)
select queue, kind, target, 'lane' || (i % 40), state, i % 3, made_at,
    case when state = 'waiting' then {now} + i else made_at end,
    '{{"number": ' || i || ', "text": "as long as the arguments of a job usually are, or a little longer"}}',
    tried, 10, tried,
    case when state = 'running' then 'worker' || (i % 9) end,
    case when state = 'running' then {now} + 30 end,
    case when state = 'running' then {now} - 5 end,
    case when state = 'failed' then code end,
    case when state = 'failed' then 'It was refused.' end,
    code,
    case when code is not null then 'It was refused.' end,
    case when tried = 1 then made_at + 1 end,
    case when state in ('done', 'failed', 'cancelled') then made_at + 1 end,
    blocked, blocked
from (
    select i, queue, kind, target, state, {now} - ({n} - i) as made_at,
        case when state in ('blocked', 'waiting', 'ready') then 0 else 1 end as tried,
        case when state = 'blocked' then 1 else 0 end as blocked,
        case when state = 'failed' then coalesce(code, 'bad_request') else code end as code
    from (
        select i,
            case when i % {rare} = 7 then 'rare' when dice < 9700 then 'main' when dice < 9900 then 'mail'
                else 'queue' || (dice % 5) end as queue,
            case when i % {rare} = 11 then 'rare' when dice % 1000 < 990 then 'sync'
                else 'kind' || (dice % 12) end as kind,
            case when i % {three} = 13 then '{name}' when dice % 10 < 6 then 'target0' when dice % 10 = 6 then ''
                else 'target' || (i % {targets}) end as target,
            case when i % {rare} = 17 then 'rare_code' when dice % 100 < 8 then 'upstream_failure'
                when dice % 100 < 11 then 'timeout' when dice = 4711 then 'unexpected' end as code,
            case
                when i > {n} - {queued} / 2 or i <= {queued} / 5 or i % ({n} * 10 / {queued} / 3) = 0 then
                    case when i % 1000 = 3 then 'running' when i % 500 = 4 then 'blocked'
                        when i % 10 < 4 then 'waiting' else 'ready' end
                when dice % 200 = 1 then 'failed' when dice % 2000 = 2 then 'cancelled' else 'done'
            end as state
        from (select i, (i * 7919 + (i / 997) * 31) % 10007 as dice from {series}) as thrown
    ) as chosen
) as made
"""
_TARGETS = """
insert into tg_target (name, breaker, generation, breaker_since, breaker_until, counts, rules)
select case when i = {targets} then '{name}' else 'target' || i end,
    case when i % 100 = 1 then 'open' when i % 100 = 2 then 'half-open' else 'closed' end,
    case when i % 100 in (1, 2) then 1 else 0 end, {now} - 300, case when i % 100 = 1 then {now} + 60 end,
    case when i % 10 > 0 then '{{"buckets": [[1, 21, 2]], "run": 0, "good": 0}}' else '{{}}' end,
    '{{"behind": "hold", "breaker": {{"max_requests": 3, "open_for": 120}}, "concurrency": 4}}'
from {series}
"""
_HOLDS = """
insert into tg_hold (target, lane, reason, since, until, failed_at, failures, code, message)
select 'target' || (i % {targets}), 'key' || i,
    case i % 10 when 0 then 'fatal' when 1 then 'cooldown' when 2 then 'retry_after' else 'backoff' end,
    {now} - 100, case when i % 10 = 0 then null else {now} + i end, {now} - 100, 1 + i % 5,
    case i % 10 when 0 then 'unauthorized' else 'timeout' end, 'The service refused the credentials.'
from {series} where i % 20 < 2
"""
_TALLIES = "insert into tg_tally (queue, what, delta) select queue, state, count(*) from tg_job group by queue, state"
_EVENTS = """
insert into tg_gate_event (at, subject, name, kind, actor, fields)
select {now} - i, 'target', 'target' || (i % {targets}), 'breaker_state_changed', 'worker',
    '{{"from": "closed", "to": "open"}}'
from {series}
"""


class Runs(Protocol):
    """An open connection of either database."""

    def execute(self, sql: str) -> Any: ...


def fill(db: Runs, *, sqlite: bool, size: Size, now: float = NOW) -> None:
    """Jobs, targets, keys that are held, and the numbers that go with them. The schema must be there, and empty."""
    indexes = _indexes(db, sqlite=sqlite)
    for name, _ in indexes:
        db.execute(f"drop index {name}")
    values = {
        "now": now, "n": size.jobs, "queued": size.queued, "targets": size.targets, "name": THREE,
        "rare": size.jobs // RARE, "three": size.jobs // 3,
    }  # fmt: skip
    for sql, n in ((_JOBS, size.jobs), (_TARGETS, size.targets), (_HOLDS, 2000), (_EVENTS, 2000)):
        db.execute(sql.format(**values, series=_series(n, sqlite=sqlite)))
    for _, sql in indexes:
        db.execute(sql)
    db.execute(_TALLIES)


def _series(n: int, *, sqlite: bool) -> str:
    if not sqlite:
        return f"generate_series(1::bigint, {n}) as s(i)"
    return f"(with recursive s(i) as (select 1 union all select i + 1 from s where i < {n}) select i from s) as s"


def _indexes(db: Runs, *, sqlite: bool) -> list[tuple[str, str]]:
    """Made anew when the rows are there: ten times as quick."""
    if sqlite:
        found = "select name, sql from sqlite_master where type = 'index' and tbl_name = 'tg_job' and sql is not null"
    else:
        found = (
            "select indexname, indexdef from pg_indexes where tablename = 'tg_job' and schemaname = current_schema()"
            " and indexname not like '%_pkey'"
        )
    return [(row[0], row[1]) for row in db.execute(found).fetchall()]
