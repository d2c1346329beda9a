-- Settling attempts, and the effect on children.

-- name: settle
-- Settles attempts: done, failed, cancelled, or retried later, unless a user has requested a stop. A suspect whose
-- attempt finished is cleared. A released one is not: it did not run, or was stopped.
update tg_job set
    state = case when stop_asked = 1 and given.outcome in ('waiting', 'ready') then 'cancelled' else given.outcome end,
    due_at = coalesce({now} + given.wait, due_at),
    attempt = attempt - given.refund,
    suspect = case when given.outcome = 'ready' or given.refund = 1 then suspect else 0 end,
    result = given.result,
    error_code = case when given.outcome = 'failed' then given.code end,
    error_message = case when given.outcome = 'failed' then given.message end,
    last_code = coalesce(given.code, last_code),
    last_status = case when given.code is null then coalesce(given.status, last_status) else given.status end,
    last_message = coalesce(given.message, last_message),
    last_at = {now},
    finished_at = case when stop_asked = 1 or given.outcome in ('done', 'failed', 'cancelled') then {now} end,
    failure = case when given.outcome <> 'done' then failure end,
    lease_by = null, lease_until = null, claimed_at = null, stop_asked = 0
from {rows id bigint, fence bigint, outcome text, wait double precision, refund integer, result text, code text, status integer, message text}
where tg_job.id = given.id and tg_job.fence = given.fence and state || '' = 'running'
returning tg_job.id, tg_job.fence, tg_job.state, tg_job.children, tg_job.last_at;

-- name: attempt_events
-- One row per attempt, written when it ends. Its events are derived from it.
insert into tg_event (job, fence, seq, kind, at, attempt, began_at, code, status, message, actor)
select given.job, given.fence, 0, given.kind, {now}, given.attempt, given.began_at, given.code, given.status,
    given.message, given.actor
from {rows job bigint, fence bigint, kind text, attempt integer, began_at double precision, code text, status integer, message text, actor text}
where true
on conflict (job, fence, seq) do nothing;

-- name: action_events
-- Events of jobs outside of attempts, by users or the program. The jobs must be locked: the number of the next event is
-- derived from the existing ones.
insert into tg_event (job, fence, seq, kind, at, attempt, code, message, actor)
select job.id, job.fence, coalesce((select max(seq) from tg_event as e where e.job = job.id and e.fence = job.fence), 0) + 1,
    given.kind, {now}, job.attempt, given.code, given.message, given.actor
from tg_job as job join {rows id bigint, kind text, code text, message text, actor text} on job.id = given.id;

-- name: stale_results
-- Late results, one per attempt, however often they are sent. They wait only for a transaction that deletes the job, so
-- that no row remains.
insert into tg_event (job, fence, seq, kind, at, attempt, code, message, actor)
select job.id, given.fence, 1000000, 'stale_result', {now}, given.attempt, given.code, given.message, given.actor
from tg_job as job join {rows id bigint, fence bigint, attempt integer, code text, message text, actor text} on job.id = given.id
where true {not_removed}
on conflict (job, fence, seq) do nothing;

-- name: attempt_rows
-- How attempts were settled, if they were.
select event.job, event.fence, event.kind
from tg_event as event join {rows job bigint, fence bigint} on event.job = given.job and event.fence = given.fence
where event.seq = 0;

-- name: free_children
-- Children of done parents: decreases the count of open parents. A child without open parents is ready.
with freed as materialized (
    select link.child, count(*) as n from tg_link as link join {rows parent bigint} on link.parent = given.parent
    group by link.child
), kept_still as materialized (
    select id from tg_job where state = 'blocked' and id in (select child from freed) order by id {for_update}
)
update tg_job set
    parents_open = parents_open - n,
    state = case when parents_open > n then 'blocked' when due_at > {now} then 'waiting' else 'ready' end
from freed where tg_job.id = freed.child and state = 'blocked' and id in (select id from kept_still)
returning id, queue, state;

-- name: fail_children
-- Children of parents that will not be done, with the reason.
with orphaned as materialized (
    select link.child, min(given.why) as why from tg_link as link
    join {rows parent bigint, why text} on link.parent = given.parent
    group by link.child
), kept_still as materialized (
    select id from tg_job where state = 'blocked' and id in (select child from orphaned) order by id {for_update}
)
update tg_job set state = 'failed', parents_open = 0, last_at = {now}, finished_at = {now}, error_code = :code, last_code = :code,
    last_status = null, error_message = orphaned.why, last_message = orphaned.why
from orphaned where tg_job.id = orphaned.child and state = 'blocked' and id in (select id from kept_still)
returning id, queue, children, error_message, target, kind;
