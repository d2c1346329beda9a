-- Jobs, their history, the state of targets, and who works.

create table tg_store (
    name text primary key,
    value text not null
);

create table tg_job (
    id {serial},
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
    -- Who is queued may run and who runs may be queued again: a unique that is held in one of the two only would meet
    -- its twin there, and no worker could go on.
    check (unique_while = 0 or (unique_while & 3) = 3)
) {hot};

create index tg_job_ready on tg_job (queue, target, lane, priority desc, id) where state = 'ready';
create index tg_job_waiting on tg_job (due_at) where state = 'waiting';
create index tg_job_running on tg_job (lease_by) where state = 'running';
create index tg_job_expiring on tg_job (expires_at) where expires_at is not null and state in ('blocked', 'waiting', 'ready');
create index tg_job_final on tg_job (queue, state, finished_at) where finished_at is not null;
create unique index tg_job_unique on tg_job (kind, unique_key) where unique_key is not null and (unique_while & (case state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0;

create table tg_link (
    parent bigint not null,
    child bigint not null,
    primary key (parent, child)
) {clustered};

create index tg_link_child on tg_link (child);

create table tg_event (
    job bigint not null,
    fence bigint not null,
    seq integer not null,
    kind text not null,
    at double precision not null,
    attempt integer not null,
    began_at double precision,
    code text,
    status integer,
    message text,
    actor text,
    primary key (job, fence, seq)
) {clustered};

create table tg_tally (
    id {serial},
    queue text not null,
    what text not null,
    delta bigint not null
);

create table tg_target (
    name text primary key,
    paused_at double precision,
    paused_until double precision,
    paused_by text,
    breaker text not null default 'closed' check (breaker in ('closed', 'half-open', 'open')),
    generation bigint not null default 0,
    breaker_since double precision not null default 0,
    breaker_until double precision,
    counts text not null default '{}',
    closed_at double precision,
    paid_until double precision,
    capacity text,
    rules text,
    reported_at double precision,
    summary text,
    check ((paused_at is null) = (paused_until is null)),
    check (breaker <> 'closed' or breaker_until is null)
);

create table tg_hold (
    target text not null,
    lane text not null,
    operation text not null default '',
    reason text not null check (reason in ('fatal', 'cooldown', 'backoff', 'retry_after', 'open')),
    since double precision not null,
    until double precision,
    failed_at double precision not null default 0,
    failures integer not null default 0 check (failures >= 0),
    code text,
    message text,
    told integer not null default 0,
    rest text,
    probe bigint,
    primary key (target, lane, operation)
) {clustered};

create table tg_queue (
    name text primary key,
    paused_at double precision,
    paused_until double precision,
    paused_by text,
    check ((paused_at is null) = (paused_until is null))
);

create table tg_worker (
    id text primary key,
    host text not null,
    pid integer not null,
    started_at double precision not null,
    seen_at double precision not null,
    queues text not null,
    stopping integer not null default 0
);

create table tg_leader (
    name text primary key,
    holder text not null,
    term bigint not null,
    until double precision not null
);

create table tg_schedule (
    name text primary key,
    last_at double precision not null
);

create table tg_gate_event (
    id {serial},
    at double precision not null,
    subject text not null check (subject in ('queue', 'target')),
    name text not null,
    lane text,
    kind text not null,
    actor text not null,
    fields text not null default '{}'
);

create index tg_gate_event_of on tg_gate_event (subject, name, id);
