-- What the source manager keeps. The time from which a feed may be polled is stored, so that one index answers for it:
-- 0 while it is active, the end of its rest, or null while only a person can begin it again.
create table feeds_source (
    id {serial},
    name text not null check (name <> ''),
    feed_url text,
    interval_s double precision not null check (interval_s > 0),
    enabled integer not null default 1 check (enabled in (0, 1)),
    feed_disabled_at double precision,
    feed_disable_reason text check (feed_disable_reason in
        ('forbidden', 'not_found', 'gone', 'upstream_failure', 'network', 'parse_error', 'manual')),
    disabled_by text,
    active_from double precision,
    created_at double precision not null,
    check ((feed_disabled_at is null) = (feed_disable_reason is null)),
    check ((feed_disabled_at is null) = (disabled_by is null)),
    check (active_from is null or (enabled = 1 and feed_url is not null and feed_url <> '')),
    check (feed_disabled_at is not null or active_from is null or active_from = 0),
    check (feed_disable_reason is null or feed_disable_reason <> 'manual' or active_from is null)
);
create unique index feeds_source_url on feeds_source (feed_url) where feed_url is not null and feed_url <> '';
create index feeds_source_active on feeds_source (active_from, id) where active_from is not null;

-- What the poller knows of a feed. `every_s`: seconds between two successful polls, with what the feed asks for; null
-- before the first success. `fence` grows with each poll that counts: two pollers never both write.
create table feeds_state (
    source_id bigint primary key,
    name text not null,
    feed_url text not null,
    host text not null,
    interval_s double precision not null,
    every_s double precision,
    due_at double precision,
    due_why text not null default 'new',
    fence bigint not null default 0,
    consecutive_errors integer not null default 0 check (consecutive_errors >= 0),
    run_type text,
    run_length integer not null default 0,
    last_error text,
    last_error_type text,
    last_status integer,
    rest_at double precision,
    rest_until double precision,
    rest_reason text,
    rest_by text,
    told integer not null default 1 check (told in (0, 1)),
    etag text,
    last_modified text,
    validated_at double precision,
    body_hash text,
    moved_to text,
    moved_times integer not null default 0,
    hints text,
    title text,
    link text,
    malformed text,
    items integer not null default 0,
    last_polled_at double precision,
    last_success_at double precision,
    last_new_at double precision,
    check ((rest_at is null) = (rest_reason is null)),
    check ((run_type is null) = (run_length = 0))
){hot};
create index feeds_state_due on feeds_state (due_at, source_id) where due_at is not null;
create index feeds_state_error on feeds_state (last_error_type, source_id) where last_error_type is not null;

create table feeds_item (
    id {serial},
    source_id bigint not null,
    ident text not null,
    guid text,
    link text,
    title text not null,
    author text,
    summary text,
    published_at double precision,
    hash text not null,
    seen_at double precision not null,
    changed_at double precision not null,
    unique (source_id, ident)
);
create index feeds_item_newest on feeds_item (source_id, id);

-- One row per poll, for the bar of a day and for the history.
create table feeds_beat (
    source_id bigint not null,
    at double precision not null,
    outcome text not null,
    status integer not null,
    ms integer not null,
    fresh integer not null default 0,
    detail text,
    primary key (source_id, at)
){clustered};
create index feeds_beat_age on feeds_beat (at);

-- What happened to a source otherwise: added, disabled, enabled, moved, changed.
create table feeds_event (
    id {serial},
    source_id bigint not null,
    at double precision not null,
    kind text not null,
    actor text not null,
    detail text
);
create index feeds_event_source on feeds_event (source_id, id);
create index feeds_source_disabled on feeds_source (id) where feed_disabled_at is not null;

-- Polls since the beginning, by how they ended: histories are forgotten, and counters never fall.
create table feeds_count (
    outcome text primary key,
    polls bigint not null,
    ms bigint not null,
    fresh bigint not null
);
