-- Who may use the server: people with passwords, their sessions, and tokens of programs.

create table tg_user (
    name text primary key check (name <> ''),
    role text not null check (role in ('viewer', 'operator', 'admin')),
    password text not null check (password <> ''),
    made_at double precision not null,
    changed_at double precision not null
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
