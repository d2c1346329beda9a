-- Inserting jobs.

-- name: enqueue
-- New jobs. A duplicate with the same unique key inserts no row.
insert into tg_job ({job}queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args, most_attempts,
                    unique_key, unique_while, parents, parents_open, cancellable, due_is_date)
select {job_number}given.queue, given.kind, given.target, given.lane,
       case when given.parents_open > 0 then 'blocked'
            when given.due_at > {now} or given.due_in > 0 then 'waiting' else 'ready' end,
       given.priority, {now}, coalesce(given.due_at, {now} + given.due_in, {now}), {now} + given.expires_in, given.args,
       given.most_attempts,
       given.unique_key, given.unique_while, given.parents, given.parents_open, given.cancellable,
       case when given.due_at is null then 0 else 1 end
from {rows queue text, kind text, target text, lane text, priority integer, due_at double precision, due_in double precision, expires_in double precision, args text, most_attempts integer, unique_key text, unique_while integer, parents integer, parents_open integer, cancellable integer}
where true
on conflict (kind, unique_key) where unique_key is not null and (unique_while & (case state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0
do nothing
returning id, kind, unique_key, state;

-- name: enqueue_one
-- One new job without a unique key and parents, the common case.
insert into tg_job ({job}queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args, most_attempts,
                    cancellable, due_is_date)
values ({job_number}:queue, :kind, :target, :lane,
        case when cast(:due_at as double precision) > {now} or cast(:due_in as double precision) > 0
             then 'waiting' else 'ready' end,
        :priority, {now}, coalesce(:due_at, {now} + :due_in, {now}), {now} + :expires_in, :args, :most_attempts,
        :cancellable, case when cast(:due_at as double precision) is null then 0 else 1 end)
returning id, state;

-- name: twins
-- The jobs that have these unique keys.
select job.id, job.kind, job.unique_key
from tg_job as job join {rows kind text, unique_key text} on job.kind = given.kind and job.unique_key = given.unique_key
where job.unique_key is not null and (job.unique_while & (case job.state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0;

-- name: refuse
-- A job that failed on insertion. It has no unique key.
insert into tg_job ({job}queue, kind, target, lane, state, priority, created_at, due_at, args, most_attempts, error_code,
                    error_message, last_code, last_message, last_at, finished_at)
values ({job_number}:queue, :kind, :target, :lane, 'failed', 0, {now}, {now}, :args, :most_attempts, :code,
        :message, :code, :message, {now}, {now})
returning id;

-- name: parents
-- Parents, locked until the child is linked. Locked in id order to avoid deadlocks.
select job.id, job.state from tg_job as job join {rows id bigint} on job.id = given.id order by job.id {for_update};

-- name: adopt_children
-- Increases the child counts of parents.
update tg_job set children = children + given.n from {rows id bigint, n integer} where tg_job.id = given.id;

-- name: link
insert into tg_link (parent, child) select given.parent, given.child from {rows parent bigint, child bigint} where true
on conflict (parent, child) do nothing;
