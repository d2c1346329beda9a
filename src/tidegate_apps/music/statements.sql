-- Users and connections.

-- name: users
select user_id from music_user order by user_id;

-- name: add_user
insert into music_user (user_id, made_at) values (:user_id, :at) on conflict do nothing;

-- name: lock_user
select user_id from music_user where user_id = :user_id {for_update};

-- name: connection
select user_id as user, provider, shown, kept, generation, version, connected_at, asked_at, removed_at, declared
from music_connection where user_id = :user_id and provider = :provider;

-- name: lock_connection
select user_id as user, provider, shown, kept, generation, version, connected_at, asked_at, removed_at, declared
from music_connection where user_id = :user_id and provider = :provider {for_update};

-- name: connections
-- All that changed since a version, also those that were removed.
select user_id as user, provider, shown, kept, generation, version, connected_at, asked_at, removed_at, declared
from music_connection where version > :after order by version limit :n;

-- name: connections_of
select user_id as user, provider, shown, kept, generation, version, connected_at, asked_at, removed_at, declared
from music_connection where user_id = :user_id order by provider;

-- name: next_version
-- Whoever changes a connection takes the next number under a lock, so that nobody who reads in order misses one.
insert into music_counter (name, value) values ('version', 1)
on conflict (name) do update set value = music_counter.value + 1 returning value;

-- name: forget_marks
-- Those of another account; of one that was disconnected for a while they stay.
delete from music_mark where user_id = :user_id and provider = :provider and exists (
    select 1 from music_connection c
    where c.user_id = :user_id and c.provider = :provider and c.account <> :account);

-- name: put_connection
insert into music_connection (user_id, provider, shown, kept, generation, version, connected_at, declared, account)
values (:user_id, :provider, :shown, :kept, 1, :version, :at, :declared, :account)
on conflict (user_id, provider) do update set shown = excluded.shown, kept = excluded.kept, account = excluded.account,
    generation = music_connection.generation + 1, version = excluded.version, connected_at = excluded.connected_at,
    removed_at = null, declared = coalesce(nullif(excluded.declared, ''), music_connection.declared)
returning generation;

-- name: save_connection
-- The same credentials, as the provider changed them: nothing begins anew.
update music_connection set kept = :kept, shown = :shown
where user_id = :user_id and provider = :provider and generation = :generation and removed_at is null
returning generation;

-- name: ask_connection
update music_connection set asked_at = :at, version = :version
where user_id = :user_id and provider = :provider and removed_at is null returning provider;

-- name: remove_connection
-- Its credentials are gone for good. One that came by itself gets a row that says that it is not wanted.
insert into music_connection (user_id, provider, shown, kept, generation, version, connected_at, removed_at)
values (:user_id, :provider, '{}', '', 1, :version, :at, :at)
on conflict (user_id, provider) do update set removed_at = excluded.removed_at, kept = '', shown = '{}',
    generation = music_connection.generation + 1, version = excluded.version;

-- name: begin_journey
insert into music_journey (state, user_id, provider, kept, began_at)
values (:state, :user_id, :provider, :kept, :at);

-- name: end_journey
delete from music_journey where state = :state returning user_id, provider, kept, began_at;

-- name: forget_journeys
delete from music_journey where began_at < :before;

-- Marks, states, rows that could not be read.

-- name: mark
select mark from music_mark where user_id = :user_id and provider = :provider and operation = :operation;

-- name: set_mark
insert into music_mark (user_id, provider, operation, mark, moved_at)
values (:user_id, :provider, :operation, :mark, :at)
on conflict (user_id, provider, operation) do update set mark = excluded.mark, moved_at = excluded.moved_at;

-- name: looked_back
update music_mark set looked_at = :at where user_id = :user_id and provider = :provider and operation = :operation;

-- name: due_back
select mark from music_mark
where user_id = :user_id and provider = :provider and operation = :operation and looked_at < :before;

