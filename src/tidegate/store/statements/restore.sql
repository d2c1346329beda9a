-- Changes to a restored database, and integrity checks.

-- name: restored_fences
-- Leases from before the restore must not match any more.
update tg_job set fence = fence + :step;

-- name: restored_running
-- Attempts that ran when the backup was made no longer run. The last one does not count.
update tg_job set state = 'ready', attempt = case when attempt < most_attempts then attempt else most_attempts - 1 end,
    lease_by = null, lease_until = null, claimed_at = null, stop_asked = 0
where state = 'running' returning id, queue;

-- name: restored_probes
update tg_hold set probe = null where probe is not null;

-- name: restored_leaders
delete from tg_leader;

-- name: restored_notices
-- Deliveries that were pending when the backup was made were sent long ago.
update tg_notice set decided_at = {now}, waits_until = null, why = 'the database was put back' where decided_at is null;

-- name: restored_deliveries
update tg_delivery set state = 'failed', ended_at = {now}, code = 'restored', why = 'The database was put back.'
where state = 'queued';

-- name: restored_workers
delete from tg_worker;

-- name: restored_ids_sqlite
-- Ids that were assigned after the backup are not reused (SQLite only).
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

-- name: restored_at
insert into tg_store (name, value) values ('restored_at', cast({now} as text))
on conflict (name) do update set value = excluded.value;

-- name: counted_jobs
-- Counts every job: for the check of a database, never for a page.
select queue, state, count(*) from tg_job group by queue, state;

-- name: loose_links
-- Blocked jobs without a parent.
select count(*) from tg_job as job
where state = 'blocked' and not exists (select 1 from tg_link as link where link.child = job.id);
