-- What is done to many jobs at once, as a thing of its own: how far it is, and what became of each. And who did what.

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

-- What is still to be done, a slice in a row. Whoever removes the row does it, in the same transaction: never twice.
create table tg_bulk_part (
    bulk bigint not null,
    at bigint not null,
    jobs text not null,
    primary key (bulk, at)
) {clustered};

-- What became of a job: of all that were refused, up to a bound, and of the first that were not.
create table tg_bulk_item (
    bulk bigint not null,
    at bigint not null,
    job bigint not null,
    outcome text not null check (outcome in ('changed', 'refused')),
    why text not null default '',
    primary key (bulk, at)
) {clustered};

create index tg_bulk_refused on tg_bulk_item (bulk, at) where outcome = 'refused';

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