-- name: states_of
select user_id, provider, operation, tried_at, success_at, began_at, items, bad, failures, failed_since, code, message,
    advice, detail, held, next_at
from music_state where user_id = :user_id order by provider, operation;

-- name: states
select user_id, provider, operation, tried_at, success_at, began_at, items, bad, failures, failed_since, code, message,
    advice, detail, held, next_at
from music_state order by user_id, provider, operation;

-- name: put_states
-- How operations are, as they are now.
insert into music_state (user_id, provider, operation, tried_at, success_at, began_at, items, bad, failures, failed_since,
    code, message, advice, detail, held, next_at)
select user_id, provider, operation, tried_at, success_at, began_at, items, bad, failures, failed_since, code, message,
    advice, detail, held, next_at
from {rows user_id text, provider text, operation text, tried_at double precision, success_at double precision,
    began_at double precision, items bigint, bad bigint, failures integer, failed_since double precision, code text,
    message text, advice text, detail text, held text, next_at double precision}
where true
on conflict (user_id, provider, operation) do update set tried_at = excluded.tried_at, success_at = excluded.success_at,
    began_at = excluded.began_at, items = excluded.items, bad = excluded.bad, failures = excluded.failures,
    failed_since = excluded.failed_since, code = excluded.code, message = excluded.message, advice = excluded.advice,
    detail = excluded.detail, held = excluded.held, next_at = excluded.next_at;

-- name: forget_all_health
-- A new process begins without it.
update music_state set tried_at = case when success_at is not null then tried_at end, failures = 0, failed_since = null, code = null, message = null, advice = null, detail = null,
    held = null, next_at = null, began_at = null
where failures > 0 or held is not null or began_at is not null;

-- name: forget_states
delete from music_state where user_id = :user_id and provider = :provider;

-- name: healths
select user_id, provider, operation, failures, since, until, code, detail
from music_health order by user_id, provider, operation;

-- name: clear_health
delete from music_health where user_id = :user_id and provider = :provider;

-- name: clear_all_health
delete from music_health;

-- name: put_health
insert into music_health (user_id, provider, operation, failures, since, until, code, detail)
select user_id, provider, operation, failures, since, until, code, detail
from {rows user_id text, provider text, operation text, failures integer, since double precision,
    until double precision, code text, detail text}
where true;

-- name: add_bad
insert into music_bad (user_id, provider, operation, at, excerpt, why)
select :user_id, :provider, :operation, :at, excerpt, why from {rows excerpt text, why text} where true;

-- name: bad_of
select operation, at, excerpt, why from music_bad
where user_id = :user_id and provider = :provider order by id desc limit :n;

-- name: prune_bad
delete from music_bad
where user_id = :user_id and provider = :provider and operation = :operation and id < coalesce((
    select id from music_bad
    where user_id = :user_id and provider = :provider and operation = :operation order by id desc limit 1 offset 19), 0);

-- name: add_gap
insert into music_gap (user_id, provider, since, until, seen_at) values (:user_id, :provider, :since, :until, :at)
on conflict do nothing;

-- name: prune_gaps
delete from music_gap where user_id = :user_id and provider = :provider and seen_at < :before;

-- name: gaps_of
select provider, since, until from music_gap where user_id = :user_id and seen_at >= :after order by since desc limit 100;

-- The library: finding what a song is of.

-- name: artist_by_mbid
select id, mbid, null as album_id, id as artist_id from music_artist where user_id = :user_id and mbid = :mbid;

-- name: artists_by_key
select id, mbid, null as album_id, id as artist_id from music_artist
where user_id = :user_id and name_key = :name_key order by id limit 50;

-- name: add_artist
insert into music_artist (user_id, name, name_key, mbid) values (:user_id, :name, :name_key, :mbid) returning id;

-- name: set_artist_mbid
update music_artist set mbid = :mbid where id = :id;

-- name: album_by_mbid
select id, mbid, id as album_id, artist_id from music_album where user_id = :user_id and mbid = :mbid;

