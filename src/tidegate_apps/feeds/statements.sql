-- Sources: what the source manager knows.

-- name: add_source
insert into feeds_source (name, feed_url, interval_s, enabled, active_from, created_at)
values (:name, :feed_url, :interval_s, :enabled, :active_from, :at)
on conflict do nothing
returning id;

-- name: source
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source where id = :id;

-- name: lock_source
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source where id = :id {for_update};

-- name: source_at
select id from feeds_source where feed_url = :feed_url and feed_url is not null and feed_url <> '';

-- name: sources
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source where id > :after order by id limit :n;

-- name: sources_active
-- Sources that are not suspended, from one position of the index on.
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source
where active_from is not null and active_from = 0 and id > :after
order by id limit :n;

-- name: sources_rested
-- Sources whose suspension has expired, from one position of the index on.
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source
where active_from is not null and active_from >= :after_from and active_from > 0 and active_from <= :at
    and (active_from > :after_from or id > :after)
order by active_from, id limit :n;

-- name: sources_found
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source
where id > :after and (lower(name) like :like escape '!' or lower(coalesce(feed_url, '')) like :like escape '!')
order by id limit :n;

-- name: set_source
update feeds_source
set name = :name, feed_url = :feed_url, interval_s = :interval_s, enabled = :enabled, active_from = :active_from
where id = :id returning id;

-- name: set_rest
update feeds_source
set feed_disabled_at = :feed_disabled_at, feed_disable_reason = :feed_disable_reason, disabled_by = :disabled_by,
    active_from = :active_from
where id = :id returning id;

-- name: remove_source
delete from feeds_source where id = :id returning id;

-- name: count_sources
select count(*) as total, coalesce(sum(case when feed_disabled_at is not null then 1 else 0 end), 0) as disabled
from feeds_source;

-- name: add_event
insert into feeds_event (source_id, at, kind, actor, detail) values (:source_id, :at, :kind, :actor, :detail);

-- name: events
select id, at, kind, actor, detail from feeds_event where source_id = :source_id order by id desc limit :n;

-- States: what the poller knows.

-- name: due
-- The longest overdue first.
select source_id, name, feed_url, host, interval_s as interval, fence, due_at, due_why, consecutive_errors, run_type,
    run_length, rest_at, rest_until, rest_reason, rest_by, last_error, last_error_type, last_status, etag, last_modified,
    validated_at, body_hash, moved_to, moved_times, hints as hints_json, last_polled_at, last_success_at
from feeds_state
where due_at is not null and due_at <= :at and (due_at, source_id) > (:after_due, :after)
order by due_at, source_id limit :n;

-- name: states
select source_id, name, feed_url, host, interval_s as interval, fence, due_at, due_why, consecutive_errors, run_type,
    run_length, rest_at, rest_until, rest_reason, rest_by, last_error, last_error_type, last_status, etag, last_modified,
    validated_at, body_hash, moved_to, moved_times, hints as hints_json, last_polled_at, last_success_at
from feeds_state where source_id = :source_id;

-- name: next_due
select min(due_at) from feeds_state where due_at is not null;

-- name: move_back
-- A poll in the future was recorded before the clock was set back: the times that follow from it move back.
update feeds_state set due_at = due_at - (last_polled_at - :now_is), rest_at = rest_at - (last_polled_at - :now_is),
    rest_until = rest_until - (last_polled_at - :now_is), last_polled_at = :now_is, fence = fence + 1
where last_polled_at > :now_is + 60 and (due_at is null or due_at >= last_polled_at);

-- name: pace
-- Polls per second without failures. Suspended feeds are polled too rarely to count.
select coalesce(sum(1.0 / coalesce(every_s, interval_s)), 0) from feeds_state
where due_at is not null and rest_at is null;

-- name: details
-- What pages and responses show in addition to the state.
select title, malformed, items from feeds_state where source_id = :source_id;

-- name: add_state
insert into feeds_state (source_id, name, feed_url, host, interval_s, due_at, due_why)
select source_id, name, feed_url, host, interval_s, due_at, due_why
from {rows source_id bigint, name text, feed_url text, host text, interval_s double precision, due_at double precision,
    due_why text}
where true
on conflict (source_id) do update set name = excluded.name, interval_s = excluded.interval_s,
    every_s = case when feeds_state.interval_s = excluded.interval_s then feeds_state.every_s end;

-- name: set_address
-- Validators belong to a URL, so they go with it.
update feeds_state
set feed_url = :feed_url, host = :host, etag = null, last_modified = null, validated_at = null, body_hash = null,
    moved_to = null, moved_times = 0, fence = fence + 1, due_at = :due_at, due_why = :due_why
where source_id = :source_id returning source_id;

