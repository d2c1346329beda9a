-- What Lidarr says of an artist, an album or a track of somebody's library, or what we intend to tell it.
create table lidarr_entity (
    kind text not null check (kind in ('artist', 'album', 'track')),
    entity_id bigint not null,
    user_id text not null,
    name text not null,
    artist text not null default '',
    status text check (status in ('queued', 'pending', 'monitored', 'grabbed', 'available', 'missing', 'gave_up')),
    lidarr_id bigint,
    mbid text,
    job bigint,
    note text not null default '',
    checked_at double precision not null,
    sent boolean not null default false, -- Lidarr has taken it from us
    watched boolean not null default false, -- Lidarr has been seen to want it, or has taken it from us
    primary key (kind, entity_id)
){clustered};
create unique index lidarr_entity_job on lidarr_entity (job) where job is not null;
create index lidarr_entity_status on lidarr_entity (kind, status, entity_id);
create index lidarr_entity_mbid on lidarr_entity (mbid) where kind = 'artist';
create index lidarr_entity_unsendable on lidarr_entity (kind, entity_id) where status is null;

-- The last wake. There is one row.
create table lidarr_wake (
    id integer primary key check (id = 1),
    at double precision not null,
    ended_at double precision not null,
    eligible bigint not null,
    submitted bigint not null,
    failed bigint not null,
    remaining bigint not null,
    depth bigint,
    own bigint not null default 0,
    outcome text not null check (outcome in ('nothing', 'drained', 'full', 'held', 'stopped')),
    message text not null,
    code text,
    failures bigint not null default 0,
    failing_since double precision,
    check ((failures = 0) = (failing_since is null))
);

-- The wake that is under way, if one is.
create table lidarr_waking (
    id integer primary key check (id = 1),
    since double precision not null,
    until double precision not null -- it is dead when it was not put off by then
);

-- The last look through the library. There is one row.
create table lidarr_look (
    id integer primary key check (id = 1),
    at double precision not null,
    looked bigint not null,
    found bigint not null,
    queued bigint not null,
    message text not null default '',
    goes_on_at double precision -- when a scan that Lidarr cut short goes on; null when it is complete
);

-- What was sent, for whoever keeps a record of syncs.
create table lidarr_event (
    id {serial},
    at double precision not null,
    kind text not null check (kind in ('lidarr_artist_submitted', 'lidarr_album_submitted')),
    entity_id bigint not null,
    user_id text not null,
    lidarr_id bigint not null,
    job bigint not null
);
create index lidarr_event_at on lidarr_event (at);