-- name: albums_by_key
select id, mbid, id as album_id, artist_id from music_album
where artist_id = :artist_id and name_key = :name_key order by id limit 50;

-- name: add_album
insert into music_album (user_id, artist_id, title, name_key, mbid)
values (:user_id, :artist_id, :title, :name_key, :mbid) returning id;

-- name: set_album_mbid
update music_album set mbid = :mbid where id = :id;

-- name: track_by_mbid
select id, mbid, album_id, artist_id from music_track where user_id = :user_id and mbid = :mbid;

-- name: tracks_by_key
select id, mbid, album_id, artist_id from music_track
where artist_id = :artist_id and name_key = :name_key order by id limit 50;

-- name: add_track
insert into music_track (user_id, artist_id, album_id, title, name_key, mbid, isrc, seconds)
values (:user_id, :artist_id, :album_id, :title, :name_key, :mbid, :isrc, :seconds) returning id;

-- name: set_track_mbid
update music_track set mbid = :mbid where id = :id;

-- name: set_track_album
update music_track set album_id = :album_id where id = :id and album_id is null;

-- name: fill_track
update music_track set isrc = coalesce(isrc, :isrc), seconds = coalesce(seconds, :seconds)
where id = :id and (isrc is null or seconds is null);

-- Merging two entries that are one.

-- name: albums_of_artist
select id, name_key, mbid from music_album where artist_id = :artist_id order by id;

-- name: tracks_of_artist
select id, name_key, mbid from music_track where artist_id = :artist_id order by id;

-- name: move_album
update music_album set artist_id = :artist_id where id = :id;

-- name: move_track
update music_track set artist_id = :artist_id where id = :id;

-- name: move_tracks_of_album
update music_track set album_id = :into where album_id = :id;

-- name: move_plays
update music_play set track_id = :into where track_id = :id;

-- name: move_entries
update music_entry set track_id = :into where track_id = :id;

-- name: carry_artist
-- What one had and the other had not; its plays are counted by its tracks.
update music_artist set art = coalesce(music_artist.art, old.art),
    art_at = case when music_artist.art is null and old.art is not null then old.art_at else music_artist.art_at end,
    tags = case when music_artist.tags = '' then old.tags else music_artist.tags end,
    tags_at = case when music_artist.tags = '' and old.tags <> '' then old.tags_at else music_artist.tags_at end
from music_artist old where old.id = :id and music_artist.id = :into;

-- name: carry_album
update music_album set art = coalesce(music_album.art, old.art),
    art_at = case when music_album.art is null and old.art is not null then old.art_at else music_album.art_at end
from music_album old where old.id = :id and music_album.id = :into;

-- name: carry_track
update music_track set plays = music_track.plays + old.plays, album_id = coalesce(music_track.album_id, old.album_id),
    played_at = case when music_track.played_at > old.played_at then music_track.played_at
        else coalesce(old.played_at, music_track.played_at) end,
    isrc = coalesce(music_track.isrc, old.isrc), seconds = coalesce(music_track.seconds, old.seconds)
from music_track old where old.id = :id and music_track.id = :into;

-- name: recount_artist
update music_artist set
    plays = (select cast(coalesce(sum(t.plays), 0) as bigint) from music_track t where t.artist_id = :id),
    played_at = (select max(t.played_at) from music_track t where t.artist_id = :id)
where id = :id;

-- name: recount_album
update music_album set
    plays = (select cast(coalesce(sum(t.plays), 0) as bigint) from music_track t where t.album_id = :id),
    played_at = (select max(t.played_at) from music_track t where t.album_id = :id)
where id = :id;

-- name: remove_artist
delete from music_artist where id = :id;

-- name: remove_album
delete from music_album where id = :id;

-- name: remove_track
delete from music_track where id = :id;

-- name: owner_of_artist
select user_id, mbid from music_artist where id = :id {for_update};

-- name: owner_of_album
select user_id, mbid from music_album where id = :id {for_update};

-- name: places_of_track
select artist_id, album_id from music_track where id = :id;