-- name: set_due
update feeds_state set due_at = :due_at, due_why = :due_why, fence = fence + 1
where source_id = :source_id returning source_id;

-- name: sooner
update feeds_state set due_at = :due_at, fence = fence + 1
where source_id = :source_id and due_why = :due_why and due_at > :due_at returning source_id;

-- name: set_state_rest
-- The source manager suspends or resumes a feed. A poll in flight no longer counts.
update feeds_state
set rest_at = :rest_at, rest_until = :rest_until, rest_reason = :rest_reason, rest_by = :rest_by, run_type = null,
    run_length = 0, due_at = :due_at, due_why = :due_why, told = 1, fence = fence + 1
where source_id = :source_id returning source_id;

-- name: record
-- A poll counts only if its feed was not changed meanwhile.
update feeds_state
set feed_url = given.feed_url, host = given.host, fence = given.fence + 1, due_at = given.due_at, due_why = given.due_why,
    consecutive_errors = given.consecutive_errors, run_type = given.run_type, run_length = given.run_length,
    rest_at = given.rest_at, rest_until = given.rest_until, rest_reason = given.rest_reason, rest_by = given.rest_by,
    last_error = given.last_error, last_error_type = given.last_error_type, last_status = given.last_status,
    etag = given.etag, last_modified = given.last_modified, validated_at = given.validated_at,
    body_hash = given.body_hash, moved_to = given.moved_to, moved_times = given.moved_times, hints = given.hints,
    last_polled_at = given.last_polled_at, last_success_at = given.last_success_at, every_s = given.every_s,
    told = case when given.untold = 1 then 0 else feeds_state.told end
from {rows source_id bigint, fence bigint, feed_url text, host text, due_at double precision, due_why text,
    consecutive_errors integer, run_type text, run_length integer, rest_at double precision, rest_until double precision,
    rest_reason text, rest_by text, last_error text, last_error_type text, last_status integer, etag text,
    last_modified text, validated_at double precision, body_hash text, moved_to text, moved_times integer, hints text,
    last_polled_at double precision, last_success_at double precision, every_s double precision,
    untold integer}
where feeds_state.source_id = given.source_id and feeds_state.fence = given.fence
returning feeds_state.source_id;

-- name: read_feed
update feeds_state
set title = given.title, link = given.link, malformed = given.malformed
from {rows source_id bigint, title text, link text, malformed text}
where feeds_state.source_id = given.source_id;

-- name: name_source
update feeds_source set name = given.name
from {rows source_id bigint, name text, was text}
where feeds_source.id = given.source_id and feeds_source.name = given.was;

-- name: name_state
update feeds_state set name = given.name
from {rows source_id bigint, name text, was text}
where feeds_state.source_id = given.source_id and feeds_state.name = given.was;

-- name: grown
update feeds_state set items = items + given.n, last_new_at = given.at
from {rows source_id bigint, n integer, at double precision}
where feeds_state.source_id = given.source_id
returning feeds_state.source_id, feeds_state.items;

-- name: shrunk
update feeds_state set items = items - :n where source_id = :source_id;

-- name: told
-- The other source manager has the current state, unless it changed since.
update feeds_state set told = 1
where source_id = :source_id and coalesce(rest_at, -1) = :rest_at and feed_url = :feed_url;

-- name: remove_state
delete from feeds_state where source_id = :source_id;

-- name: known_states
select source_id, feed_url, interval_s, name, due_at, rest_at, rest_until, told as reported from feeds_state
where source_id > :after order by source_id limit :n;

-- name: parked
update feeds_state set due_at = null, fence = fence + 1 where source_id = :source_id;

-- name: add_beats
insert into feeds_beat (source_id, at, outcome, status, ms, fresh, detail)
select source_id, at, outcome, status, ms, fresh, detail
from {rows source_id bigint, at double precision, outcome text, status integer, ms integer, fresh integer, detail text}
where true
on conflict do nothing;

-- name: beats
select at, outcome, status, ms, fresh, detail from feeds_beat
where source_id = :source_id and at >= :since order by at desc limit :n;

-- name: prune_beats
delete from feeds_beat where (source_id, at) in (select source_id, at from feeds_beat where at < :before limit :n)
returning source_id;

-- name: prune_events
-- Ids grow with time, so only the oldest rows are read.
delete from feeds_event where id in (
    select id from (select id, at from feeds_event order by id limit :n) as oldest where at < :before
) returning id;

-- name: put_items
-- The entries of each feed are one JSON object: {"0": [key, guid, ...], "1": ...}, the oldest first.
insert into feeds_item (source_id, ident, guid, link, title, author, summary, published_at, hash, seen_at, changed_at)
select given.source_id, entry.value ->> 0, entry.value ->> 1, entry.value ->> 2, entry.value ->> 3, entry.value ->> 4,
    nullif(entry.value ->> 5, ''), cast(coalesce(entry.value ->> 6, entry.value ->> 7) as double precision),
    entry.value ->> 8, :at, :at
