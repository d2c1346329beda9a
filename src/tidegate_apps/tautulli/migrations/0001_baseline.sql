-- The history as Tautulli has it, one row for each play. The address of a viewer is not kept.
create table tautulli_play (
    row_id bigint primary key,
    reference_id bigint,
    started bigint not null,
    stopped bigint,
    duration bigint not null check (duration >= 0),
    paused bigint not null check (paused >= 0),
    user_id bigint,
    person text not null check (person <> ''),
    platform text not null,
    product text not null,
    player text not null,
    media_type text not null,
    rating_key bigint,
    show text not null check (show <> ''),
    full_title text not null,
    year bigint,
    transcode_decision text not null,
    percent_complete bigint,
    watched_status double precision
);
-- One index, which grows at its end: an index per filter doubled the writes of a sync.
create index tautulli_play_sought on tautulli_play (started, row_id, person, show, platform, media_type, duration);

-- What the charts are drawn from: plays by the hour since 1970, in UTC, and by the quarter of an hour for time zones whose
-- hours begin within one of UTC. `width` is so many seconds.
create table tautulli_time (
    width integer not null check (width in (900, 3600)),
    at bigint not null,
    plays bigint not null,
    seconds bigint not null,
    primary key (width, at)
){clustered};

-- Plays by quarter of an hour of the day (UTC) and by periods of 28 days since 1970: the chart of the hours. A time zone
-- moves hours by whole quarters.
create table tautulli_clock (
    stretch bigint not null,
    quarter integer not null check (quarter >= 0 and quarter < 96),
    plays bigint not null,
    seconds bigint not null,
    primary key (stretch, quarter)
){clustered};

-- What the lists of the most played are read from: by the day since 1970, by the week and the month, and in all.
create table tautulli_tally (
    kind text not null check (kind in ('person', 'show', 'platform')),
    grain text not null check (grain in ('day', 'week', 'month', 'all')),
    at bigint not null,
    name text not null,
    plays bigint not null,
    seconds bigint not null,
    primary key (kind, grain, at, name),
    check (grain <> 'all' or at = 0)
){clustered};

-- How far the sync is, and how it went. `row_id` and `started` are those of rows that were seen, and nothing else moves
-- them; `synced_at` is when all that Tautulli had was here. `missing` is how many rows more it had at the end of a sync
-- than are stored: those that are no plays, less those that were deleted there.
create table tautulli_state (
    id integer primary key check (id = 1),
    row_id bigint not null default 0,
    started bigint,
    missing bigint,
    synced_at double precision,
    empty_at double precision,
    empty_believed integer not null default 0 check (empty_believed in (0, 1)),
    tried_at double precision,
    outcome text check (outcome in ('synced', 'skipped', 'throttled', 'failed')),
    code text,
    message text,
    breaker text,
    check ((row_id = 0) = (started is null)),
    check ((outcome is null) = (tried_at is null)),
    check (outcome <> 'failed' or code is not null),
    check (empty_at is not null or empty_believed = 0)
);
insert into tautulli_state (id) values (1);
