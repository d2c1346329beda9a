-- Failure groups.

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
-- The most recent groups.
select failure, target, kind, code, message, first_at, last_at, n from tg_failure order by last_at desc limit :n;

-- name: failure_hours
select hours.failure, hours.hour, hours.n from tg_failure_hour as hours join {rows failure text} on hours.failure = given.failure
where hours.hour > :since;

-- name: failure_jobs
-- Per group, the number of jobs that failed for good and of jobs that will be retried, up to :n.
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

-- name: failure_retriable
-- The groups with a failed job that can be retried. Reads up to :n jobs of each.
select given.failure from {rows failure text} where exists (
    select 1 from (
        select id from tg_job as job where job.failure = given.failure and job.failure is not null and job.state = 'failed'
        limit :n
    ) as failed
    where not exists (select 1 from tg_event as e where e.job = failed.id and e.kind in ('refused', 'barred'))
);

-- name: failures_prune
delete from tg_failure where failure in (select failure from tg_failure where last_at < :before order by last_at limit :n)
returning failure;

-- name: failure_hours_prune
delete from tg_failure_hour where (failure, hour) in (
    select failure, hour from tg_failure_hour where hour < :before limit :n
) returning hour;