-- name: owner_of_track
select user_id, mbid from music_track where id = :id {for_update};

-- Plays and playlists.

-- name: known_plays
select ref from music_play
where user_id = :user_id and provider = :provider and ref in (select ref from {rows ref text});

-- name: add_plays
insert into music_play (user_id, provider, ref, at, track_id)
select :user_id, :provider, ref, at, track_id from {rows ref text, at double precision, track_id bigint}
where true
on conflict (user_id, provider, ref) do nothing
returning track_id, at;

-- name: count_tracks
update music_track
set plays = plays + given.n, played_at = case when played_at > given.at then played_at else given.at end
from {rows id bigint, n bigint, at double precision} where music_track.id = given.id;

-- name: count_albums
update music_album
set plays = plays + given.n, played_at = case when played_at > given.at then played_at else given.at end
from {rows id bigint, n bigint, at double precision} where music_album.id = given.id;

-- name: count_artists
update music_artist
set plays = plays + given.n, played_at = case when played_at > given.at then played_at else given.at end
from {rows id bigint, n bigint, at double precision} where music_artist.id = given.id;

-- name: playlist
select name, about from music_playlist
where user_id = :user_id and provider = :provider and ref = :ref and gone_at is null;

-- name: entries
select track_id from music_entry where playlist_id = :playlist_id order by place;

-- name: put_playlist
insert into music_playlist (user_id, provider, ref, name, about, seen_at)
values (:user_id, :provider, :ref, :name, :about, :at)
on conflict (user_id, provider, ref) do update set name = excluded.name, about = excluded.about,
    seen_at = excluded.seen_at, gone_at = null
returning id;

-- name: clear_entries
delete from music_entry where playlist_id = :playlist_id;

-- name: add_entries
insert into music_entry (playlist_id, place, track_id)
select :playlist_id, place, track_id from {rows place integer, track_id bigint} where true;

-- name: playlists_gone
update music_playlist set gone_at = :at
where user_id = :user_id and provider = :provider and seen_at < :seen_before and gone_at is null returning id;

-- name: playlists_of
select p.id, p.provider, p.name, p.about, p.seen_at, p.gone_at,
    (select count(*) from music_entry e where e.playlist_id = p.id) as tracks
from music_playlist p where p.user_id = :user_id and p.id > :after order by p.id limit :n;

-- What is still wanted of other services. It is asked again after a while where there was nothing.

-- name: wanted_ids_of_artists
select id, name from music_artist
where user_id = :user_id and mbid is null and (ids_at is null or ids_at < :before) order by plays desc, id limit :n;

-- name: wanted_ids_of_albums
select b.id, b.title, a.name from music_album b join music_artist a on a.id = b.artist_id
where b.user_id = :user_id and b.mbid is null and (b.ids_at is null or b.ids_at < :before)
order by b.plays desc, b.id limit :n;

-- name: wanted_ids_of_tracks
select t.id, t.title, a.name from music_track t join music_artist a on a.id = t.artist_id
where t.user_id = :user_id and t.mbid is null and (t.ids_at is null or t.ids_at < :before)
order by t.plays desc, t.id limit :n;

-- name: wanted_art_of_artists
select id, name, mbid from music_artist
where user_id = :user_id and mbid is not null and (art_at is null or (art is null and art_at < :before))
order by plays desc, id limit :n;

-- name: wanted_art_of_albums
select b.id, b.title, a.name, b.mbid from music_album b join music_artist a on a.id = b.artist_id
where b.user_id = :user_id and b.mbid is not null and (b.art_at is null or (b.art is null and b.art_at < :before))
order by b.plays desc, b.id limit :n;

-- name: wanted_tags_of_artists
select id, name, mbid from music_artist
where user_id = :user_id and (tags_at is null or (tags = '' and tags_at < :before))
order by plays desc, id limit :n;

-- name: asked_ids_artist
update music_artist set ids_at = :at where id = :id;

-- name: asked_ids_album
update music_album set ids_at = :at where id = :id;

