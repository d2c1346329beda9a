-- Bulk actions.

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
-- The same, locked until the transaction ends.
select id, action, filter, actor, origin, reason, state, expected, changed, refused, says, started_at, ended_at,
    ended_by
from tg_bulk where id = :id {for_update};

-- name: bulks
-- Newest first.
select id, action, filter, actor, origin, reason, state, expected, changed, refused, says, started_at, ended_at,
    ended_by
from tg_bulk where id < :before order by id desc limit :n;

-- name: bulks_running
-- Progress of running bulk actions, oldest first.
select id, changed + refused from tg_bulk where state = 'running' order by id;

-- name: bulk_part_take
-- Takes the next batch: no other process can get it.
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
-- Releases the leadership, so that another process can take it at once.
delete from tg_leader where name = :name and holder = :holder;
