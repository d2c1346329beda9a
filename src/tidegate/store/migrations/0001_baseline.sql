-- The schema of the core.

create table tg_store (
    name text primary key,
    value text not null
);

-- Jobs. `suspect`: the worker died while the job ran, so the next attempt runs alone; `deaths_alone` counts the crashes
-- that no other job can have caused. `due_is_date`: the caller named a date, so a step of the clock does not move it.
create table tg_job (
    id {row_number},
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
    suspect integer not null default 0 check (suspect in (0, 1)),
    deaths_alone integer not null default 0 check (deaths_alone >= 0),
    due_is_date integer not null default 0 check (due_is_date in (0, 1)),
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
    -- A unique key covers both the queued and the running state: a job moves between the two, and must not meet a duplicate.
    check (unique_while = 0 or (unique_while & 3) = 3)
) {hot};

create index tg_job_ready on tg_job (queue, target, lane, priority desc, id, kind) where state = 'ready';
create index tg_job_suspect on tg_job (priority desc, id) where state = 'ready' and suspect = 1;
create index tg_job_waiting on tg_job (due_at, queue, kind, target, id) where state = 'waiting';
create index tg_job_running on tg_job (lease_by) where state = 'running';
create index tg_job_expiring on tg_job (expires_at) where expires_at is not null and state in ('blocked', 'waiting', 'ready');
create index tg_job_final on tg_job (queue, state, finished_at) where finished_at is not null;
create unique index tg_job_unique on tg_job (kind, unique_key) where unique_key is not null and (unique_while & (case state when 'running' then 2 when 'done' then 4 when 'failed' then 8 when 'cancelled' then 16 else 1 end)) <> 0;

-- For lists, newest first.
create index tg_job_ended on tg_job (queue, kind, state, id) where finished_at is not null;
create index tg_job_ended_of on tg_job (target, id) where target <> '' and finished_at is not null;
create index tg_job_code on tg_job (last_code, id) where last_code is not null;
create index tg_job_blocked on tg_job (id, queue, kind, target) where state = 'blocked';
create index tg_job_failure on tg_job (failure, id, state) where failure is not null;

-- Most codes are rare. With the usual sample PostgreSQL may miss them all, take a code for common, and walk the primary
-- key through every job to list one.
-- only postgres
alter table tg_job alter column last_code set statistics 500;

-- only postgres
alter table tg_job alter column failure set statistics 500;

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
    id {row_number},
    queue text not null,
    what text not null,
    delta bigint not null
);

-- Leases that expired. A later heartbeat of the same worker shows that its process lives, so the job did not crash it.
-- `rescued`: the job was released, and if it ran alone, the crash was counted.
create table tg_lost_lease (
    job bigint not null references tg_job (id) on delete cascade,
    fence bigint not null,
    worker text not null,
    alone integer not null check (alone in (0, 1)),
    rescued integer not null default 0 check (rescued in (0, 1)),
    survived integer not null default 0 check (survived in (0, 1)),
    primary key (job, fence)
) {clustered};

create index tg_lost_lease_worker on tg_lost_lease (worker, job) where survived = 0;

-- Failure groups: jobs that failed with the same target, kind, code and message.
create table tg_failure (
    failure text primary key,
    target text not null,
    kind text not null,
    code text not null,
    message text not null,
    first_at double precision not null,
    last_at double precision not null,
    n bigint not null check (n > 0)
) {clustered};

create index tg_failure_last on tg_failure (last_at);

create table tg_failure_hour (
    failure text not null,
    hour bigint not null,
    n bigint not null check (n > 0),
    primary key (failure, hour)
) {clustered};

-- Each settling batch appends its failures; the leader adds them up. So workers never wait for each other here.
create table tg_failure_note (
    id {serial},
    failure text not null,
    target text not null,
    kind text not null,
    code text not null,
    message text not null,
    at double precision not null,
    n integer not null check (n > 0)
);

-- Targets: pause, breaker, capacity, and what programs report.
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

create table tg_gate_event (
    id {serial},
    at double precision not null,
    subject text not null check (subject in ('queue', 'target')),
    name text not null,
    lane text,
    kind text not null,
    actor text not null,
    fields text not null default '{}',
    written_at double precision
);