-- name: asked_ids_track
update music_track set ids_at = :at where id = :id;

-- name: found_art_artist
update music_artist set art_at = :at, art = coalesce(:art, art) where id = :id;

-- name: found_art_album
update music_album set art_at = :at, art = coalesce(:art, art) where id = :id;

-- name: found_tags_artist
update music_artist set tags_at = :at, tags = case when :tags <> '' then :tags else tags end where id = :id;

-- What other applications read and write.

-- name: artists_of
select id, user_id as user, name, mbid from music_artist where user_id = :user_id and id > :after order by id limit :n;

-- name: albums_of
select b.id, b.user_id as user, b.title, b.mbid, a.id as artist_id, a.name as artist, a.mbid as artist_mbid
from music_album b join music_artist a on a.id = b.artist_id
where b.user_id = :user_id and b.id > :after order by b.id limit :n;

-- name: tracks_of
select t.id, t.user_id as user, t.title, t.album_id, b.title as album, a.name as artist
from music_track t join music_artist a on a.id = t.artist_id left join music_album b on b.id = t.album_id
where t.user_id = :user_id and t.id > :after order by t.id limit :n;

-- name: artist
select id, user_id as user, name, mbid from music_artist where id = :id;

-- name: album
select b.id, b.user_id as user, b.title, b.mbid, a.id as artist_id, a.name as artist, a.mbid as artist_mbid
from music_album b join music_artist a on a.id = b.artist_id where b.id = :id;

-- name: put_badge
insert into music_badge (kind, entity_id, word, tone, icon, tooltip, href)
values (:kind, :entity_id, :word, :tone, :icon, :tooltip, :href)
on conflict (kind, entity_id) do update set word = excluded.word, tone = excluded.tone, icon = excluded.icon,
    tooltip = excluded.tooltip, href = excluded.href;

-- name: remove_badge
delete from music_badge where kind = :kind and entity_id = :entity_id;

-- name: move_badge
update music_badge set entity_id = :into
where kind = :kind and entity_id = :id
    and not exists (select 1 from music_badge there where there.kind = :kind and there.entity_id = :into);

-- The pages.

-- name: totals
-- Every play is counted at its artist, of whom there are few.
select (select count(*) from music_artist where user_id = :user_id),
    (select count(*) from music_album where user_id = :user_id),
    (select count(*) from music_track where user_id = :user_id),
    (select cast(coalesce(sum(plays), 0) as bigint) from music_artist where user_id = :user_id),
    (select count(*) from music_playlist where user_id = :user_id);

-- name: page_artists
-- Most played first, from one place of the index on.
select a.id, a.name, a.mbid, a.plays, a.played_at, a.art, a.tags, g.word, g.tone, g.icon, g.tooltip, g.href,
    null as artist, null as album, null as album_id, null as seconds
from music_artist a left join music_badge g on g.kind = 'artist' and g.entity_id = a.id
where a.user_id = :user_id and (a.plays, a.id) < (:plays, :before) order by a.plays desc, a.id desc limit :n;

-- name: page_albums
select b.id, b.title as name, b.mbid, b.plays, b.played_at, b.art, '' as tags, g.word, g.tone, g.icon, g.tooltip, g.href,
    a.name as artist, null as album, b.id as album_id, null as seconds
from music_album b join music_artist a on a.id = b.artist_id
left join music_badge g on g.kind = 'album' and g.entity_id = b.id
where b.user_id = :user_id and (b.plays, b.id) < (:plays, :before) order by b.plays desc, b.id desc limit :n;

-- name: page_tracks
select t.id, t.title as name, t.mbid, t.plays, t.played_at, b.art, '' as tags, g.word, g.tone, g.icon, g.tooltip, g.href,
    a.name as artist, b.title as album, b.id as album_id, t.seconds
from music_track t join music_artist a on a.id = t.artist_id left join music_album b on b.id = t.album_id
left join music_badge g on g.kind = 'track' and g.entity_id = t.id
where t.user_id = :user_id and (t.plays, t.id) < (:plays, :before) order by t.plays desc, t.id desc limit :n;

