-- One job, its history and its parents.

-- name: parent_results
select link.child, parent.id, parent.kind, parent.result
from tg_link as link join tg_job as parent on parent.id = link.parent
where link.child = :child order by parent.id;

-- name: job
select id, queue, kind, target, lane, state, priority, created_at, due_at, expires_at, args, attempt, most_attempts,
    deaths, fence, lease_by, lease_until, claimed_at, stop_asked, saved, result, error_code, error_message, last_code,
    last_status, last_message, last_at, finished_at, unique_key, unique_while, parents_open, children, manual_retries,
    cancellable, deaths_alone, suspect
from tg_job where id = :id;

-- name: events
select kind, at, attempt, fence, began_at, code, status, message, actor from tg_event
where job = :job order by fence, seq;

-- name: open_parents
select parent.id, parent.state from tg_link as link join tg_job as parent on parent.id = link.parent
where link.child = :child and parent.state <> 'done' order by parent.id;

-- name: parents_of
-- The parents of a job, locked.
select id, state from tg_job where id in (select parent from tg_link where child = :child) order by id {for_update};