from {rows source_id bigint, entries json}, json_each(given.entries) as entry
where true
on conflict (source_id, ident) do update
set guid = excluded.guid, link = excluded.link, title = excluded.title, author = excluded.author,
    summary = excluded.summary, published_at = excluded.published_at, hash = excluded.hash,
    changed_at = case when excluded.changed_at > feeds_item.seen_at then excluded.changed_at
        else feeds_item.seen_at + 0.001 end
where feeds_item.hash <> excluded.hash
returning source_id, case when seen_at = changed_at then 1 else 0 end;

-- name: forget_items
-- The oldest entries of a feed. Those that it still lists stay, or they would come back as new ones.
delete from feeds_item where id in (
    select id from feeds_item
    where source_id = :source_id and ident not in (select entry.value ->> 0 from json_each(:entries) as entry)
    order by id limit :n
) returning id;

-- name: items
select id, guid, link, title, author, summary, published_at, seen_at, changed_at from feeds_item
where source_id = :source_id and id < :before order by id desc limit :n;

-- name: remove_items
delete from feeds_item where id in (select id from feeds_item where source_id = :source_id limit :n) returning id;

-- name: remove_beats
delete from feeds_beat where source_id = :source_id;

-- name: remove_events
delete from feeds_event where source_id = :source_id;

-- name: feeds_by_error
select source_id from feeds_state where last_error_type = :type and source_id > :after order by source_id limit :n;

-- name: feeds_failing
select source_id from feeds_state where last_error_type is not null and source_id > :after order by source_id limit :n;

-- name: sources_disabled
select id, name, feed_url, interval_s as interval, enabled as enabled_n, feed_disabled_at, feed_disable_reason,
    disabled_by, active_from, created_at
from feeds_source where feed_disabled_at is not null and id > :after order by id limit :n;

-- name: states_disabled
-- For a server whose sources are on another server.
select source_id from feeds_state where rest_at is not null and source_id > :after order by source_id limit :n;

-- name: states_found
select source_id from feeds_state
where source_id > :after and (lower(name) like :like escape '!' or lower(feed_url) like :like escape '!')
order by source_id limit :n;

-- name: count_resting
select count(*) from feeds_state where rest_at is not null;

-- name: count_states
select coalesce(sum(case when last_error_type is not null then 1 else 0 end), 0) as failing,
    coalesce(sum(case when last_error_type = 'unexpected' then 1 else 0 end), 0) as unclassified,
    coalesce(sum(items), 0) as items,
    coalesce(sum(case when last_polled_at is null and due_at is not null then 1 else 0 end), 0) as unpolled,
    count(*) as known
from feeds_state;

-- name: count_polls
insert into feeds_count (outcome, polls, ms, fresh)
select outcome, polls, ms, fresh from {rows outcome text, polls bigint, ms bigint, fresh bigint}
where true
on conflict (outcome) do update
set polls = feeds_count.polls + excluded.polls, ms = feeds_count.ms + excluded.ms,
    fresh = feeds_count.fresh + excluded.fresh;

-- name: counts
select outcome, polls, ms, fresh from feeds_count;

-- name: figures
-- Feeds by state, and those whose poll is late.
select coalesce(sum(case when rest_at is null and last_error_type is null and last_polled_at is not null then 1 else 0 end), 0) as ok,
    coalesce(sum(case when rest_at is null and last_error_type is not null then 1 else 0 end), 0) as failing,
    coalesce(sum(case when rest_at is not null then 1 else 0 end), 0) as disabled,
    coalesce(sum(case when rest_at is null and last_polled_at is null then 1 else 0 end), 0) as new,
    coalesce(sum(case when due_at is not null and due_at > 0 and due_at < :late then 1 else 0 end), 0) as late
from feeds_state;

-- name: shift_polls
-- The clock was moved by :by seconds. Times move with it, except those that were written from :after to :until.
update feeds_state set due_at = case when due_at > 0 then due_at + :by else due_at end, rest_at = rest_at + :by,
    rest_until = rest_until + :by, last_polled_at = last_polled_at + :by
where coalesce(last_polled_at, rest_at, due_at) < :after or coalesce(last_polled_at, rest_at, due_at) > :until;

-- name: shift_rests
update feeds_source set feed_disabled_at = feed_disabled_at + :by,
    active_from = case when active_from > 0 then active_from + :by else active_from end
where feed_disabled_at is not null and (feed_disabled_at < :after or feed_disabled_at > :until);