-- name: find_artists
select a.id, a.name, a.mbid, a.plays, a.played_at, a.art, a.tags, g.word, g.tone, g.icon, g.tooltip, g.href,
    null as artist, null as album, null as album_id, null as seconds
from music_artist a left join music_badge g on g.kind = 'artist' and g.entity_id = a.id
where a.user_id = :user_id and a.name_key like :like escape '!' order by a.name_key, a.id limit :n;

-- name: find_albums
select b.id, b.title as name, b.mbid, b.plays, b.played_at, b.art, '' as tags, g.word, g.tone, g.icon, g.tooltip, g.href,
    a.name as artist, null as album, b.id as album_id, null as seconds
from music_album b join music_artist a on a.id = b.artist_id
left join music_badge g on g.kind = 'album' and g.entity_id = b.id
where b.user_id = :user_id and b.name_key like :like escape '!' order by b.name_key, b.id limit :n;

-- name: find_tracks
select t.id, t.title as name, t.mbid, t.plays, t.played_at, b.art, '' as tags, g.word, g.tone, g.icon, g.tooltip, g.href,
    a.name as artist, b.title as album, b.id as album_id, t.seconds
from music_track t join music_artist a on a.id = t.artist_id left join music_album b on b.id = t.album_id
left join music_badge g on g.kind = 'track' and g.entity_id = t.id
where t.user_id = :user_id and t.name_key like :like escape '!' order by t.name_key, t.id limit :n;

-- name: plays_of
select p.id, p.at, p.provider, t.id as track_id, t.title, a.name as artist, b.title as album, b.art, b.id as album_id
from music_play p join music_track t on t.id = p.track_id join music_artist a on a.id = t.artist_id
left join music_album b on b.id = t.album_id
where p.user_id = :user_id and (p.at, p.id) < (:at, :before) order by p.at desc, p.id desc limit :n;

-- name: art_of_artist
select art from music_artist where id = :id and user_id = :user_id;

-- name: art_of_album
select art from music_album where id = :id and user_id = :user_id;

-- name: picture
select media_type, body, fetched_at, used_at from music_picture where address = :address;

-- name: use_picture
update music_picture set used_at = :at where address = :address;

-- name: put_picture
insert into music_picture (address, media_type, body, fetched_at, used_at)
values (:address, :media_type, :body, :at, :at)
on conflict (address) do update set media_type = excluded.media_type, body = coalesce(excluded.body, music_picture.body),
    fetched_at = excluded.fetched_at, used_at = excluded.used_at;

-- name: prune_pictures
-- The longest unused, down to so many.
delete from music_picture where address in (
    select address from music_picture order by used_at desc limit 200 offset :most);

-- name: shift_looks_back
-- The clock was moved by :by seconds: times move with it, but for what was written after that, from :after to :until.
update music_mark set looked_at = looked_at + :by where looked_at > 0 and (looked_at < :after or looked_at > :until);

-- name: shift_health
update music_health set since = since + :by, until = until + :by where since < :after or since > :until;

-- name: shift_connections
update music_connection set asked_at = asked_at + :by where asked_at > 0 and (asked_at < :after or asked_at > :until);

-- name: shift_artists
update music_artist set ids_at = ids_at + :by, art_at = art_at + :by, tags_at = tags_at + :by
where coalesce(ids_at, art_at, tags_at) < :after or coalesce(ids_at, art_at, tags_at) > :until;

-- name: shift_albums
update music_album set ids_at = ids_at + :by, art_at = art_at + :by
where coalesce(ids_at, art_at) < :after or coalesce(ids_at, art_at) > :until;

-- name: shift_tracks
update music_track set ids_at = ids_at + :by where ids_at < :after or ids_at > :until;

-- name: shift_journeys
update music_journey set began_at = began_at + :by where began_at < :after or began_at > :until;