create index tg_gate_event_of on tg_gate_event (subject, name, id);
create index tg_gate_event_breaker on tg_gate_event (at) where kind = 'breaker_state_changed';

create table tg_queue (
    name text primary key,
    paused_at double precision,
    paused_until double precision,
    paused_by text,
    check ((paused_at is null) = (paused_until is null))
);

-- `beat` numbers the heartbeats: a database that does not know the last number was restored from a backup. An `outdated`
-- worker is older than the schema and claims nothing.
create table tg_worker (
    id text primary key,
    host text not null,
    pid integer not null,
    started_at double precision not null,
    seen_at double precision not null,
    queues text not null,
    stopping integer not null default 0,
    beat bigint not null default 0,
    outdated integer not null default 0 check (outdated in (0, 1))
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

-- Figures of queues and targets at the end of each five minutes, later of each hour. Counters are stored as totals, so a
-- missing row loses nothing. A row of scope 'all' marks that figures were written at that time.
create table tg_rollup (
    scope text not null check (scope in ('all', 'queue', 'target')),
    name text not null,
    at bigint not null check (at > 0 and at % 300 = 0),
    figures text not null,
    primary key (scope, name, at)
) {clustered};

create index tg_rollup_at on tg_rollup (at);

-- Notices.
create table tg_notice (
    id {serial},
    kind text not null check (kind <> ''),
    level text not null check (level in ('error', 'warning', 'success', 'info')),
    subject text not null check (subject in ('target', 'queue', 'job', 'server')),
    name text not null check (name <> ''),
    lane text not null default '',
    operation text not null default '',
    episode double precision not null,
    code text,
    title text not null check (title <> ''),
    message text not null check (message <> ''),
    advice text not null default '',
    for_user text,
    created_at double precision not null,
    ended_at double precision,
    acked_at double precision,
    acked_by text,
    decided_at double precision,
    told_at double precision,
    waits_until double precision,
    why text,
    snoozed_until double precision,
    snoozed_by text,
    round_no integer not null default 0,
    unique (kind, subject, name, lane, operation, episode),
    check (ended_at is null or ended_at >= created_at),
    check (acked_at is null or acked_at >= created_at),
    check ((acked_at is null) = (acked_by is null))
);

-- At most one open notice per kind and subject, whichever process raises it.
create unique index tg_notice_open on tg_notice (subject, name, lane, operation, kind) where ended_at is null;
create index tg_notice_unread on tg_notice (id) where acked_at is null;
create index tg_notice_ended on tg_notice (ended_at) where ended_at is not null;
create index tg_notice_undecided on tg_notice (id) where decided_at is null;
create index tg_notice_place on tg_notice (subject, name, lane, operation, id);
create index tg_notice_going_on on tg_notice (kind) where ended_at is null;
create index tg_notice_snoozed on tg_notice (snoozed_until) where snoozed_until is not null;

create table tg_delivery (
    notice bigint not null references tg_notice (id) on delete cascade,
    channel text not null check (channel <> ''),
    round_no integer not null check (round_no >= 0),
    state text not null check (state in ('queued', 'delivered', 'failed')),
    job bigint,
    instead_of text,
    created_at double precision not null,
    ended_at double precision,
    code text,
    why text,
    primary key (notice, channel, round_no),
    check ((state = 'queued') = (ended_at is null))
) {clustered};

create index tg_delivery_queued on tg_delivery (job) where state = 'queued';

create table tg_channel (
    name text primary key check (name <> ''),
    kind text not null check (kind <> ''),
    shown text not null,
    level text not null check (level in ('error', 'warning', 'success', 'info')),
    place integer not null,
    standby integer not null check (standby in (0, 1)),
    digest text not null,
    there integer not null default 1 check (there in (0, 1)),
    last_at double precision,
    last_ok integer check (last_ok in (0, 1)),
    last_why text,
    tested_at double precision,
    tested_ok integer check (tested_ok in (0, 1)),
    tested_why text,
    disabled_at double precision,
    disabled_why text,
    check ((last_at is null) = (last_ok is null)),
    check ((tested_at is null) = (tested_ok is null)),
    check ((disabled_at is null) = (disabled_why is null))
);

create table tg_address (
    who text primary key check (who <> ''),
    mail text not null check (mail <> '')
);

create table tg_mailed (
    who text not null,
    target text not null,
    at double precision not null,
    primary key (who, target)
);

-- Responses to requests with an Idempotency-Key.
create table tg_request (
    scope text not null check (scope <> ''),
    name text not null check (name <> ''),
    digest text not null check (digest <> ''),
    fence bigint not null default 1 check (fence >= 1),
    begun_at double precision not null,
    lease_until double precision,
    status integer check (status between 100 and 599),
    headers text,
    body bytea,
    primary key (scope, name),
    check ((status is null) = (lease_until is not null)),
    check ((status is null) = (headers is null)),
    check (body is null or status is not null),
    check (body is null or length(body) <= 65536)
);

create index tg_request_begun on tg_request (begun_at);

-- Users, sessions and API tokens.
create table tg_user (
    name text primary key check (name <> ''),
    role text not null check (role in ('viewer', 'operator', 'admin')),
    password text not null check (password <> ''),
    made_at double precision not null,
    changed_at double precision not null,
    seen_at double precision
);

create table tg_session (
    digest text primary key check (length(digest) = 64),
    who text not null references tg_user (name) on delete cascade,
    made_at double precision not null,
    seen_at double precision not null,
    ends_at double precision not null,
    check (ends_at > made_at)
);

create index tg_session_of on tg_session (who);
create index tg_session_ends on tg_session (ends_at);

create table tg_token (
    id {serial},
    digest text not null unique check (length(digest) = 64),
    name text not null unique check (name <> ''),
    role text not null check (role in ('viewer', 'operator', 'admin', 'poller')),
    made_by text not null,
    made_at double precision not null,
    ends_at double precision,
    used_at double precision,
    check (ends_at is null or ends_at > made_at)
);

create table tg_account_event (
    id {serial},
    at double precision not null,
    kind text not null check (kind <> ''),
    name text not null,
    actor text not null,
    fields text not null default '{}'
);

-- Bulk actions: progress, and the outcome of each job.
create table tg_bulk (
    id {serial},
    action text not null check (action in ('retry', 'cancel', 'forget')),
    filter text not null,
    actor text not null check (actor <> ''),
    origin text not null check (origin in ('page', 'api', 'cli', 'program')),
    reason text not null default '',
    state text not null default 'running' check (state in ('running', 'done', 'cancelled', 'failed')),
    expected bigint not null check (expected > 0),
    changed bigint not null default 0 check (changed >= 0),
    refused bigint not null default 0 check (refused >= 0),
    says text not null default '',
    started_at double precision not null,
    ended_at double precision,
    ended_by text,
    check (changed + refused <= expected),
    check (state <> 'done' or changed + refused = expected),
    check ((state = 'running') = (ended_at is null))
);

create index tg_bulk_running on tg_bulk (id) where state = 'running';
create index tg_bulk_ended on tg_bulk (ended_at) where ended_at is not null;

-- The batches that are left to do. The transaction that deletes a row also carries it out, so no batch runs twice.
create table tg_bulk_part (
    bulk bigint not null,
    at bigint not null,
    jobs text not null,
    primary key (bulk, at)
) {clustered};

-- Outcomes: all refusals up to a limit, and the first changes.
create table tg_bulk_item (
    bulk bigint not null,
    at bigint not null,
    job bigint not null,
    outcome text not null check (outcome in ('changed', 'refused')),
    why text not null default '',
    primary key (bulk, at)
) {clustered};

create index tg_bulk_refused on tg_bulk_item (bulk, at) where outcome = 'refused';

-- The audit log.
create table tg_activity (
    id {serial},
    at double precision not null,
    actor text not null check (actor <> ''),
    origin text not null check (origin in ('page', 'api', 'cli', 'program')),
    action text not null check (action <> ''),
    subject text not null check (subject in ('queue', 'target', 'job', 'bulk', 'notice', 'user', 'token')),
    name text not null,
    lane text,
    was text not null default '{}',
    became text not null default '{}',
    reason text not null default ''
);

create index tg_activity_by on tg_activity (actor, id);
create index tg_activity_of on tg_activity (subject, name, id);
create index tg_activity_what on tg_activity (action, id);
create index tg_activity_at on tg_activity (at);
