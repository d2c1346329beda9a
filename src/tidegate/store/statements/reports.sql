-- Reports for pages and checks.

-- name: holds_added_up
-- The held keys of all targets or of one, by reason.
select target, reason, count(*) as n, min(since) as since, min(until) as until, max(failures) as failures,
    case when min(code) = max(code) then min(code) end as code,
    case when min(message) = max(message) then min(message) end as message, min(lane) as key, max(rest) as rest
from tg_hold where reason <> 'open' and (:target = '' or target = :target) group by target, reason
order by target, reason;

-- name: running_by_target
select target, count(*) from tg_job where state = 'running' group by target;

-- name: targets_tried
-- Those of the targets that a job has called: one that ended after an attempt.
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
-- The number of jobs of a queue that were done since a time, and when the first one was, up to :n.
select count(*), min(finished_at) from (
    select finished_at from tg_job
    where finished_at is not null and queue = :queue and state = 'done' and finished_at > :since
    order by finished_at desc limit :n
) as lately;

-- name: unclassified_jobs
-- The most recent jobs with an unclassified fault that have not succeeded since.
select count(*) from (
    select state from tg_job where last_code = 'unexpected' and last_code is not null order by id desc limit :n
) as unclassified where state <> 'done';

-- name: retriable_in
-- The queues with a failed job that can be retried. Reads up to the last :n jobs of each.
select given.queue from {rows queue text} where exists (
    select 1 from (
        select id from tg_job as job where job.queue = given.queue and job.state = 'failed' and job.finished_at is not null
        order by job.finished_at desc limit :n
    ) as failed
    where not exists (select 1 from tg_event as e where e.job = failed.id and e.kind in ('refused', 'barred'))
);

-- name: happenings
-- The events after an id, in order.
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where id > :after and id <= :newest and (:subject = '' or subject = :subject) order by id limit :n;

-- name: happenings_of
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where subject = :subject and name = :name and id > :after and id <= :newest order by id limit :n;

-- name: happenings_recent
-- The latest ids, and their age.
select id, {now} - coalesce(written_at, 0) as age from tg_gate_event order by id desc limit :n;

-- name: oldest_ready
-- When the oldest ready job of a queue was inserted. The sum keeps PostgreSQL from scanning all ids for it.
select created_at from tg_job where id = (select min(id + 0) from tg_job where state = 'ready' and queue = :queue);

-- name: late_leases
-- The number of running jobs with an expired lease, and when the first one expired.
select count(*), min(lease_until) from tg_job where state = 'running' and lease_until < {now};

-- name: ready_before
-- How many ready jobs of its key precede a job, up to :n.
select count(*) from (
    select id from tg_job
    where state = 'ready' and queue = :queue and target = :target and lane = :lane
        and (priority > :priority or (priority = :priority and id < :id))
    limit :n
) as before_it;
