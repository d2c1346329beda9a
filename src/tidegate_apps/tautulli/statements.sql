-- The sync.

-- name: state
select row_id, started, synced_at, empty_at, empty_believed, tried_at, outcome, code, message,
    breaker as breaker_json
from tautulli_state where id = 1;

-- name: lock_state
-- Two syncs at once, of a late worker or at a terminal, write one after the other.
select row_id, started from tautulli_state where id = 1 {for_update};

-- name: known
-- What is stored of the rows of a page, in the order in which they are put: to see a change, and to take the old values
-- out of the tallies.
select p.row_id, p.reference_id, p.started, p.stopped, p.duration, p.paused, p.user_id, p.person, p.platform, p.product,
    p.player, p.media_type, p.rating_key, p.show, p.full_title, p.year, p.transcode_decision, p.percent_complete,
    p.watched_status
from tautulli_play as p, {rows row_id bigint} where p.row_id = given.row_id;

-- name: put
-- Rows as one piece of JSON: {"0": [row_id, reference_id, ...], "1": ...}, in the order of these columns. Materialized, or
-- SQLite would write the text of a row anew for each of its columns.
with entry as materialized (select value from json_each(:rows))
insert into tautulli_play (row_id, reference_id, started, stopped, duration, paused, user_id, person, platform, product,
    player, media_type, rating_key, show, full_title, year, transcode_decision, percent_complete, watched_status)
select cast(entry.value ->> 0 as bigint), cast(entry.value ->> 1 as bigint), cast(entry.value ->> 2 as bigint),
    cast(entry.value ->> 3 as bigint), cast(entry.value ->> 4 as bigint), cast(entry.value ->> 5 as bigint),
    cast(entry.value ->> 6 as bigint), entry.value ->> 7, entry.value ->> 8, entry.value ->> 9, entry.value ->> 10,
    entry.value ->> 11, cast(entry.value ->> 12 as bigint), entry.value ->> 13, entry.value ->> 14,
    cast(entry.value ->> 15 as bigint), entry.value ->> 16, cast(entry.value ->> 17 as bigint),
    cast(entry.value ->> 18 as double precision)
from entry
where true
on conflict (row_id) do update set reference_id = excluded.reference_id, started = excluded.started,
    stopped = excluded.stopped, duration = excluded.duration, paused = excluded.paused, user_id = excluded.user_id,
    person = excluded.person, platform = excluded.platform, product = excluded.product, player = excluded.player,
    media_type = excluded.media_type, rating_key = excluded.rating_key, show = excluded.show,
    full_title = excluded.full_title, year = excluded.year, transcode_decision = excluded.transcode_decision,
    percent_complete = excluded.percent_complete, watched_status = excluded.watched_status;

-- name: add_times
-- Rows of quarters since 1970, plays and seconds; the hours follow from them.
with entry as materialized (select value from json_each(:rows)),
come as materialized (
    select cast(entry.value ->> 0 as bigint) as quarter, cast(entry.value ->> 1 as bigint) as plays,
        cast(entry.value ->> 2 as bigint) as seconds
    from entry
)
insert into tautulli_time (width, at, plays, seconds)
select width, at, sum(plays), sum(seconds)
from (
    select 900 as width, quarter as at, plays, seconds from come
    union all
    select 3600, quarter / 4, plays, seconds from come
) as counted
where true
group by width, at
on conflict (width, at) do update set plays = tautulli_time.plays + excluded.plays,
    seconds = tautulli_time.seconds + excluded.seconds;

-- name: add_clock
-- The same rows: by the quarter of the day, in stretches of 28 days.
with entry as materialized (select value from json_each(:rows))
insert into tautulli_clock (stretch, quarter, plays, seconds)
select cast(entry.value ->> 0 as bigint) / 2688, cast(entry.value ->> 0 as bigint) % 96,
    sum(cast(entry.value ->> 1 as bigint)), sum(cast(entry.value ->> 2 as bigint))
from entry
where true
group by 1, 2
on conflict (stretch, quarter) do update set plays = tautulli_clock.plays + excluded.plays,
    seconds = tautulli_clock.seconds + excluded.seconds;

-- name: add_tallies
-- Rows of kinds, names, weeks, months, plays and seconds.
with entry as materialized (select value from json_each(:rows)),
come as materialized (
    select entry.value ->> 0 as kind, entry.value ->> 1 as name, cast(entry.value ->> 2 as bigint) as week,
        cast(entry.value ->> 3 as bigint) as month, cast(entry.value ->> 4 as bigint) as plays,
        cast(entry.value ->> 5 as bigint) as seconds
    from entry
)
insert into tautulli_tally (kind, grain, at, name, plays, seconds)
select kind, grain, at, name, sum(plays), sum(seconds)
from (
    select kind, 'week' as grain, week as at, name, plays, seconds from come
    union all
    select kind, 'month', month, name, plays, seconds from come
    union all
    select kind, 'all', 0, name, plays, seconds from come
) as counted
where true
group by kind, grain, at, name
on conflict (kind, grain, at, name) do update set plays = tautulli_tally.plays + excluded.plays,
    seconds = tautulli_tally.seconds + excluded.seconds;

