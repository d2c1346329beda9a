-- User actions on jobs.

-- name: siblings
-- All parents of the children of these parents, locked while the open ones are counted.
select id, state from tg_job where id in (
    select other.parent from tg_link as link join {rows parent bigint} on link.parent = given.parent
    join tg_link as other on other.child = link.child
) order by id {for_update};

-- name: revive_children
-- Children that failed only because of parents that are retried. Not if another parent has failed, nor if a duplicate
-- has taken the unique key.
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
-- Frees the unique key of a final job.
update tg_job set unique_key = null, unique_while = 0
where id = :id and unique_key is not null and state in ('done', 'failed', 'cancelled')
returning id;

-- name: job_state
-- Locks a job before a user action.
select queue, state, children, cancellable,
    exists (select 1 from tg_event as e where e.job = tg_job.id and e.kind in ('refused', 'barred')) as retry_forbidden
from tg_job where id = :id {for_update};

-- name: doable
-- The columns that decide which actions a user is offered.
select job.id, job.state, job.cancellable,
    exists (select 1 from tg_event as e where e.job = job.id and e.kind in ('refused', 'barred'))
from {rows id bigint} join tg_job as job on job.id = given.id;

-- name: retry
-- Retries a failed job for a user: attempts restart, history and fence stay, and it no longer expires.
update tg_job set state = case when :parents_open > 0 then 'blocked' else 'ready' end, parents_open = :parents_open,
    attempt = 0, deaths = 0, deaths_alone = 0, suspect = 0, due_at = {now}, expires_at = null, error_code = null,
    error_message = null, finished_at = null, manual_retries = manual_retries + 1
where id = :id and state in ('failed', 'cancelled')
returning state;

-- name: forget_lost_leases
-- Resets the crash count of a job.
delete from tg_lost_lease where job = :job;

-- name: bring_forward
-- Makes a waiting job ready now, for a user.
update tg_job set state = 'ready', due_at = {now} where id = :id and state = 'waiting' returning queue;

-- name: first_ready
-- The job of a key that is claimed next.
select id from tg_job where state = 'ready' and queue = :queue and target = :target and lane = :lane
order by priority desc, id limit 1;

-- name: retrying_of
-- Jobs of a target that wait for a retry, the earliest first.
select id, lane from tg_job
where state = 'waiting' and target = :target and attempt > 0 and last_code is not null
    and (:any_lane = 1 or lane = :lane)
order by due_at, id limit :n;

-- name: cancel_waiting
update tg_job set state = 'cancelled', parents_open = 0, finished_at = {now}
where id = :id and state in ('blocked', 'waiting', 'ready') returning id;

-- name: cancel_running
update tg_job set stop_asked = 1 where id = :id and state || '' = 'running' returning lease_by;

-- name: forget_lock
-- Runs before the search for children: from now on no child can be added.
select id from tg_job where id in (select id from {rows id bigint}) order by id {for_update};

-- name: forget
-- Deletes final jobs and their unique keys, except if an unfinished child needs the result. :pruned = 1 also keeps
-- failed parents.
delete from tg_job where id in (select id from {rows id bigint}) and state in ('done', 'failed', 'cancelled')
    and not ((state = 'done' or :pruned = 1) and exists (
        select 1 from tg_link as link join tg_job as child on child.id = link.child
        where link.parent = tg_job.id and child.state in ('blocked', 'waiting', 'ready', 'running')
    ))
returning id, queue, state, children;

-- name: unfinished_children
select child.id from tg_link as link join tg_job as child on child.id = link.child
where link.parent = :id and child.state in ('blocked', 'waiting', 'ready', 'running')
order by child.id limit 1;

-- name: forgotten
-- No later job may reuse the id of a deleted one.
insert into tg_store (name, value) values ('forgotten', :id)
on conflict (name) do update set value = excluded.value where cast(tg_store.value as bigint) < cast(excluded.value as bigint);

-- name: forget_events
delete from tg_event where job in (select id from {rows id bigint});

-- name: forget_children
delete from tg_link where parent in (select id from {rows id bigint});

-- name: forget_parents
delete from tg_link where child in (select id from {rows id bigint});

-- name: old_jobs
-- Final jobs past their retention without unfinished children, in batches.
select id from tg_job as old
where finished_at is not null and queue = :queue and state = :state and finished_at < :before
    and not exists (
        select 1 from tg_link as link join tg_job as child on child.id = link.child
        where link.parent = old.id and child.state in ('blocked', 'waiting', 'ready', 'running')
    )
order by finished_at limit :n;
