-- On SQLite `autoincrement` keeps the last number of a table in a page of its own, which every new job then writes as
-- well. No number of a job is given twice without it: a new job gets the one after the highest there is, or after the
-- highest that was forgotten.

-- only sqlite
insert into tg_store (name, value) select 'forgotten', cast(seq as text) from sqlite_sequence where name = 'tg_job';

-- only sqlite
create table tg_job_next (
    id integer primary key,
    queue text not null,
    kind text not null,
    target text not null default '',
    lane text not null default '',
    state text not null check (state in ('blocked', 'waiting', 'ready', 'running', 'done', 'failed', 'cancelled')),
    priority integer not null default 0,
    created_at double precision not null,
    due_at double precision not null,
    expires_at double precision,
    args text not null,
    attempt integer not null default 0 check (attempt >= 0),
    most_attempts integer not null check (most_attempts >= 1),
    deaths integer not null default 0 check (deaths >= 0),
    fence bigint not null default 0 check (fence >= 0),
    lease_by text,
    lease_until double precision,
    claimed_at double precision,
    stop_asked integer not null default 0 check (stop_asked in (0, 1)),
    saved text,
    result text,
    error_code text,
    error_message text,
    last_code text,
    last_status integer,
    last_message text,
    last_at double precision,
    finished_at double precision,
    unique_key text,
    unique_while integer not null default 0 check (unique_while between 0 and 31),
    parents integer not null default 0 check (parents >= 0),
    parents_open integer not null default 0 check (parents_open >= 0),
    children integer not null default 0 check (children >= 0),
    manual_retries integer not null default 0 check (manual_retries >= 0),
    cancellable integer not null default 1 check (cancellable in (0, 1)),
    failure text,
    check ((state = 'running') = (lease_by is not null)),
    check ((state = 'running') = (lease_until is not null)),
    check ((state = 'running') = (claimed_at is not null)),
    check (stop_asked = 0 or state = 'running'),
    check (cancellable = 1 or (stop_asked = 0 and state <> 'cancelled')),
    check ((state in ('done', 'failed', 'cancelled')) = (finished_at is not null)),
    check ((state = 'failed') = (error_code is not null)),
    check ((state = 'failed') = (error_message is not null)),
    check (result is null or state = 'done'),
    check ((state = 'blocked') = (parents_open > 0)),
    check (attempt > 0 or state not in ('running', 'done')),
    check ((unique_key is null) = (unique_while = 0)),
    check (unique_while = 0 or (unique_while & 3) = 3)
);

-- only sqlite
insert into tg_job_next select * from tg_job;

-- only sqlite
drop table tg_job;

-- only sqlite
alter table tg_job_next rename to tg_job;

-- only sqlite
create index tg_job_running on tg_job (lease_by) where state = 'running';

-- only sqlite
create index tg_job_expiring on tg_job (expires_at) where expires_at is not null and state in ('blocked', 'waiting', 'ready');

-- only sqlite
create index tg_job_final on tg_job (queue, state, finished_at) where finished_at is not null;

-- only sqlite
create unique index tg_job_unique on tg_job (kind, unique_key) where unique_key is not null and (unique_while & (case state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0;

-- only sqlite
create index tg_job_ended on tg_job (queue, kind, state, id) where finished_at is not null;

-- only sqlite
create index tg_job_ended_of on tg_job (target, id) where target <> '' and finished_at is not null;

-- only sqlite
create index tg_job_code on tg_job (last_code, id) where last_code is not null;

-- only sqlite
create index tg_job_blocked on tg_job (id, queue, kind, target) where state = 'blocked';

-- only sqlite
create index tg_job_ready on tg_job (queue, target, lane, priority desc, id, kind) where state = 'ready';

-- only sqlite
create index tg_job_waiting on tg_job (due_at, queue, kind, target, id) where state = 'waiting';

-- only sqlite
create index tg_job_failure on tg_job (failure, id, state) where failure is not null;

-- The numbers of tallies say nothing.
-- only sqlite
create table tg_tally_next (
    id integer primary key,
    queue text not null,
    what text not null,
    delta bigint not null
);

-- only sqlite
insert into tg_tally_next select * from tg_tally;

-- only sqlite
drop table tg_tally;

-- only sqlite
alter table tg_tally_next rename to tg_tally;
