-- What lists of jobs are read by, the newest first.

create index tg_job_ended on tg_job (queue, kind, state, id) where finished_at is not null;
create index tg_job_ended_of on tg_job (target, id) where target <> '' and finished_at is not null;
create index tg_job_code on tg_job (last_code, id) where last_code is not null;
create index tg_job_blocked on tg_job (id, queue, kind, target) where state = 'blocked';

-- What is queued is found without a look at its row.
drop index tg_job_ready;
create index tg_job_ready on tg_job (queue, target, lane, priority desc, id, kind) where state = 'ready';
drop index tg_job_waiting;
create index tg_job_waiting on tg_job (due_at, queue, kind, target, id) where state = 'waiting';
