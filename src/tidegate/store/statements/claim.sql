-- Claiming jobs, renewing leases and recovering lost attempts.

-- name: fronts
-- Every queue and target with ready jobs, of the given queues, and what holds them: one index lookup each. :queues has
-- :sep before, between and after its names. The last two columns are the same in every row: the number of applied
-- migrations, and whether any suspect is ready.
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
select front.queue, front.target, queue.paused_until as queue_paused_until, target.paused_until, target.breaker,
    target.breaker_until, (select count(*) from tg_migration) as migrations,
    (select count(*) from (select 1 from tg_job where state = 'ready' and suspect = 1 limit 1) as one_suspect) as suspects
from front
left join tg_queue as queue on queue.name = front.queue
left join tg_target as target on target.name = front.target
where replace(:queues, :sep || front.queue || :sep, '') <> :queues
order by front.n;

-- name: lanes
-- The next keys of a queue and a target with ready jobs, and what holds them: one index lookup each. :fresh = 1 begins
-- with the first key, regardless of :after.
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
-- The first and the last key of a queue and a target with ready jobs, and what holds the first.
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
-- Ready jobs of one key, by priority, then oldest first. Without expired jobs and suspects, which are claimed alone.
select id from tg_job
where state = 'ready' and suspect = 0 and queue = :queue and target = :target and lane = :lane
    and (expires_at is null or expires_at > {now})
order by priority desc, id limit :n {skip_locked};

-- name: pick_in_cycle
-- The same for a batch-only queue: only jobs that were inserted or due before it began. A clock that was set back
-- excludes no job.
select id from tg_job
where state = 'ready' and suspect = 0 and queue = :queue and target = :target and lane = :lane
    and (expires_at is null or expires_at > {now}) and id <= :newest and (due_at <= :began or due_at > {now})
order by priority desc, id limit :n {skip_locked};

-- name: pick_trials
-- Ready jobs of one key for the trials of a half-open breaker: among the first :among of them, those that ran least
-- recently. :newest is null outside of a batch-only queue.
select id from tg_job where id in (
    select front.id from (
        select id, priority, last_at from tg_job
        where state = 'ready' and suspect = 0 and queue = :queue and target = :target and lane = :lane
            and (expires_at is null or expires_at > {now})
            and (cast(:newest as bigint) is null or (id <= :newest and (due_at <= :began or due_at > {now})))
        order by priority desc, id limit :among
    ) as front
    order by coalesce(front.last_at, -1), front.priority desc, front.id limit :n
) {skip_locked};

-- name: suspects
-- Ready suspects, which must run alone, by priority, then oldest first, with the seconds since they were lost and what
-- holds their keys. Up to :n of each key, so that no key hides another. :newest is null outside of a batch-only queue.
select job.id, coalesce({now} - job.last_at, 0), job.queue, job.target, job.lane, hold.reason, hold.until
from (
    select *, row_number() over (partition by queue, target, lane order by priority desc, id) as place
    from tg_job
    where state = 'ready' and suspect = 1 and (expires_at is null or expires_at > {now})
        and (cast(:newest as bigint) is null or (id <= :newest and (due_at <= :began or due_at > {now})))
) as job left join tg_hold as hold
    on hold.target = job.target and hold.lane = job.lane and hold.operation = '' and hold.reason <> 'open'
where job.place <= :n
order by job.priority desc, job.id;

-- name: pick_suspect
-- Locks one of them, unless another worker is claiming it.
select id from tg_job where id = :id and state || '' = 'ready' and suspect = 1 {skip_locked};

-- name: clear_suspects
-- Suspects that have run alone for long enough.
update tg_job set suspect = 0 from {rows id bigint, fence bigint}
where tg_job.id = given.id and tg_job.fence = given.fence and state || '' = 'running'
returning tg_job.id;

-- name: claim
-- Claims the selected jobs.
update tg_job set state = 'running', attempt = attempt + 1, fence = fence + 1, lease_by = :worker,
    lease_until = {now} + :lease, claimed_at = {now}
from {rows id bigint}
where tg_job.id = given.id and tg_job.state || '' = 'ready'
returning tg_job.id, queue, kind, target, lane, priority, attempt, most_attempts, deaths, suspect, fence, lease_until,
    claimed_at, args, saved, parents, children, created_at, expires_at, last_code;

-- name: renew
-- Renews leases. Skips locked rows: a row that is locked for a moment must not cost a worker all its leases.
with mine as materialized (
    select job.id from tg_job as job join {rows id bigint, fence bigint} on job.id = given.id and job.fence = given.fence
    where job.state || '' = 'running' {skip_locked}
)
update tg_job set lease_until = {now} + :lease from mine where tg_job.id = mine.id
returning tg_job.id, lease_until, stop_asked;

-- name: still_mine
-- Leases that were not renewed because the row was locked. An id that is not returned is lost.
select job.id, job.lease_until, job.stop_asked
from tg_job as job join {rows id bigint, fence bigint} on job.id = given.id and job.fence = given.fence
where job.state || '' = 'running';

-- name: stop_asked
-- Jobs of this worker with a cancellation request.
select id from tg_job where state = 'running' and lease_by = :worker and stop_asked = 1;

-- name: newest
select coalesce(max(id), 0) from tg_job;

