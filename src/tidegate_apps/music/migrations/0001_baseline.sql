-- Whose music there is. Whoever writes for a user keeps this row still, so that two providers never make one artist twice.
create table music_user (
    user_id text primary key check (user_id <> ''),
    made_at double precision not null
);

-- A user's way to a provider. What is secret is encrypted. `generation` grows with each new set of credentials, `version`
-- with every change, so that whoever syncs sees both. `account` tells whether it leads to the same one as before.
create table music_connection (
    user_id text not null,
    provider text not null,
    shown text not null,
    kept text not null,
    generation bigint not null default 1 check (generation > 0),
    version bigint not null,
    connected_at double precision not null,
    asked_at double precision not null default 0,
    removed_at double precision,
    declared text not null default '',
    account text not null default '',
    primary key (user_id, provider)
);
create table music_counter (
    name text primary key,
    value bigint not null
){clustered};
create unique index music_connection_version on music_connection (version);

-- How far an operation has come; written with the rows that it tells of. `looked_at`: when what lies before the mark was
-- last read again, for what is handed in late.
create table music_mark (
    user_id text not null,
    provider text not null,
    operation text not null,
    mark text not null,
    moved_at double precision not null,
    looked_at double precision not null default 0,
    primary key (user_id, provider, operation)
){clustered};

-- How an operation is, as people read it. What decides is in memory of whoever syncs, unless the settings keep it here.
create table music_state (
    user_id text not null,
    provider text not null,
    operation text not null,
    tried_at double precision,
    success_at double precision,
    began_at double precision,
    items bigint not null default 0,
    bad bigint not null default 0,
    failures integer not null default 0 check (failures >= 0),
    failed_since double precision,
    code text,
    message text,
    advice text,
    detail text,
    held text check (held in ('backoff', 'retry_after', 'fatal', 'other')),
    next_at double precision,
    primary key (user_id, provider, operation),
    check ((failures = 0) = (code is null))
){clustered};

-- What whoever syncs knows of keys that are not well, where the settings keep it; operation '' is the whole key.
create table music_health (
    user_id text not null,
    provider text not null,
    operation text not null,
    failures integer not null check (failures > 0),
    since double precision not null,
    until double precision,
    code text not null,
    detail text not null default '',
    primary key (user_id, provider, operation)
){clustered};

-- Rows that could not be read, the newest few of each operation.
create table music_bad (
    id {serial},
    user_id text not null,
    provider text not null,
    operation text not null,
    at double precision not null,
    excerpt text not null,
    why text not null
);
create index music_bad_of on music_bad (user_id, provider, operation, id);

-- `name_key` is the name without what people write differently. A name stands once without a MusicBrainz id, and an id
-- stands once.
create table music_artist (
    id {serial},
    user_id text not null,
    name text not null,
    name_key text not null,
    mbid text,
    plays bigint not null default 0,
    played_at double precision,
    ids_at double precision,
    art_at double precision,
    art text,
    tags_at double precision,
    tags text not null default ''
);
create unique index music_artist_mbid on music_artist (user_id, mbid) where mbid is not null;
create unique index music_artist_bare on music_artist (user_id, name_key) where mbid is null;
create index music_artist_key on music_artist (user_id, name_key, id);
create index music_artist_plays on music_artist (user_id, plays, id);
create index music_artist_id on music_artist (user_id, id);

create table music_album (
    id {serial},
    user_id text not null,
    artist_id bigint not null,
    title text not null,
    name_key text not null,
    mbid text,
    plays bigint not null default 0,
    played_at double precision,
    ids_at double precision,
    art_at double precision,
    art text
);
create unique index music_album_mbid on music_album (user_id, mbid) where mbid is not null;
create unique index music_album_bare on music_album (user_id, artist_id, name_key) where mbid is null;
create index music_album_artist on music_album (artist_id, name_key, id);
create index music_album_plays on music_album (user_id, plays, id);
create index music_album_key on music_album (user_id, name_key, id);
create index music_album_id on music_album (user_id, id);

create table music_track (
    id {serial},
    user_id text not null,
    artist_id bigint not null,
    album_id bigint,
    title text not null,
    name_key text not null,
    mbid text,
    isrc text,
    seconds double precision,
    plays bigint not null default 0,
    played_at double precision,
    ids_at double precision
);
create unique index music_track_mbid on music_track (user_id, mbid) where mbid is not null;
create unique index music_track_bare on music_track (user_id, artist_id, name_key) where mbid is null;
create index music_track_artist on music_track (artist_id, name_key, id);
create index music_track_album on music_track (album_id, id);
create index music_track_plays on music_track (user_id, plays, id);
create index music_track_key on music_track (user_id, name_key, id);
create index music_track_id on music_track (user_id, id);

create table music_play (
    id {serial},
    user_id text not null,
    provider text not null,
    ref text not null,
    at double precision not null,
    track_id bigint not null,
    unique (user_id, provider, ref)
);
create index music_play_newest on music_play (user_id, at, id);
create index music_play_track on music_play (track_id);

-- One that a provider does not show any more is kept; `seen_at` says when it was last there.
create table music_playlist (
    id {serial},
    user_id text not null,
    provider text not null,
    ref text not null,
    name text not null,
    about text not null default '',
    seen_at double precision not null,
    gone_at double precision,
    unique (user_id, provider, ref)
);

create table music_entry (
    playlist_id bigint not null,
    place integer not null,
    track_id bigint not null,
    primary key (playlist_id, place)
){clustered};
create index music_entry_track on music_entry (track_id);

-- A word beside an artist, an album or a track, of whoever has something to say about it.
create table music_badge (
    kind text not null check (kind in ('artist', 'album', 'track')),
    entity_id bigint not null,
    word text not null check (word <> ''),
    tone text not null check (tone in ('good', 'busy', 'calm', 'warn', 'bad')),
    icon text not null,
    tooltip text not null default '',
    href text not null default '',
    primary key (kind, entity_id)
){clustered};

-- Pictures that were fetched, so that no browser asks a stranger for one; without a body, what failed is remembered.
create table music_picture (
    address text primary key,
    media_type text not null default '',
    body bytea,
    fetched_at double precision not null,
    used_at double precision not null
);
create index music_picture_used on music_picture (used_at);

-- One that came back from a provider's consent page must have gone there from here.
create table music_journey (
    state text primary key,
    user_id text not null,
    provider text not null,
    kept text not null,
    began_at double precision not null
);

-- Times of which plays may be missing, because there were more of them than the provider still hands over.
create table music_gap (
    user_id text not null,
    provider text not null,
    since double precision not null,
    until double precision not null,
    seen_at double precision not null,
    primary key (user_id, provider, since),
    check (since < until)
){clustered};
