-- What people should read, the answers to requests that may be sent again, and when an event was written.

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
    unique (kind, subject, name, lane, operation, episode),
    check (ended_at is null or ended_at >= created_at),
    check (acked_at is null or acked_at >= created_at),
    check ((acked_at is null) = (acked_by is null))
);

-- Of the same trouble at the same place only one is open, whichever process tells of it.
create unique index tg_notice_open on tg_notice (subject, name, lane, operation, kind) where ended_at is null;
create index tg_notice_unread on tg_notice (id) where acked_at is null;
create index tg_notice_ended on tg_notice (ended_at) where ended_at is not null;

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

alter table tg_gate_event add column written_at double precision;