-- name: seen
-- The watermark never goes back, and rows have come: what looked empty is not.
update tautulli_state
set row_id = case when row_id < :row_id then :row_id else row_id end,
    started = case when started is null or started < :started then :started else started end,
    empty_at = null, empty_believed = 0
where id = 1;

-- name: seen_by_now
-- A row may be dated in the future, where a clock was wrong. It says nothing of the plays that come until then.
update tautulli_state set started = :at where id = 1 and started > :at;

-- name: missing
-- How many rows Tautulli had that are not stored when it was last read to its end, and how many are stored now.
select missing, (select coalesce(sum(plays), 0) from tautulli_time where width = 3600) from tautulli_state where id = 1;

-- name: is_missing
update tautulli_state set missing = :missing where id = 1;

-- name: looked_empty
update tautulli_state set empty_at = coalesce(empty_at, :at), empty_believed = :believed where id = 1;

-- name: ended
-- How an attempt went, and how the breaker was then.
update tautulli_state
set tried_at = :at, outcome = :outcome, code = :code, message = :message, breaker = :breaker,
    synced_at = case when :outcome = 'synced' then :at else synced_at end
where id = 1;

-- What is read.

-- name: columns
-- Plays of stretches of time, {"0": [width, first, end], "1": ...}.
select cast(entry.key as bigint),
    (select sum(plays) from tautulli_time where width = cast(entry.value ->> 0 as bigint)
        and at >= cast(entry.value ->> 1 as bigint) and at < cast(entry.value ->> 2 as bigint)),
    (select sum(seconds) from tautulli_time where width = cast(entry.value ->> 0 as bigint)
        and at >= cast(entry.value ->> 1 as bigint) and at < cast(entry.value ->> 2 as bigint))
from json_each(:stretches) as entry;

-- name: hours
-- Plays by the hour of the day, while the time zone is so many seconds ahead of UTC.
select (at * width + :ahead) % 86400 / 3600, sum(plays), sum(seconds) from tautulli_time
where width = 900 and at >= :first and at < :ends group by 1;

-- name: clock
-- The same for whole stretches of 28 days.
select (quarter * 900 + :ahead + 86400) % 86400 / 3600, sum(plays), sum(seconds) from tautulli_clock
where stretch >= :first and stretch < :ends group by 1;

-- name: oldest
-- When the first play began, to a quarter of an hour.
select at * width from tautulli_time where width = 900 and plays > 0 order by at limit 1;

-- name: total
select coalesce(sum(plays), 0), coalesce(sum(seconds), 0) from tautulli_time where width = 3600;

-- name: top
-- From tallies of one grain on. They are of UTC: from the beginning of the time to that of the first of them, plays are
-- added one by one, or taken out where it begins later.
select name, sum(plays), sum(seconds)
from (
    select name, plays, seconds from tautulli_tally where kind = :kind and grain = :grain and at >= :whole
    union all
    select case :kind when 'person' then person when 'show' then show else coalesce(nullif(platform, ''), 'unknown') end,
        cast(:sign as bigint), duration * cast(:sign as bigint)
    from tautulli_play where started >= :rim and started < :rim_ends
) as counted
group by name having sum(plays) > 0 order by 2 desc, 1 limit :n;

-- name: plays
-- The newest first, from one place on. An empty text is no condition. They are sought in the index alone, which has what
-- is asked for: a tenth of a second, where one of a million plays has it.
with found as materialized (
    select started, row_id from tautulli_play
    where (started, row_id) < (:started, :row_id) and started >= :since
        and (:person = '' or person = :person) and (:show = '' or show = :show)
        and (:platform = '' or platform = :platform) and (:media_type = '' or media_type = :media_type)
    order by started desc, row_id desc limit :n
)
select p.row_id, p.started, p.stopped, p.duration, p.paused, p.person, p.user_id, p.platform, p.product, p.player,
    p.media_type, p.rating_key, p.show, p.full_title, p.year, p.transcode_decision, p.percent_complete, p.watched_status
from found, tautulli_play as p
where p.row_id = found.row_id
order by found.started desc, found.row_id desc;

-- name: shift_state
-- The clock was moved by :by seconds: times move with it, but for what was written after that, from :after to :until.
update tautulli_state set synced_at = synced_at + :by, tried_at = tried_at + :by, empty_at = empty_at + :by
where tried_at < :after or tried_at > :until;
