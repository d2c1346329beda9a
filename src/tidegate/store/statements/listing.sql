-- Job lists, page by page.

-- name: list_id_at
-- The last job that was created up to a time, by binary search: ids grow with time. 0 without one.
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
-- Every queue and kind of ended jobs, or every kind of one queue: one index lookup each.
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
-- The last of the newest :n jobs before an id.
select id from tg_job where id < :before and id > :above order by id desc limit 1 offset :last;

-- name: list_any_all
-- The number of jobs, up to :n.
select count(*) from (select id from tg_job where id < :before and id > :above order by id desc limit :n) as counted;

-- name: list_any
select job.id, job.queue, job.kind, job.target, job.lane as key, job.state as stage, job.priority, job.created_at,
    job.due_at, job.attempt, job.most_attempts, job.last_code as code, job.finished_at
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
-- The same for each queue, kind and state, and the first of them. Null if there are fewer.
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
select job.id, job.queue, job.kind, job.target, job.lane as key, job.state as stage, job.priority, job.created_at,
    job.due_at, job.attempt, job.most_attempts, job.last_code as code, job.finished_at
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
-- Ended jobs of a target.
select job.id, job.queue, job.kind, job.target, job.lane as key, job.state as stage, job.priority, job.created_at,
    job.due_at, job.attempt, job.most_attempts, job.last_code as code, job.finished_at
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

-- name: list_of_<by>_floor of last_code, failure
select id from tg_job
where <by> = :<by> and <by> is not null and id < :before and id > :above
order by id desc limit 1 offset :last;

-- name: list_of_<by>_all of last_code, failure
select count(*) from (
    select id from tg_job
    where <by> = :<by> and <by> is not null and id < :before and id > :above
    order by id desc limit :n
) as counted;

-- name: list_of_<by> of last_code, failure
select job.id, job.queue, job.kind, job.target, job.lane as key, job.state as stage, job.priority, job.created_at,
    job.due_at, job.attempt, job.most_attempts, job.last_code as code, job.finished_at
from tg_job as job
where job.<by> = :<by> and job.<by> is not null and job.id >= :floor and job.id < :before
    and job.created_at >= :earliest and job.created_at <= :latest
    and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind) and (:target = '' or job.target = :target)
    and (:code = '' or job.last_code = :code)
    and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
order by job.id desc limit :n;

-- name: list_of_<by>_count of last_code, failure
select count(*) from (
    select job.id from tg_job as job
    where job.<by> = :<by> and job.<by> is not null and job.id >= :floor and job.id < :before
        and job.created_at >= :earliest and job.created_at <= :latest
        and (:queue = '' or job.queue = :queue) and (:kind = '' or job.kind = :kind)
        and (:target = '' or job.target = :target) and (:code = '' or job.last_code = :code)
        and (:state = '' or job.state = :state or (:state = 'queued' and job.state in ('blocked', 'waiting', 'ready')))
    limit :n
) as counted;

-- name: list_rows
select job.id, job.queue, job.kind, job.target, job.lane as key, job.state as stage, job.priority, job.created_at,
    job.due_at, job.attempt, job.most_attempts, job.last_code as code, job.finished_at
from {rows id bigint} join tg_job as job on job.id = given.id;

-- name: list_<state> of ready, waiting, running
-- Jobs of a queue in one state. The sum keeps the databases from scanning all ids for the newest ones.
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
-- Jobs of a queue that wait for parents.
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
-- Every code of a last failure: one index lookup each.
with recursive code_of (code, n) as (
    select min(last_code), 1 from tg_job where last_code is not null
    union all
    select (select min(job.last_code) from tg_job as job where job.last_code is not null and job.last_code > code_of.code),
        code_of.n + 1
    from code_of where code_of.code is not null and code_of.n < :most
)
select code from code_of where code is not null;

-- name: list_newest_kinds
-- The kinds of the newest jobs, including unfinished ones.
select distinct kind from (select kind from tg_job order by id desc limit :n) as newest;