-- name: ready_after
-- The number of ready jobs that were inserted or due after a batch-only run began.
select count(*) from tg_job
where state = 'ready' and queue = :queue and (id > :newest or (due_at > :began and due_at <= {now}));

-- name: save
-- The state that a handler saves for its next attempt.
update tg_job set saved = :saved where id = :id and fence = :fence and state || '' = 'running' returning id;

-- name: promote
-- Waiting jobs that are due.
with due as materialized (
    select id from tg_job where state = 'waiting' and due_at <= {now} order by due_at limit :n {skip_locked}
)
update tg_job set state = 'ready' from due where tg_job.id = due.id and tg_job.state || '' = 'waiting' returning queue;

-- name: next_due
select min(due_at) from tg_job where state = 'waiting';

-- name: lost_leases
-- Attempts with an expired lease, and whether their worker has sent a heartbeat since that was detected.
select id, queue, fence, attempt, most_attempts, claimed_at, lease_by, deaths, deaths_alone, suspect, stop_asked, children, kind,
    (select survived from tg_lost_lease as lost where lost.job = tg_job.id and lost.fence = tg_job.fence)
from tg_job
where state = 'running' and lease_until < {now} order by lease_by limit :n {skip_locked};

-- name: lease_lost
-- Records the workers of expired leases.
insert into tg_lost_lease (job, fence, worker, alone, rescued)
select given.job, given.fence, given.worker, given.alone, given.rescued
from {rows job bigint, fence bigint, worker text, alone integer, rescued integer}
where true
on conflict (job, fence) do update set rescued = excluded.rescued;

-- name: wait_for_worker
-- Extends leases of workers whose crash would fail their job: they may come back.
update tg_job set lease_until = {now} + :lease
from {rows id bigint, fence bigint}
where tg_job.id = given.id and tg_job.fence = given.fence and state || '' = 'running' and lease_until < {now};

-- name: take_back
-- Releases the job of a lost attempt: ready, suspect or final. Only a crash of a job that ran alone counts.
update tg_job set
    state = given.outcome,
    attempt = attempt - given.refund,
    deaths = deaths + 1,
    deaths_alone = deaths_alone + given.crash,
    suspect = case when given.outcome = 'ready' then 1 else 0 end,
    error_code = given.code,
    error_message = given.message,
    last_code = coalesce(given.code, last_code), last_message = coalesce(given.message, last_message), last_at = {now},
    last_status = case when given.code is null then last_status end,
    finished_at = case when given.outcome <> 'ready' then {now} end,
    lease_by = null, lease_until = null, claimed_at = null, stop_asked = 0
from {rows id bigint, fence bigint, outcome text, refund integer, crash integer, code text, message text}
where tg_job.id = given.id and tg_job.fence = given.fence and state || '' = 'running' and lease_until < {now}
returning tg_job.id, target, kind;

-- name: survived_leases
-- Lost leases of a worker that sends heartbeats again, and whether their jobs were released. A locked job waits for the
-- next heartbeat.
select lost.job, lost.fence, lost.alone, lost.rescued
from tg_lost_lease as lost join tg_job as job on job.id = lost.job
where lost.worker = :worker and lost.survived = 0 order by lost.job, lost.fence limit :n {skip_locked};

-- name: survive
update tg_lost_lease set survived = 1 from {rows job bigint, fence bigint}
where tg_lost_lease.job = given.job and tg_lost_lease.fence = given.fence;

-- name: forget_renewed
-- Leases that their worker has renewed after all. If they expire again, that is another loss.
delete from tg_lost_lease where (job, fence) in (select job, fence from {rows job bigint, fence bigint});

-- name: uncount_crashes
-- Undoes what was counted when the leases expired. A job that was not claimed since stays a suspect.
update tg_job set
    deaths_alone = deaths_alone - given.crashes,
    suspect = case when tg_job.fence = given.fence and state || '' = 'ready' then given.alone else suspect end
from {rows id bigint, crashes integer, fence bigint, alone integer}
where tg_job.id = given.id and deaths_alone >= given.crashes and state || '' not in ('done', 'failed', 'cancelled');

-- name: mine
-- Jobs that this worker holds, to find those whose claim response was lost.
select id, queue, kind, target, lane, priority, attempt, most_attempts, deaths, suspect, fence, lease_until, claimed_at,
    args, saved, parents, children, created_at, expires_at, last_code
from tg_job where state = 'running' and lease_by = :worker;

-- name: too_old
-- Expired queued jobs.
select id, queue, state, children, kind from tg_job
where expires_at is not null and state in ('blocked', 'waiting', 'ready') and expires_at <= {now}
order by expires_at limit :n {skip_locked};

-- name: fail_queued
-- Ends queued jobs without an attempt.
update tg_job set state = 'failed', parents_open = 0, error_code = :code, error_message = :message, last_code = :code,
    last_status = null, last_message = :message, last_at = {now}, finished_at = {now}
from {rows id bigint} where tg_job.id = given.id and state in ('blocked', 'waiting', 'ready')
returning tg_job.id, target, kind;

-- name: front_jobs
-- Ready jobs of a queue and a target, to end without an attempt.
select id, queue, state, children, kind from tg_job
where state = 'ready' and queue = :queue and target = :target order by lane, priority desc, id limit :n {skip_locked};
