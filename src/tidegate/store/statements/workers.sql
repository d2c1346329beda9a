-- Workers, leadership and schedules.

-- name: worker_seen
-- A delayed heartbeat may arrive after the next one.
insert into tg_worker (id, host, pid, started_at, seen_at, queues, stopping, outdated, beat)
values (:id, :host, :pid, {now}, {now}, :queues, :stopping, :outdated, :beat)
on conflict (id) do update set seen_at = excluded.seen_at, queues = excluded.queues, stopping = excluded.stopping,
    outdated = excluded.outdated, beat = case when excluded.beat > tg_worker.beat then excluded.beat else tg_worker.beat end;

-- name: worker_beat
-- The last heartbeat of a worker in this database, and how often the database was restored.
select (select beat from tg_worker where id = :id), (select value from tg_store where name = 'epoch');

-- name: unknown_leases
-- Leases of a worker that this database never assigned: the job has a lower fence, or the same one for another worker.
select job.id from tg_job as job, {rows id bigint, fence bigint} where job.id = given.id
and (job.fence < given.fence or (job.fence = given.fence and job.state || '' = 'running' and job.lease_by <> :worker));

-- name: last_id_postgres
-- The last job id that was assigned, even if the job is gone (PostgreSQL only).
select coalesce(pg_sequence_last_value(pg_get_serial_sequence('tg_job', 'id')), 0);

-- name: worker_gone
delete from tg_worker where id = :id;

-- name: workers_forget
-- Workers without a heartbeat since :before.
delete from tg_worker where id in (
    select id from tg_worker where seen_at < :before order by id limit :n {skip_locked}
) returning id;

-- name: workers
select id, host, pid, started_at, seen_at, queues, stopping, outdated from tg_worker order by started_at;

-- name: workers_at_work
-- Workers that claim jobs and sent a heartbeat within :seconds, oldest first, and the time.
select id, host, pid, queues, {now} from tg_worker
where stopping = 0 and outdated = 0 and seen_at > {now} - :seconds order by started_at, id;

-- name: lead
-- Acquires or renews the leadership. No row if another worker has it.
insert into tg_leader (name, holder, term, until) values (:name, :holder, 1, {now} + :lease)
on conflict (name) do update set holder = excluded.holder, until = excluded.until,
    term = case when tg_leader.holder = excluded.holder then tg_leader.term else tg_leader.term + 1 end
where tg_leader.holder = excluded.holder or tg_leader.until < {now}
returning term;

-- name: leads_forget
-- Expired leadership.
delete from tg_leader where name in (
    select name from tg_leader where until < {now} order by name limit :n {skip_locked}
) returning name;

-- name: schedule_begin
-- A new schedule, or one whose last tick is ahead of a clock that was set back.
insert into tg_schedule (name, last_at) values (:name, :at)
on conflict (name) do update set last_at = excluded.last_at where tg_schedule.last_at > excluded.last_at;

-- name: schedule_tick
-- One tick of a schedule. No row if another worker has it.
insert into tg_schedule (name, last_at) values (:name, :at)
on conflict (name) do update set last_at = excluded.last_at where tg_schedule.last_at < excluded.last_at
returning name;

-- name: schedule_last
select last_at from tg_schedule where name = :name;

-- name: notify
-- Wakes the workers of all hosts (PostgreSQL only).
select pg_notify('tidegate', '');
