-- Every statement of the core. Parameters are named; :now is a number on SQLite and may be null on PostgreSQL, where
-- the server's clock then counts. Whatever is written under a lease names id, fence and state: no row means it is lost.
--
-- Where rows are named by their ids, the state stands as `state || ''`. PostgreSQL would else read all that are in that
-- state, once for each id: it plans with the numbers of a while ago, when perhaps there were none.

-- name: enqueue
-- New jobs; a twin that holds the same unique leaves no row.
insert into tg_job ({job}queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args, most_attempts,
                    unique_key, unique_while, parents, parents_open, cancellable)
select {job_number}given.queue, given.kind, given.target, given.lane,
       case when given.parents_open > 0 then 'blocked' when given.due_at > {now} then 'waiting' else 'ready' end,
       given.priority, {now}, coalesce(given.due_at, {now}), given.expires_at, given.args, given.most_attempts,
       given.unique_key, given.unique_while, given.parents, given.parents_open, given.cancellable
from {rows queue text, kind text, target text, lane text, priority integer, due_at double precision, expires_at double precision, args text, most_attempts integer, unique_key text, unique_while integer, parents integer, parents_open integer, cancellable integer}
where true
on conflict (kind, unique_key) where unique_key is not null and (unique_while & (case state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0
do nothing
returning id, kind, unique_key, state;

-- name: enqueue_one
-- One new job that has neither a twin nor parents, as most have.
insert into tg_job ({job}queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args, most_attempts,
                    cancellable)
values ({job_number}:queue, :kind, :target, :lane,
        case when cast(:due_at as double precision) > {now} then 'waiting' else 'ready' end,
        :priority, {now}, coalesce(:due_at, {now}), :expires_at, :args, :most_attempts, :cancellable)
returning id, state;

-- name: twins
-- The jobs that hold these uniques.
select job.id, job.kind, job.unique_key
from tg_job as job join {rows kind text, unique_key text} on job.kind = given.kind and job.unique_key = given.unique_key
where job.unique_key is not null and (job.unique_while & (case job.state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0;

-- name: refuse
-- A job that failed at intake; it holds no unique.
insert into tg_job ({job}queue, kind, target, lane, state, priority, created_at, due_at, args, most_attempts, error_code,
                    error_message, last_code, last_message, last_at, finished_at)
values ({job_number}:queue, :kind, :target, :lane, 'failed', 0, {now}, {now}, :args, :most_attempts, :code,
        :message, :code, :message, {now}, {now})
returning id;

-- name: parents
-- Would-be parents, kept still until the child is linked; in order, so that two intakes do not meet crosswise.
select job.id, job.state from tg_job as job join {rows id bigint} on job.id = given.id order by job.id {for_update};

-- name: adopt_children
-- So many more children of each parent.
update tg_job set children = children + given.n from {rows id bigint, n integer} where tg_job.id = given.id;

-- name: link
insert into tg_link (parent, child) select given.parent, given.child from {rows parent bigint, child bigint} where true
on conflict (parent, child) do nothing;

-- name: fronts
-- Every queue and target with ready jobs, of the queues that are wanted: one look into the index for each, and what
-- stands before it. :queues has :sep before, between and behind its names.
with recursive front (queue, target, n) as (
    select queue, target, 1 from (
        select queue, target from tg_job where state = 'ready' order by queue, target limit 1
    ) as first_front
    union all
    select following.queue, following.target, front.n + 1
    from front join tg_job as following on following.id = case
        when replace(:queues, :sep || front.queue || :sep, '') = :queues then (
            select job.id from tg_job as job where job.state = 'ready' and job.queue > front.queue
            order by job.queue, job.target limit 1
        )
        else coalesce((
            select job.id from tg_job as job
            where job.state = 'ready' and job.queue = front.queue and job.target > front.target
            order by job.target limit 1
        ), (
            select job.id from tg_job as job where job.state = 'ready' and job.queue > front.queue
            order by job.queue, job.target limit 1
        ))
        end
    where front.n < :most
)
select front.queue, front.target, queue.paused_until, target.paused_until, target.breaker, target.breaker_until
from front
left join tg_queue as queue on queue.name = front.queue
left join tg_target as target on target.name = front.target
where replace(:queues, :sep || front.queue || :sep, '') <> :queues
order by front.n;

-- name: lanes
-- The next lanes of a queue and a target that have ready jobs, one look into the index for each, and what holds them.
-- :fresh = 1 begins with the first lane, whatever :after says.
with recursive lane_of (lane, n) as (
    select case when :fresh = 1 then (
        select job.lane from tg_job as job
        where job.state = 'ready' and job.queue = :queue and job.target = :target
        order by job.lane limit 1
    ) else (
        select job.lane from tg_job as job
        where job.state = 'ready' and job.queue = :queue and job.target = :target and job.lane > :after
        order by job.lane limit 1
    ) end, 1
    union all
    select (
        select job.lane from tg_job as job
        where job.state = 'ready' and job.queue = :queue and job.target = :target and job.lane > lane_of.lane
        order by job.lane limit 1
    ), lane_of.n + 1
    from lane_of where lane_of.lane is not null and lane_of.n < :most
)
select lane_of.lane, hold.reason, hold.until
from lane_of left join tg_hold as hold
    on hold.target = :target and hold.lane = lane_of.lane and hold.operation = '' and hold.reason <> 'open'
where lane_of.lane is not null
order by lane_of.n;

-- name: only_lane
-- The first and the last lane of a queue and a target with ready jobs, and what holds the first.
select ends.first, ends.last, hold.reason, hold.until
from (
    select (
        select job.lane from tg_job as job
        where job.state = 'ready' and job.queue = :queue and job.target = :target
        order by job.lane limit 1
    ) as first, (
        select job.lane from tg_job as job
        where job.state = 'ready' and job.queue = :queue and job.target = :target
        order by job.lane desc limit 1
    ) as last
) as ends left join tg_hold as hold
    on hold.target = :target and hold.lane = ends.first and hold.operation = '' and hold.reason <> 'open';

-- name: pick
-- Ready jobs of one lane, the most urgent and then the oldest first; one that is too old to be of use stays.
select id from tg_job
where state = 'ready' and queue = :queue and target = :target and lane = :lane
    and (expires_at is null or expires_at > {now}) and id <= :newest
order by priority desc, id limit :n {skip_locked};

-- name: claim
-- Takes what was picked.
update tg_job set state = 'running', attempt = attempt + 1, fence = fence + 1, lease_by = :worker,
    lease_until = {now} + :lease, claimed_at = {now}
from {rows id bigint}
where tg_job.id = given.id and tg_job.state || '' = 'ready'
returning tg_job.id, queue, kind, target, lane, priority, attempt, most_attempts, deaths, fence, lease_until, claimed_at,
    args, saved, parents, children, created_at, expires_at, last_code;

-- name: renew
-- Longer leases. It waits for nobody: who holds a row for a moment must not cost a worker all its leases.
with mine as materialized (
    select job.id from tg_job as job join {rows id bigint, fence bigint} on job.id = given.id and job.fence = given.fence
    where job.state || '' = 'running' {skip_locked}
)
update tg_job set lease_until = {now} + :lease from mine where tg_job.id = mine.id
returning tg_job.id, lease_until, stop_asked;

-- name: still_mine
-- Leases that were not renewed because somebody held the row; an id that does not come back is lost.
select job.id, job.lease_until, job.stop_asked
from tg_job as job join {rows id bigint, fence bigint} on job.id = given.id and job.fence = given.fence
where job.state || '' = 'running';

-- name: stop_asked
-- Jobs of this worker that a person wants stopped.
select id from tg_job where state = 'running' and lease_by = :worker and stop_asked = 1;

-- name: newest
select coalesce(max(id), 0) from tg_job;

-- name: ready_after
-- How many jobs became ready that came after a moment.
select count(*) from tg_job where state = 'ready' and queue = :queue and id > :newest;

-- name: save
-- What a handler keeps for its next attempt.
update tg_job set saved = :saved where id = :id and fence = :fence and state || '' = 'running' returning id;

-- name: settle
-- Ends attempts: done, failed, cancelled, or again at a later time, unless a person has asked to stop it.
update tg_job set
    state = case when stop_asked = 1 and given.outcome in ('waiting', 'ready') then 'cancelled' else given.outcome end,
    due_at = coalesce({now} + given.wait, due_at),
    attempt = attempt - given.refund,
    result = given.result,
    error_code = case when given.outcome = 'failed' then given.code end,
    error_message = case when given.outcome = 'failed' then given.message end,
    last_code = coalesce(given.code, last_code),
    last_status = coalesce(given.status, last_status),
    last_message = coalesce(given.message, last_message),
    last_at = {now},
    finished_at = case when stop_asked = 1 or given.outcome in ('done', 'failed', 'cancelled') then {now} end,
    failure = case when given.outcome <> 'done' then failure end,
    lease_by = null, lease_until = null, claimed_at = null, stop_asked = 0
from {rows id bigint, fence bigint, outcome text, wait double precision, refund integer, result text, code text, status integer, message text}
where tg_job.id = given.id and tg_job.fence = given.fence and state || '' = 'running'
returning tg_job.id, tg_job.fence, tg_job.state, tg_job.children, tg_job.last_at;

-- name: attempt_events
-- One row per attempt, written when it ends; its events are read back from it.
insert into tg_event (job, fence, seq, kind, at, attempt, began_at, code, status, message, actor)
select given.job, given.fence, 0, given.kind, {now}, given.attempt, given.began_at, given.code, given.status,
    given.message, given.actor
from {rows job bigint, fence bigint, kind text, attempt integer, began_at double precision, code text, status integer, message text, actor text}
where true
on conflict (job, fence, seq) do nothing;

-- name: action_events
-- What a person or the program did to jobs, beside their attempts. The rows of the jobs must be locked by now: the
-- number of the next event is read off those that are there.
insert into tg_event (job, fence, seq, kind, at, attempt, code, message, actor)
select job.id, job.fence, coalesce((select max(seq) from tg_event as e where e.job = job.id and e.fence = job.fence), 0) + 1,
    given.kind, {now}, job.attempt, given.code, given.message, given.actor
from tg_job as job join {rows id bigint, kind text, code text, message text, actor text} on job.id = given.id;

-- name: stale_results
-- Results that came too late, beside the attempt they belong to: one each, however often they are sent. They wait only
-- for somebody who removes the job, so that nothing is left of it.
insert into tg_event (job, fence, seq, kind, at, attempt, code, message, actor)
select job.id, given.fence, 1000000, 'stale_result', {now}, given.attempt, given.code, given.message, given.actor
from tg_job as job join {rows id bigint, fence bigint, attempt integer, code text, message text, actor text} on job.id = given.id
where true {not_removed}
on conflict (job, fence, seq) do nothing;

-- name: attempt_rows
-- How attempts were ended, if they were.
select event.job, event.fence, event.kind
from tg_event as event join {rows job bigint, fence bigint} on event.job = given.job and event.fence = given.fence
where event.seq = 0;

-- name: tally
insert into tg_tally (queue, what, delta) select given.queue, given.what, given.delta
from {rows queue text, what text, delta bigint} where true;

-- name: tally_one
insert into tg_tally (queue, what, delta) values (:queue, :what, 1);

-- name: tallies
select queue, what, sum(delta) from tg_tally group by queue, what;

-- name: tally_take
-- In one statement: what another transaction appends meanwhile must not vanish between a sum and a delete.
delete from tg_tally returning queue, what, delta;

-- name: promote
-- Waiting jobs whose time has come.
with due as materialized (
    select id from tg_job where state = 'waiting' and due_at <= {now} order by due_at limit :n {skip_locked}
)
update tg_job set state = 'ready' from due where tg_job.id = due.id and tg_job.state || '' = 'waiting' returning queue;

-- name: next_due
select min(due_at) from tg_job where state = 'waiting';

-- name: lost_leases
-- Attempts whose worker has not been heard of in time.
select id, queue, fence, attempt, most_attempts, claimed_at, lease_by, deaths, stop_asked, children, kind from tg_job
where state = 'running' and lease_until < {now} order by lease_by limit :n {skip_locked};

-- name: take_back
-- The job of a lost attempt: ready again, or ended.
update tg_job set
    state = given.outcome,
    deaths = deaths + 1,
    error_code = given.code,
    error_message = given.message,
    last_code = coalesce(given.code, last_code), last_message = coalesce(given.message, last_message), last_at = {now},
    finished_at = case when given.outcome <> 'ready' then {now} end,
    lease_by = null, lease_until = null, claimed_at = null, stop_asked = 0
from {rows id bigint, fence bigint, outcome text, code text, message text}
where tg_job.id = given.id and tg_job.fence = given.fence and state || '' = 'running' and lease_until < {now}
returning tg_job.id, target, kind;

-- name: mine
-- Jobs that this worker holds, to find those whose claim was not heard of.
select id, queue, kind, target, lane, priority, attempt, most_attempts, deaths, fence, lease_until, claimed_at,
    args, saved, parents, children, created_at, expires_at, last_code
from tg_job where state = 'running' and lease_by = :worker;

-- name: too_old
-- Queued jobs that are too old to be of use.
select id, queue, state, children from tg_job
where expires_at is not null and state in ('blocked', 'waiting', 'ready') and expires_at <= {now}
order by expires_at limit :n {skip_locked};

-- name: fail_queued
-- Ends queued jobs that will not be tried.
update tg_job set state = 'failed', parents_open = 0, error_code = :code, error_message = :message, last_code = :code,
    last_message = :message, last_at = {now}, finished_at = {now}
from {rows id bigint} where tg_job.id = given.id and state in ('blocked', 'waiting', 'ready')
returning tg_job.id, target, kind;

-- name: free_children
-- Children of parents that are done: so many open parents less, and ready when none is left.
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
-- Children of parents that will not be done.
with orphaned as materialized (
    select link.child, min(link.parent) as parent from tg_link as link join {rows parent bigint} on link.parent = given.parent
    group by link.child
), kept_still as materialized (
    select id from tg_job where state = 'blocked' and id in (select child from orphaned) order by id {for_update}
)
update tg_job set state = 'failed', parents_open = 0, last_at = {now}, finished_at = {now}, error_code = :code, last_code = :code,
    error_message = 'Job ' || orphaned.parent || ', which it waits for, has failed.',
    last_message = 'Job ' || orphaned.parent || ', which it waits for, has failed.'
from orphaned where tg_job.id = orphaned.child and state = 'blocked' and id in (select id from kept_still)
returning id, queue, children, error_message, target, kind;

-- name: siblings
-- All parents of the children of these parents, kept still while it is counted how many of them are open.
select id, state from tg_job where id in (
    select other.parent from tg_link as link join {rows parent bigint} on link.parent = given.parent
    join tg_link as other on other.child = link.child
) order by id {for_update};

-- name: revive_children
-- Children that failed only because of parents that are tried again; not if another parent has failed, nor if a twin has
-- taken the place.
update tg_job set state = 'blocked', error_code = null, error_message = null, finished_at = null,
    expires_at = null,
    parents_open = (
        select count(*) from tg_link as link join tg_job as parent on parent.id = link.parent
        where link.child = tg_job.id and parent.state <> 'done'
    )
where state = 'failed' and error_code = :code
    and id in (select link.child from tg_link as link join {rows parent bigint} on link.parent = given.parent)
    and not exists (
        select 1 from tg_link as link join tg_job as parent on parent.id = link.parent
        where link.child = tg_job.id and parent.state in ('failed', 'cancelled')
    )
    and not exists (
        select 1 from tg_job as twin where twin.kind = tg_job.kind and twin.unique_key = tg_job.unique_key and twin.id <> tg_job.id
        and twin.unique_key is not null and (twin.unique_while & (case twin.state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0
    )
returning id, queue, children;

-- name: free_unique
-- A final job gives up its place: another one like it may come.
update tg_job set unique_key = null, unique_while = 0
where id = :id and unique_key is not null and state in ('done', 'failed', 'cancelled')
returning id;

-- name: parent_results
select link.child, parent.id, parent.kind, parent.result
from tg_link as link join tg_job as parent on parent.id = link.parent
where link.child = :child order by parent.id;

-- name: job
select id, queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args, attempt, most_attempts,
    deaths, fence, lease_by, lease_until, claimed_at, stop_asked, saved, result, error_code, error_message, last_code,
    last_status, last_message, last_at, finished_at, unique_key, unique_while, parents_open, children, manual_retries,
    cancellable
from tg_job where id = :id;

-- name: events
select kind, at, attempt, fence, began_at, code, status, message, actor from tg_event
where job = :job order by fence, seq;

-- name: open_parents
select parent.id, parent.state from tg_link as link join tg_job as parent on parent.id = link.parent
where link.child = :child and parent.state <> 'done' order by parent.id;

-- name: parents_of
-- The parents of a job, kept still.
select id, state from tg_job where id in (select parent from tg_link where child = :child) order by id {for_update};

-- name: job_state
-- A job that is about to be changed by a person, kept still.
select queue, state, children, cancellable,
    exists (select 1 from tg_event as e where e.job = tg_job.id and e.kind in ('refused', 'barred'))
from tg_job where id = :id {for_update};

-- name: doable
-- What decides which actions a person is offered.
select job.id, job.state, job.cancellable,
    exists (select 1 from tg_event as e where e.job = job.id and e.kind in ('refused', 'barred'))
from {rows id bigint} join tg_job as job on job.id = given.id;

-- name: retry
-- A failed job, by a person: attempts restart, history and fence stay, and it is of use however old it is.
update tg_job set state = case when :parents_open > 0 then 'blocked' else 'ready' end, parents_open = :parents_open,
    attempt = 0, deaths = 0, due_at = {now}, expires_at = null, error_code = null,
    error_message = null, finished_at = null, manual_retries = manual_retries + 1
where id = :id and state in ('failed', 'cancelled')
returning state;

-- name: bring_forward
-- A job whose next attempt is due later, by a person: it may go now.
update tg_job set state = 'ready', due_at = {now} where id = :id and state = 'waiting' returning queue;

-- name: first_ready
-- The job of a lane that is claimed next.
select id from tg_job where state = 'ready' and queue = :queue and target = :target and lane = :lane
order by priority desc, id limit 1;

-- name: retrying_of
-- Jobs of a target that wait for their next attempt after a failure, the next one first.
select id, lane from tg_job
where state = 'waiting' and target = :target and attempt > 0 and last_code is not null
    and (:any_lane = 1 or lane = :lane)
order by due_at, id limit :n;

-- name: cancel_waiting
update tg_job set state = 'cancelled', parents_open = 0, finished_at = {now}
where id = :id and state in ('blocked', 'waiting', 'ready') returning id;

-- name: cancel_running
update tg_job set stop_asked = 1 where id = :id and state || '' = 'running' returning lease_by;

-- name: forget
-- Removes final jobs and frees their uniques.
delete from tg_job where id in (select id from {rows id bigint}) and state in ('done', 'failed', 'cancelled')
returning id, queue, state, children;

-- name: forgotten
-- So that no later job gets the number of one that is gone.
insert into tg_store (name, value) values ('forgotten', :id)
on conflict (name) do update set value = excluded.value where cast(tg_store.value as bigint) < cast(excluded.value as bigint);

-- name: forget_events
delete from tg_event where job in (select id from {rows id bigint});

-- name: forget_children
delete from tg_link where parent in (select id from {rows id bigint});

-- name: forget_parents
delete from tg_link where child in (select id from {rows id bigint});

-- name: old_jobs
-- Final jobs past their retention, a slice at a time.
select id from tg_job where finished_at is not null and queue = :queue and state = :state and finished_at < :before
order by finished_at limit :n;

-- name: target
select name, paused_at, paused_until, paused_by, breaker, generation, breaker_since, breaker_until, counts,
    closed_at, paid_until, capacity, rules, reported_at, summary
from tg_target where name = :name;

-- name: targets
select name, paused_at, paused_until, paused_by, breaker, generation, breaker_since, breaker_until, counts,
    closed_at, paid_until, capacity, rules, reported_at, summary
from tg_target order by name;

-- name: targets_locked
-- The rows of these targets, kept still until the end; in order, so that two who want the same never meet crosswise.
select name, paused_at, paused_until, paused_by, breaker, generation, breaker_since, breaker_until, counts,
    closed_at, paid_until, capacity, rules, reported_at, summary, {now}
from tg_target join {rows wanted text} on tg_target.name = given.wanted order by tg_target.name {for_update};

-- name: target_new
insert into tg_target (name, breaker_since) values (:name, {now}) on conflict (name) do nothing;

-- name: target_moved
-- A change of the breaker's row, if nobody moved it since it was read.
update tg_target set breaker = :breaker, generation = :generation, breaker_since = :since, breaker_until = :until,
    counts = :counts, closed_at = :closed_at
where name = :name and generation = :was;

-- name: target_paid
update tg_target set paid_until = :paid_until where name = :name;

-- name: target_capacity
update tg_target set capacity = :capacity where name = :name;

-- name: target_rules
-- The numbers of a target, as its workers have them, for those who only see the store.
insert into tg_target (name, breaker_since, rules) values (:name, {now}, :rules)
on conflict (name) do update set rules = excluded.rules
where tg_target.rules is null or tg_target.rules <> excluded.rules;

-- name: target_report
-- What a program says of a target that it guards by itself.
insert into tg_target (name, breaker_since, reported_at, summary) values (:name, {now}, {now}, :summary)
on conflict (name) do update set reported_at = excluded.reported_at, summary = excluded.summary;

-- name: target_pause
insert into tg_target (name, breaker_since, paused_at, paused_until, paused_by) values (:name, {now}, {now}, :until, :actor)
on conflict (name) do update set paused_at = excluded.paused_at, paused_until = excluded.paused_until, paused_by = excluded.paused_by;

-- name: target_resume
update tg_target set paused_at = null, paused_until = null, paused_by = null
where name = :name and paused_until is not null returning name;

-- name: queue_pause
insert into tg_queue (name, paused_at, paused_until, paused_by) values (:name, {now}, :until, :actor)
on conflict (name) do update set paused_at = excluded.paused_at, paused_until = excluded.paused_until, paused_by = excluded.paused_by;

-- name: queue_resume
update tg_queue set paused_at = null, paused_until = null, paused_by = null
where name = :name and paused_until is not null returning name;

-- name: queue_row
select name, paused_at, paused_until, paused_by from tg_queue where name = :name;

-- name: hold
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where target = :target and lane = :lane and operation = '';

-- name: holds_locked
-- The state of these lanes, kept still until the end.
select hold.target, hold.lane, hold.reason, hold.since, hold.until, hold.failed_at, hold.failures, hold.code, hold.message, hold.told, hold.rest, hold.probe
from tg_hold as hold join {rows wanted_target text, wanted_lane text}
    on hold.target = given.wanted_target and hold.lane = given.wanted_lane
where hold.operation = '' order by hold.target, hold.lane {for_update};

-- name: hold_put
insert into tg_hold (target, lane, operation, reason, since, until, failed_at, failures, code, message, told, rest, probe)
values (:target, :lane, '', :reason, :since, :until, :failed_at, :failures, :code, :message, :told, :rest, :probe)
on conflict (target, lane, operation) do update set reason = excluded.reason, since = excluded.since,
    until = excluded.until, failed_at = excluded.failed_at, failures = excluded.failures, code = excluded.code,
    message = excluded.message, told = excluded.told, rest = excluded.rest, probe = excluded.probe;

-- name: hold_drop
delete from tg_hold where target = :target and lane = :lane returning operation;

-- name: hold_probe
-- Reserves the one probe of a lane whose time is over; no row when somebody else has it.
update tg_hold set until = :until, probe = 0
where target = :target and lane = :lane and operation = '' and reason <> 'open' and until <= :at
returning lane;

-- name: hold_probe_is
-- Which job is the probe.
update tg_hold set probe = :job where target = :target and lane = :lane and operation = '' and probe = 0;

-- name: hold_unprobe
-- The probe has proved nothing: the next one may go.
update tg_hold set until = {now}, probe = null
where target = :target and lane = :lane and operation = '' and probe = :job;

-- name: holds_of
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where target = :target order by lane limit :n;

-- name: holds_resting
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where target = :target and rest is not null order by lane limit :n;

-- name: running_of
-- How many jobs of a target are under way, in all and of those that were claimed since a moment.
select count(*), coalesce(sum(case when claimed_at >= :since then 1 else 0 end), 0)
from tg_job where state = 'running' and target = :target;

-- name: running_in
-- How many jobs of a lane are under way.
select count(*) from tg_job where state = 'running' and target = :target and lane = :lane;

-- name: worker_seen
insert into tg_worker (id, host, pid, started_at, seen_at, queues, stopping)
values (:id, :host, :pid, {now}, {now}, :queues, :stopping)
on conflict (id) do update set seen_at = excluded.seen_at, queues = excluded.queues, stopping = excluded.stopping;

-- name: worker_gone
delete from tg_worker where id = :id or seen_at < {now} - 86400;

-- name: workers
select id, host, pid, started_at, seen_at, queues, stopping from tg_worker order by started_at;

-- name: lead
-- Takes or keeps the lead; no row when another holds it.
insert into tg_leader (name, holder, term, until) values (:name, :holder, 1, {now} + :lease)
on conflict (name) do update set holder = excluded.holder, until = excluded.until,
    term = case when tg_leader.holder = excluded.holder then tg_leader.term else tg_leader.term + 1 end
where tg_leader.holder = excluded.holder or tg_leader.until < {now}
returning term;

-- name: schedule_tick
-- One firing of a schedule; no row when somebody else has it.
insert into tg_schedule (name, last_at) values (:name, :at)
on conflict (name) do update set last_at = excluded.last_at where tg_schedule.last_at < excluded.last_at
returning name;

-- name: schedule_last
select last_at from tg_schedule where name = :name;

-- name: clock
select {now};

-- name: store_value
select value from tg_store where name = :name;

-- name: cycle_at
-- When the next cycle of a queue begins.
insert into tg_store (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;

-- name: store_put
insert into tg_store (name, value) values (:name, :value) on conflict (name) do nothing;

-- name: has_migrations_sqlite
select 1 from sqlite_master where name = 'tg_migration';

-- name: has_migrations_postgres
select 1 where to_regclass('tg_migration') is not null;

-- name: migrations
select app, number, name, checksum, applied_at from tg_migration order by app, number;

-- name: migrated
insert into tg_migration (app, number, name, checksum, applied_at) values (:app, :number, :name, :checksum, {now});

-- name: front_jobs
-- Ready jobs of a queue and a target, to be ended without being tried.
select id, queue, state, children, kind from tg_job
where state = 'ready' and queue = :queue and target = :target order by lane, priority desc, id limit :n {skip_locked};

-- name: ready_before
-- How many ready jobs of its lane go before a job; counts no further than :n.
select count(*) from (
    select id from tg_job
    where state = 'ready' and queue = :queue and target = :target and lane = :lane
        and (priority > :priority or (priority = :priority and id < :id))
    limit :n
) as before_it;

-- name: queue_rows
select name, paused_at, paused_until, paused_by from tg_queue order by name;

-- name: gate_event
-- What happened to a queue, a target or a key of it.
insert into tg_gate_event (at, subject, name, lane, kind, actor, fields, written_at)
values ({now}, :subject, :name, :lane, :kind, :actor, :fields, {now});

-- name: gate_event_at
-- The same of another program, which says when it was.
insert into tg_gate_event (at, subject, name, lane, kind, actor, fields, written_at)
values (:at, :subject, :name, :lane, :kind, :actor, :fields, {now});

-- name: gate_events
-- The newest first.
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where subject = :subject and name = :name and id < :before order by id desc limit :n;

-- name: gate_cleared
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where subject = 'target' and name = :name and id > :after and kind = 'target_cleared' order by id limit :n;

-- name: gate_event_last
select coalesce(max(id), 0) from tg_gate_event where subject = 'target' and name = :name;

-- name: gate_events_prune
-- Looks only at the oldest: what was written first goes first.
delete from tg_gate_event where id in (
    select id from (select id, coalesce(written_at, at) as kept_at from tg_gate_event order by id limit :n) as oldest
    where kept_at < :before
) returning id;

-- name: notify
-- Wakes the workers of all hosts (PostgreSQL only).
select pg_notify('tidegate', '');

-- name: restored_fences
-- Whoever holds a lease from before the restore must not match any more.
update tg_job set fence = fence + :step;

-- name: restored_running
-- What ran when the copy was made runs no more.
update tg_job set state = 'ready', lease_by = null, lease_until = null, claimed_at = null, stop_asked = 0
where state = 'running' returning id, queue;

-- name: restored_probes
update tg_hold set probe = null where probe is not null;

-- name: restored_leaders
delete from tg_leader;

-- name: restored_notices
-- What was to be told when the copy was made was told long ago.
update tg_notice set decided_at = {now}, waits_until = null, why = 'the database was put back' where decided_at is null;

-- name: restored_deliveries
update tg_delivery set state = 'failed', ended_at = {now}, code = 'restored', why = 'The database was put back.'
where state = 'queued';

-- name: restored_workers
delete from tg_worker;

-- name: restored_ids_sqlite
-- Ids that were given out after the copy was made are not given out again (SQLite only).
insert into tg_store (name, value) select 'forgotten', cast(coalesce(max(id), 0) + :step as text) from tg_job where true
on conflict (name) do update
set value = cast(max(cast(excluded.value as integer), cast(tg_store.value as integer) + :step) as text);

-- name: restored_ids_postgres
-- The same (PostgreSQL only).
select setval(pg_get_serial_sequence('tg_job', 'id'), nextval(pg_get_serial_sequence('tg_job', 'id')) + :step);

-- name: restored_epoch
insert into tg_store (name, value) values ('epoch', '1')
on conflict (name) do update set value = cast(cast(tg_store.value as integer) + 1 as text)
returning value;

-- name: counted_jobs
-- Every job, counted: for the check of a database, never for a page.
select queue, state, count(*) from tg_job group by queue, state;

-- name: loose_links
-- Links to jobs that are not there, and blocked jobs that wait for nobody.
select count(*) from tg_job as job
where state = 'blocked' and not exists (select 1 from tg_link as link where link.child = job.id);

-- lists

-- name: list_id_at
-- The last job that was made until a moment, found by halving: ids grow with time. 0 when there is none.
with recursive narrowing (low, high, n) as (
    select cast(0 as bigint), coalesce((select max(id) from tg_job), 0), 0
    union all
    select case when seen.created_at <= :moment then seen.id else narrowing.low end,
        case when seen.created_at <= :moment then narrowing.high else (narrowing.low + narrowing.high + 1) / 2 - 1 end,
        narrowing.n + 1
    from narrowing left join tg_job as seen on seen.id = (
        select min(job.id) from tg_job as job
        where job.id >= (narrowing.low + narrowing.high + 1) / 2 and job.id <= narrowing.high
    )
    where narrowing.low < narrowing.high and narrowing.n < 100
)
select low from narrowing order by n desc limit 1;

-- name: list_places
-- Every queue and kind of jobs that have ended, or every kind of one queue: one look into the index for each.
with recursive place (queue, kind, n) as (
    select queue, kind, 1 from (
        select queue, kind from tg_job where finished_at is not null and queue >= :queue order by queue, kind limit 1
    ) as first_place
    union all
    select following.queue, following.kind, place.n + 1
    from place join tg_job as following on following.id = coalesce((
            select job.id from tg_job as job
            where job.finished_at is not null and job.queue = place.queue and job.kind > place.kind
            order by job.kind limit 1
        ), case when :queue = '' then (
            select job.id from tg_job as job where job.finished_at is not null and job.queue > place.queue
            order by job.queue, job.kind limit 1
        ) end)
    where place.n < :most
)
select queue, kind from place where :queue = '' or queue = :queue;

-- name: list_any_floor
-- Of so many jobs, the newest before one, the last.
select id from tg_job where id < :before and id > :above order by id desc limit 1 offset :last;

-- name: list_any_all
-- How many there are; counts no further than :n.
select count(*) from (select id from tg_job where id < :before and id > :above order by id desc limit :n) as counted;

-- name: list_any
select job.id, job.queue, job.kind, job.target, job.lane, job.state, job.priority, job.created_at, job.due_at, job.attempt,
    job.most_attempts, job.last_code, job.finished_at
from tg_job as job
where job.id >= :floor and job.id < :before and job.created_at >= :earliest and job.created_at <= :latest
    and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind) and (:target = '' or job.target = :target)
    and (:code = '' or job.last_code = :code)
    and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
order by job.id desc limit :n;

-- name: list_any_count
select count(*) from (
    select job.id from tg_job as job
    where job.id >= :floor and job.id < :before and job.created_at >= :earliest and job.created_at <= :latest
        and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind) and (:target = '' or job.target = :target)
    and (:code = '' or job.last_code = :code)
        and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
    limit :n
) as counted;

-- name: list_ended_floors
-- The same of each queue, kind and state, and the first of them; null where there are not so many.
select given.queue, given.kind, given.state, (
    select job.id from tg_job as job
    where job.finished_at is not null and job.queue = given.queue and job.kind = given.kind and job.state = given.state
        and job.id < :before and job.id > :above
    order by job.id desc limit 1
), (
    select job.id from tg_job as job
    where job.finished_at is not null and job.queue = given.queue and job.kind = given.kind and job.state = given.state
        and job.id < :before and job.id > :above
    order by job.id desc limit 1 offset :last
) from {rows queue text, kind text, state text};

-- name: list_ended
select job.id, job.queue, job.kind, job.target, job.lane, job.state, job.priority, job.created_at, job.due_at, job.attempt,
    job.most_attempts, job.last_code, job.finished_at
from tg_job as job
where job.finished_at is not null and job.queue = :queue and job.kind = :kind and job.state = :state
    and job.id >= :floor and job.id < :before and job.created_at >= :earliest and job.created_at <= :latest
    and (:target = '' or job.target = :target) and (:code = '' or job.last_code = :code)
order by job.id desc limit :n;

-- name: list_ended_counts
select (
    select count(*) from (
        select job.id from tg_job as job
        where job.finished_at is not null and job.queue = given.queue and job.kind = given.kind and job.state = given.state
            and job.id < :before and job.id > :above
        order by job.id desc limit :n
    ) as counted
) from {rows queue text, kind text, state text};

-- name: list_of_target_floor
select id from tg_job
where target = :target and target <> '' and finished_at is not null and id < :before and id > :above
order by id desc limit 1 offset :last;

-- name: list_of_target_all
select count(*) from (
    select id from tg_job
    where target = :target and target <> '' and finished_at is not null and id < :before and id > :above
    order by id desc limit :n
) as counted;

-- name: list_of_target
-- Jobs of a target that have ended.
select job.id, job.queue, job.kind, job.target, job.lane, job.state, job.priority, job.created_at, job.due_at, job.attempt,
    job.most_attempts, job.last_code, job.finished_at
from tg_job as job
where job.target = :target and job.target <> '' and job.finished_at is not null and job.id >= :floor and job.id < :before
    and job.created_at >= :earliest and job.created_at <= :latest
    and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind)
    and (:state = '' or job.state = :state) and (:code = '' or job.last_code = :code)
order by job.id desc limit :n;

-- name: list_of_target_count
select count(*) from (
    select job.id from tg_job as job
    where job.target = :target and job.target <> '' and job.finished_at is not null and job.id >= :floor and job.id < :before
        and job.created_at >= :earliest and job.created_at <= :latest
        and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind)
        and (:state = '' or job.state = :state) and (:code = '' or job.last_code = :code)
    limit :n
) as counted;

-- name: list_of_code_floor
select id from tg_job
where last_code = :code and last_code is not null and id < :before and id > :above
order by id desc limit 1 offset :last;

-- name: list_of_code_all
select count(*) from (
    select id from tg_job
    where last_code = :code and last_code is not null and id < :before and id > :above
    order by id desc limit :n
) as counted;

-- name: list_of_code
select job.id, job.queue, job.kind, job.target, job.lane, job.state, job.priority, job.created_at, job.due_at, job.attempt,
    job.most_attempts, job.last_code, job.finished_at
from tg_job as job
where job.last_code = :code and job.last_code is not null and job.id >= :floor and job.id < :before
    and job.created_at >= :earliest and job.created_at <= :latest
    and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind) and (:target = '' or job.target = :target)
    and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
order by job.id desc limit :n;

-- name: list_of_code_count
select count(*) from (
    select job.id from tg_job as job
    where job.last_code = :code and job.last_code is not null and job.id >= :floor and job.id < :before
        and job.created_at >= :earliest and job.created_at <= :latest
        and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind) and (:target = '' or job.target = :target)
        and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
    limit :n
) as counted;

-- name: list_rows
select job.id, job.queue, job.kind, job.target, job.lane, job.state, job.priority, job.created_at, job.due_at, job.attempt,
    job.most_attempts, job.last_code, job.finished_at
from {rows id bigint} join tg_job as job on job.id = given.id;

-- name: list_<state> of ready, waiting, running
-- Jobs of a queue in one state. A sum keeps the databases from walking through all ids for the newest of them.
select id from tg_job
where state = '<state>' and queue = :queue and (:kind = '' or kind = :kind) and (:target = '' or target = :target)
    and id + 0 > :above and id + 0 < :before
order by id + 0 desc limit :n;

-- name: list_<state>_count of ready, waiting, running
select count(*) from (
    select id from tg_job
    where state = '<state>' and queue = :queue and (:kind = '' or kind = :kind) and (:target = '' or target = :target)
        and id + 0 > :above and id + 0 < :before
    limit :n
) as counted;

-- name: list_blocked
-- Jobs of a queue that wait for others.
select id from tg_job
where state = 'blocked' and queue = :queue and (:kind = '' or kind = :kind) and (:target = '' or target = :target)
    and id > :above and id < :before
order by id desc limit :n;

-- name: list_blocked_count
select count(*) from (
    select id from tg_job
    where state = 'blocked' and queue = :queue and (:kind = '' or kind = :kind) and (:target = '' or target = :target)
        and id > :above and id < :before
    limit :n
) as counted;

-- name: list_codes
-- Every code of a last failure: one look into the index for each.
with recursive code_of (code, n) as (
    select min(last_code), 1 from tg_job where last_code is not null
    union all
    select (select min(job.last_code) from tg_job as job where job.last_code is not null and job.last_code > code_of.code),
        code_of.n + 1
    from code_of where code_of.code is not null and code_of.n < :most
)
select code from code_of where code is not null;

-- name: list_newest_kinds
-- The kinds of the newest jobs, also of those that have not ended.
select distinct kind from (select kind from tg_job order by id desc limit :n) as newest;

-- name: holds_added_up
-- The keys of every target that are held, or of one, by what holds them.
select target, reason, count(*), min(since), min(until), max(failures),
    case when min(code) = max(code) then min(code) end, case when min(message) = max(message) then min(message) end,
    min(lane), max(rest)
from tg_hold where reason <> 'open' and (:target = '' or target = :target) group by target, reason
order by target, reason;

-- name: running_by_target
select target, count(*) from tg_job where state = 'running' group by target;

-- name: targets_tried
-- Of these targets, those that a job has called: one that ended after an attempt.
select given.name from {rows name text} where given.name = (
    select job.target from tg_job as job
    where job.target >= given.name and job.target <> '' and job.finished_at is not null and job.attempt > 0
    order by job.target, job.id limit 1
);

-- name: gate_events_newest
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event order by id desc limit :n;

-- name: ready_oldest
-- The oldest ready jobs of a queue.
select id from tg_job where state = 'ready' and queue = :queue order by id + 0 limit :n;

-- name: lately_done
-- How many jobs of a queue were done since a moment, and when the first of them was; counts no further than :n.
select count(*), min(finished_at) from (
    select finished_at from tg_job
    where finished_at is not null and queue = :queue and state = 'done' and finished_at > :since
    order by finished_at desc limit :n
) as lately;

-- name: unclassified_jobs
-- Jobs that have not got over a fault that nobody knows, of the last that met one.
select count(*) from (
    select state from tg_job where last_code = 'unexpected' and last_code is not null order by id desc limit :n
) as unclassified where state <> 'done';

-- name: notices_needing
-- What is told of targets that only a person can end, and that goes on.
select name, title, message, advice, lane from tg_notice
where subject = 'target' and kind = 'fatal' and ended_at is null and for_user is null
order by name, lane, operation limit :n;

-- server

-- name: notice_raise
-- A notice, unless the episode has one, or one of its kind is open there.
insert into tg_notice (kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at, ended_at)
values (:kind, :level, :subject, :name, :lane, :operation, :episode, :code, :title, :message, :advice, :for_user, {now},
        case when :over = 1 then {now} end)
on conflict do nothing
returning id;

-- name: notice_outdated
-- One of this kind that is open for another reason.
update tg_notice set ended_at = case when {now} > created_at then {now} else created_at end
where subject = :subject and name = :name and lane = :lane and operation = :operation and kind = :kind
    and ended_at is null and coalesce(code, '') <> :code;

-- name: notice_end
-- The trouble of one kind at one place is over.
update tg_notice set ended_at = case when {now} > created_at then {now} else created_at end
where subject = :subject and name = :name and lane = :lane and operation = :operation and kind = :kind and ended_at is null
returning episode;

-- name: notice_end_key
-- A person has dealt with a key: with it, all that is open of it, whichever operation it concerns.
update tg_notice set ended_at = case when {now} > created_at then {now} else created_at end
where subject = :subject and name = :name and lane = :lane and ended_at is null
returning id;

-- name: notice_unanswered_of
-- When the last trouble of a key began that a person has ended, if nobody was told since that it works again.
select n.episode from tg_notice n
where n.kind in ('fatal', 'cap') and n.subject = :subject and n.name = :name and n.lane = :lane
    and n.ended_at is not null and not exists (
        select 1 from tg_notice r where r.subject = n.subject and r.name = n.name and r.lane = n.lane
            and ((r.kind = 'recovered' and r.created_at >= n.ended_at)
                or (r.kind in ('fatal', 'cap') and r.ended_at is null)))
order by n.episode desc limit 1;

-- name: notices_unanswered
-- Keys whose last trouble a person has ended, and of which nobody was told since that they work again.
select distinct n.lane from tg_notice n
where n.kind in ('fatal', 'cap') and n.subject = :subject and n.name = :name
    and n.ended_at is not null and not exists (
        select 1 from tg_notice r where r.subject = n.subject and r.name = n.name and r.lane = n.lane
            and ((r.kind = 'recovered' and r.created_at >= n.ended_at)
                or (r.kind in ('fatal', 'cap') and r.ended_at is null)))
order by n.lane limit :n;

-- name: notices_open_of
-- What is open of one thing.
select kind, lane, operation, episode, code from tg_notice
where subject = :subject and name = :name and ended_at is null order by lane, operation, kind limit :n;

-- name: notices
-- The newest first.
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where id < :before order by id desc limit :n;

-- name: notices_unread
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where id < :before and acked_at is null and snoozed_until is null order by id desc limit :n;

-- name: notices_urgent
-- The errors that go on, the newest first; with :unread, those that nobody has read.
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where ended_at is null and level = 'error'
    and (:unread = 0 or (acked_at is null and snoozed_until is null)) order by id desc limit :n;

-- name: notice
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where id = :id;

-- name: notices_unread_count
-- Counts no further than :n.
select count(*) from (select id from tg_notice where acked_at is null and snoozed_until is null limit :n) as unread;

-- name: notice_ack
update tg_notice set acked_at = case when {now} > created_at then {now} else created_at end, acked_by = :actor
where id = :id and acked_at is null returning id;

-- name: notices_ack
-- All up to one, a slice at a time.
update tg_notice set acked_at = case when {now} > created_at then {now} else created_at end, acked_by = :actor
where id in (select id from tg_notice where acked_at is null and id <= :newest order by id limit :n) and acked_at is null
returning id;

-- name: notices_prune
delete from tg_notice where id in (
    select id from tg_notice where ended_at is not null and ended_at < :before order by ended_at limit :n
) returning id;

-- telling

-- name: notices_undecided
-- Those of which it is to be decided now whether channels are told. What waits is looked at again when its time comes,
-- or when it ended or was read meanwhile.
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at,
    ended_at, acked_at, snoozed_until, told_at, waits_until, why, round_no
from tg_notice where decided_at is null and (
    waits_until is null or waits_until <= {now} or (kind <> 'recovered' and (ended_at is not null or acked_at is not null))
) order by id limit :n;

-- name: notice_told_of
-- One, as it is to be sent.
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at,
    ended_at, acked_at, snoozed_until, told_at, waits_until, why, round_no
from tg_notice where id = :id;

-- name: notices_at
-- The others of the same place, the newest first.
select id, kind, level, created_at, ended_at, acked_at, snoozed_until, told_at from tg_notice
where subject = :subject and name = :name and lane = :lane and operation = :operation and id <> :id
order by id desc limit :n;

-- name: notices_going_on
-- What is open of one kind.
select id, subject, name, lane, operation, episode, created_at from tg_notice
where ended_at is null and kind = :kind order by id limit :n;

-- name: notice_waits
update tg_notice set waits_until = :until, why = :why where id = :id and decided_at is null;

-- name: notice_decided
update tg_notice set decided_at = {now}, waits_until = null, why = :why,
    told_at = case when :told = 1 then {now} else told_at end
where id = :id and decided_at is null returning id;

-- name: notice_reworded
update tg_notice set message = :message, advice = :advice where id = :id;

-- name: notice_snooze
update tg_notice set snoozed_until = {now} + :lasts, snoozed_by = :actor where id = :id and ended_at is null
returning snoozed_until;

-- name: notices_snoozed_out
-- What was snoozed until now; returns those that go on, which are told once more.
update tg_notice set snoozed_until = null, snoozed_by = null,
    round_no = case when ended_at is null and told_at is not null then round_no + 1 else round_no end,
    decided_at = case when ended_at is null then null else decided_at end
where snoozed_until is not null and snoozed_until <= {now} returning id;

-- name: notices_snoozing_out
select count(*) from tg_notice where snoozed_until is not null and snoozed_until <= {now};

-- name: notices_dealt_with
-- Trouble that channels were told of and that a person has ended, where it has been quiet since, and nobody was told so.
select n.id, n.subject, n.name, n.lane, n.operation, n.episode, n.created_at from tg_notice as n
where n.ended_at is not null and n.ended_at > :since and n.ended_at <= :until and n.told_at is not null
    and n.kind in ('fatal', 'cap') and not exists (
        select 1 from tg_notice as r where r.subject = n.subject and r.name = n.name and r.lane = n.lane
            and r.operation = n.operation and r.id <> n.id and (r.created_at >= n.ended_at or r.ended_at is null))
order by n.id limit :n;

-- name: breaker_moves
-- How the breakers of all targets moved since a moment, the oldest first.
select name, at, fields from tg_gate_event
where kind = 'breaker_state_changed' and at > :since and subject = 'target' order by at, id limit :n;

-- name: gave_up_lately
-- Jobs of a queue that were tried and have failed for good since a moment, by what they failed of.
select failure, max(target), max(kind), max(error_code), max(error_message), count(*), min(finished_at), max(finished_at)
from (
    select failure, target, kind, error_code, error_message, finished_at from tg_job
    where finished_at is not null and queue = :queue and state = 'failed' and finished_at > :since and attempt > 0
    order by finished_at desc limit :n
) as lately
where failure is not null group by failure order by failure;

-- name: gave_up_since
-- How many of the last jobs of a target have failed for good since a moment.
select count(*) from (
    select state, finished_at from tg_job where target = :target and target <> '' and finished_at is not null
    order by id desc limit :n
) as ended where state = 'failed' and finished_at >= :since;

-- name: target_has_jobs
select id from tg_job where target = :target and target <> '' and finished_at is not null order by id desc limit 1;

-- name: cycles
-- The queues that are worked on in cycles.
select name from tg_store where name like 'cycle %';

-- name: waiting_for
-- How many jobs of one queue wait for a target; counts no further than :n.
select count(*) from (
    select id from tg_job where state = 'ready' and queue = :queue and target = :target limit :n
) as ready;

-- name: delivery_new
insert into tg_delivery (notice, channel, round_no, state, instead_of, created_at)
values (:notice, :channel, :round_no, 'queued', :instead_of, {now})
on conflict do nothing returning notice;

-- name: delivery_job
update tg_delivery set job = :job where notice = :notice and channel = :channel and round_no = :round_no;

-- name: delivery_code
select code from tg_delivery where notice = :notice and channel = :channel and round_no = :round_no;

-- name: delivery_done
update tg_delivery set state = 'delivered', ended_at = {now}, code = null, why = null
where notice = :notice and channel = :channel and round_no = :round_no;

-- name: delivery_failed
update tg_delivery set state = 'failed', ended_at = {now}, code = :code, why = :why
where notice = :notice and channel = :channel and round_no = :round_no and state = 'queued' returning notice;

-- name: deliveries_given_up
-- Those whose job will never deliver them. The plus keeps SQLite from reading all that there ever were in their order.
select d.notice, d.channel, d.round_no, j.error_code, coalesce(j.last_message, j.error_message) from tg_delivery as d
left join tg_job as j on j.id = d.job
where d.state = 'queued' and (j.id is null or j.state in ('failed', 'cancelled')) order by +d.notice, d.channel limit :n;

-- name: deliveries_of
select d.notice, d.channel, d.round_no, d.state, d.job, d.instead_of, d.created_at, d.ended_at, d.code, d.why
from tg_delivery as d join {rows notice bigint} on d.notice = given.notice order by d.notice, d.created_at, d.channel;

-- name: channel_put
insert into tg_channel (name, kind, shown, level, place, standby, digest)
values (:name, :kind, :shown, :level, :place, :standby, :digest)
on conflict (name) do update set kind = excluded.kind, shown = excluded.shown, level = excluded.level,
    place = excluded.place, standby = excluded.standby, digest = excluded.digest, there = 1,
    disabled_at = case when tg_channel.digest = excluded.digest then tg_channel.disabled_at end,
    disabled_why = case when tg_channel.digest = excluded.digest then tg_channel.disabled_why end,
    last_at = case when tg_channel.digest = excluded.digest then tg_channel.last_at end,
    last_ok = case when tg_channel.digest = excluded.digest then tg_channel.last_ok end,
    last_why = case when tg_channel.digest = excluded.digest then tg_channel.last_why end;

-- name: channel_left_out
-- No longer in the settings.
update tg_channel set there = 0 where name = :name;

-- name: channels
select name, kind, shown, level, place, standby, digest, there, last_at, last_ok, last_why, tested_at, tested_ok,
    tested_why, disabled_at, disabled_why
from tg_channel order by place, name;

-- name: channel_ended
-- How the last delivery went.
update tg_channel set last_at = {now}, last_ok = :ok, last_why = :why where name = :name;

-- name: channel_tested
update tg_channel set tested_at = {now}, tested_ok = :ok, tested_why = :why,
    last_ok = case when last_ok = 0 and :ok = 1 then 1 else last_ok end,
    last_why = case when :ok = 1 then null else last_why end,
    disabled_at = case when :ok = 1 then null else disabled_at end,
    disabled_why = case when :ok = 1 then null else disabled_why end
where name = :name returning name;

-- name: channel_disable
update tg_channel set disabled_at = {now}, disabled_why = :why where name = :name and disabled_at is null returning name;

-- name: address_put
insert into tg_address (who, mail) values (:who, :mail) on conflict (who) do update set mail = excluded.mail;

-- name: address_drop
delete from tg_address where who = :who returning who;

-- name: address
select mail from tg_address where who = :who;

-- name: mailed_put
insert into tg_mailed (who, target, at) values (:who, :target, {now})
on conflict (who, target) do update set at = excluded.at;

-- name: mailed
select at from tg_mailed where who = :who and target = :target;

-- name: mailed_forget
-- A key works again, or a person has dealt with it: whose it is may be mailed of the next trouble at once.
delete from tg_mailed where target = :name and who in (
    select for_user from tg_notice where subject = :subject and name = :name and lane = :lane and for_user is not null
);

-- name: request_begin
-- Takes the place of a request: a new one, one that is too old, or one whose lease ran out in the middle.
insert into tg_request (scope, name, digest, begun_at, lease_until) values (:scope, :key, :digest, {now}, {now} + :lease)
on conflict (scope, name) do update set digest = excluded.digest, fence = tg_request.fence + 1,
    begun_at = excluded.begun_at, lease_until = excluded.lease_until, status = null, headers = null, body = null
where tg_request.begun_at <= excluded.begun_at - :kept
    or (tg_request.status is null and tg_request.lease_until <= excluded.begun_at and tg_request.digest = excluded.digest)
returning fence;

-- name: request_seen
select digest, status, headers, body, lease_until - {now} from tg_request where scope = :scope and name = :key;

-- name: request_finish
update tg_request set status = :status, headers = :headers, body = :body, lease_until = null
where scope = :scope and name = :key and fence = :fence and status is null returning fence;

-- name: request_abandon
delete from tg_request where scope = :scope and name = :key and fence = :fence and status is null returning fence;

-- name: requests_prune
delete from tg_request where (scope, name) in (
    select scope, name from tg_request where begun_at < :before order by begun_at limit :n
) returning name;

-- name: happenings
-- What came after an event, in order.
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where id > :after and id <= :newest and (:subject = '' or subject = :subject) order by id limit :n;

-- name: happenings_of
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where subject = :subject and name = :name and id > :after and id <= :newest order by id limit :n;

-- name: happenings_recent
-- The ids that were given out last, and how long ago they were written.
select id, {now} - coalesce(written_at, 0) from tg_gate_event order by id desc limit :n;

-- name: oldest_ready
-- When the oldest ready job of a queue was put in. The sum keeps PostgreSQL from walking through all ids for it.
select created_at from tg_job where id = (select min(id + 0) from tg_job where state = 'ready' and queue = :queue);

-- checkup

-- name: late_leases
-- How many jobs run under a lease that has ended, and when the first of them did.
select count(*), min(lease_until) from tg_job where state = 'running' and lease_until < {now};

-- people

-- name: user
select name, role, password, made_at, changed_at from tg_user where name = :name;

-- name: users
-- With how many sessions each has.
select who.name, who.role, who.made_at, who.changed_at, who.seen_at,
    (select count(*) from tg_session as session where session.who = who.name and session.ends_at > {now})
from tg_user as who order by who.name;

-- name: any_user
select 1 from tg_user limit 1;

-- name: user_add
insert into tg_user (name, role, password, made_at, changed_at) values (:name, :role, :password, {now}, {now})
on conflict (name) do nothing returning name;

-- name: user_change
update tg_user set role = coalesce(:role, role), password = coalesce(:password, password), changed_at = {now}
where name = :name returning name;

-- name: user_remove
delete from tg_user where name = :name returning name;

-- name: admins
-- Changes nothing, and makes whoever asks the same at the same time wait: two admins must not lower each other.
update tg_user set changed_at = changed_at where role = 'admin' returning name;

-- name: user_seen
update tg_user set seen_at = {now} where name = :name;

-- name: session_add
insert into tg_session (digest, who, made_at, seen_at, ends_at) values (:digest, :who, {now}, {now}, {now} + :lasts);

-- name: session
select who.name, who.role, session.seen_at, {now} from tg_session as session join tg_user as who on who.name = session.who
where session.digest = :digest and session.ends_at > {now};

-- name: session_seen
update tg_session set seen_at = {now},
    ends_at = case when {now} + :lasts > made_at + :longest then made_at + :longest else {now} + :lasts end
where digest = :digest and made_at + :longest > {now} returning who;

-- name: session_end
delete from tg_session where digest = :digest returning who;

-- name: sessions_end
delete from tg_session where who = :who returning digest;

-- name: sessions_prune
delete from tg_session where digest in (select digest from tg_session where ends_at <= {now} order by ends_at limit :n)
returning digest;

-- name: token_add
insert into tg_token (digest, name, role, made_by, made_at, ends_at)
values (:digest, :name, :role, :made_by, {now}, {now} + :lasts)
on conflict do nothing returning id;

-- name: token
select id, name, role, used_at, {now} from tg_token where digest = :digest and (ends_at is null or ends_at > {now});

-- name: tokens
select id, name, role, made_by, made_at, ends_at, used_at from tg_token order by id;

-- name: token_used
update tg_token set used_at = {now} where id = :id;

-- name: token_remove
delete from tg_token where name = :name returning id;

-- name: account_event
insert into tg_account_event (at, kind, name, actor, fields) values ({now}, :kind, :name, :actor, :fields) returning id;

-- name: account_events
-- The newest first.
select id, at, kind, name, actor, fields from tg_account_event order by id desc limit :n;

-- name: account_events_prune
delete from tg_account_event where id < :before returning id;

-- many jobs at once

-- name: bulk_new
insert into tg_bulk (action, filter, actor, origin, reason, expected, started_at)
values (:action, :filter, :actor, :origin, :reason, :expected, {now}) returning id;

-- name: bulk_parts_new
insert into tg_bulk_part (bulk, at, jobs) select :bulk, at, jobs from {rows at bigint, jobs text} where true;

-- name: bulk
select id, action, filter, actor, origin, reason, state, expected, changed, refused, says, started_at, ended_at,
    ended_by
from tg_bulk where id = :id;

-- name: bulk_locked
-- The same, kept still until the end.
select id, action, filter, actor, origin, reason, state, expected, changed, refused, says, started_at, ended_at,
    ended_by
from tg_bulk where id = :id {for_update};

-- name: bulks
-- The newest first.
select id, action, filter, actor, origin, reason, state, expected, changed, refused, says, started_at, ended_at,
    ended_by
from tg_bulk where id < :before order by id desc limit :n;

-- name: bulks_running
-- How far those are that are under way, the oldest first.
select id, changed + refused from tg_bulk where state = 'running' order by id;

-- name: bulk_part_take
-- The next slice, which nobody else gets any more.
delete from tg_bulk_part
where bulk = :bulk and at = (select min(first.at) from tg_bulk_part as first where first.bulk = :bulk)
returning at, jobs;

-- name: bulk_far
update tg_bulk set changed = changed + :changed, refused = refused + :refused where id = :id and state = 'running';

-- name: bulk_end
update tg_bulk set state = :state, says = :says, ended_by = :ended_by, ended_at = {now}
where id = :id and state = 'running' returning id;

-- name: bulk_parts_drop
delete from tg_bulk_part where bulk = :bulk;

-- name: bulk_items_put
insert into tg_bulk_item (bulk, at, job, outcome, why)
select :bulk, at, job, outcome, why from {rows at bigint, job bigint, outcome text, why text} where true;

-- name: bulk_items
select at, job, outcome, why from tg_bulk_item where bulk = :bulk and at > :after order by at limit :n;

-- name: bulk_items_refused
select at, job, outcome, why from tg_bulk_item
where bulk = :bulk and outcome = 'refused' and at > :after order by at limit :n;

-- name: bulks_prune
delete from tg_bulk where id in (
    select id from tg_bulk where ended_at is not null and ended_at < :before order by ended_at limit :n
) returning id;

-- name: bulk_items_drop
delete from tg_bulk_item where bulk = :bulk;

-- name: lead_over
-- Somebody else may take the lead at once.
delete from tg_leader where name = :name and holder = :holder;

-- activity

-- name: activity_note
insert into tg_activity (at, actor, origin, action, subject, name, lane, was, became, reason)
values ({now}, :actor, :origin, :action, :subject, :name, :lane, :was, :became, :reason);

-- name: activity
-- The newest first.
select id, at, actor, origin, action, subject, name, lane, was, became, reason from tg_activity
where id < :before and at >= :earliest and at <= :latest
    and (:actor = '' or actor = :actor) and (:action = '' or action = :action) and (:origin = '' or origin = :origin)
    and (:subject = '' or subject = :subject) and (:name = '' or name = :name)
    and (:accounts = 1 or subject not in ('user', 'token'))
order by id desc limit :n;

-- name: activity_prune
delete from tg_activity where id in (select id from tg_activity where at < :before order by at limit :n) returning id;

-- rollups

-- name: rollups_put
insert into tg_rollup (scope, name, at, figures) select scope, name, :at, figures
from {rows scope text, name text, figures text} where true
on conflict do nothing;

-- name: rollups
select at, figures from tg_rollup where scope = :scope and name = :name and at >= :since order by at;

-- name: rollups_hours
-- Those of whole hours, of several at once.
select one.name, one.at, one.figures
from {rows name text} join tg_rollup as one on one.scope = :scope and one.name = given.name and one.at >= :since
where one.at % 3600 = 0;

-- name: rollups_all
-- Those of all queues or all targets, at the ends of slots of so many seconds.
select name, at, figures from tg_rollup
where scope = :scope and at >= :since and at % :step = 0;

-- name: rollups_prune
-- Old ones but for those of whole hours, and those when they are older still.
delete from tg_rollup where (scope, name, at) in (
    select scope, name, at from tg_rollup
    where at < :hours_before or (at < :fine_before and at % 3600 <> 0) order by at limit :n
) returning at;

-- failures

-- name: job_failure
update tg_job set failure = given.failure from {rows id bigint, failure text} where tg_job.id = given.id;

-- name: failure_notes
insert into tg_failure_note (failure, target, kind, code, message, at, n)
select failure, target, kind, code, message, {now}, n
from {rows failure text, target text, kind text, code text, message text, n integer} where true;

-- name: failure_notes_take
delete from tg_failure_note where id in (select id from tg_failure_note order by id limit :n)
returning failure, target, kind, code, message, at, n;

-- name: failure_notes_all
select failure, target, kind, code, message, at, n from tg_failure_note;

-- name: failure_add
insert into tg_failure (failure, target, kind, code, message, first_at, last_at, n)
select failure, target, kind, code, message, first_at, last_at, n
from {rows failure text, target text, kind text, code text, message text, first_at double precision, last_at double precision, n bigint}
where true
on conflict (failure) do update set n = tg_failure.n + excluded.n, message = excluded.message, kind = excluded.kind,
    last_at = case when excluded.last_at > tg_failure.last_at then excluded.last_at else tg_failure.last_at end;

-- name: failure_hours_add
insert into tg_failure_hour (failure, hour, n) select failure, hour, n
from {rows failure text, hour bigint, n bigint} where true
on conflict (failure, hour) do update set n = tg_failure_hour.n + excluded.n;

-- name: failures
-- The groups that were met last.
select failure, target, kind, code, message, first_at, last_at, n from tg_failure order by last_at desc limit :n;

-- name: failure_hours
select hours.failure, hours.hour, hours.n from tg_failure_hour as hours join {rows failure text} on hours.failure = given.failure
where hours.hour > :since;

-- name: failure_jobs
-- How many jobs of each group failed for good, and how many will be tried again; counts no further than :n.
select given.failure, (
    select count(*) from (
        select id from tg_job as job where job.failure = given.failure and job.failure is not null and job.state = 'failed'
        limit :n
    ) as failed
), (
    select count(*) from (
        select id from tg_job as job where job.failure = given.failure and job.failure is not null
            and job.state in ('blocked', 'waiting', 'ready', 'running')
        limit :n
    ) as queued
) from {rows failure text};

-- name: failures_prune
delete from tg_failure where failure in (select failure from tg_failure where last_at < :before order by last_at limit :n)
returning failure;

-- name: failure_hours_prune
delete from tg_failure_hour where (failure, hour) in (
    select failure, hour from tg_failure_hour where hour < :before limit :n
) returning hour;

-- name: list_of_failure_floor
select id from tg_job
where failure = :failure and failure is not null and id < :before and id > :above
order by id desc limit 1 offset :last;

-- name: list_of_failure_all
select count(*) from (
    select id from tg_job
    where failure = :failure and failure is not null and id < :before and id > :above
    order by id desc limit :n
) as counted;

-- name: list_of_failure
select job.id, job.queue, job.kind, job.target, job.lane, job.state, job.priority, job.created_at, job.due_at, job.attempt,
    job.most_attempts, job.last_code, job.finished_at
from tg_job as job
where job.failure = :failure and job.failure is not null and job.id >= :floor and job.id < :before
    and job.created_at >= :earliest and job.created_at <= :latest
    and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind) and (:target = '' or job.target = :target)
    and (:code = '' or job.last_code = :code)
    and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
order by job.id desc limit :n;

-- name: list_of_failure_count
select count(*) from (
    select job.id from tg_job as job
    where job.failure = :failure and job.failure is not null and job.id >= :floor and job.id < :before
        and job.created_at >= :earliest and job.created_at <= :latest
        and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind)
        and (:target = '' or job.target = :target) and (:code = '' or job.last_code = :code)
        and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
    limit :n
) as counted;
