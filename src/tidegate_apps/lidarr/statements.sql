-- name: entities
-- What is known of some of one kind, and how the jobs that send them are.
select e.entity_id, e.status, e.lidarr_id, e.mbid, e.job, e.note, e.checked_at, e.watched, j.state
from lidarr_entity as e left join tg_job as j on j.id = e.job
where e.kind = :kind and e.entity_id >= :first and e.entity_id <= :last order by e.entity_id;

-- name: known_of_user
-- What is known of one kind of a user's, between two numbers, and how the jobs that send them are.
select e.entity_id, e.job, j.state from lidarr_entity as e left join tg_job as j on j.id = e.job
where e.kind = :kind and e.user_id = :user_id and e.entity_id > :after and e.entity_id <= :last order by e.entity_id;

-- name: children_of
select c.id, c.state, coalesce(c.error_code, '') from tg_link as l join tg_job as c on c.id = l.child
where l.parent = :job order by c.id;

-- name: look_again
-- The entry of a job that is forgotten, and whose entity the next look is to look for.
update lidarr_entity set job = null, checked_at = 0 where job = :job;

-- name: remove_entity
delete from lidarr_entity where kind = :kind and entity_id = :entity_id returning entity_id;

-- name: hold_entities
-- Nobody else changes these before this transaction has ended.
select e.entity_id from lidarr_entity as e
join {rows kind text, entity_id bigint} on e.kind = given.kind and e.entity_id = given.entity_id
order by e.entity_id {for_update};

-- name: lidarr_id_of
select lidarr_id from lidarr_entity where kind = :kind and entity_id = :entity_id;

-- name: put_entities
insert into lidarr_entity (kind, entity_id, user_id, name, artist, status, lidarr_id, mbid, job, note, checked_at, watched)
select kind, entity_id, user_id, name, artist, status, lidarr_id, mbid, job, note, {now},
    coalesce(status in ('monitored', 'grabbed', 'available', 'missing'), false)
from {rows kind text, entity_id bigint, user_id text, name text, artist text, status text, lidarr_id bigint, mbid text, job bigint, note text}
where true
on conflict (kind, entity_id) do update set user_id = excluded.user_id, name = excluded.name, artist = excluded.artist,
    status = excluded.status, lidarr_id = excluded.lidarr_id, mbid = excluded.mbid, job = excluded.job,
    note = excluded.note, checked_at = excluded.checked_at,
    sent = lidarr_entity.sent and coalesce(lidarr_entity.mbid = excluded.mbid, false),
    watched = excluded.watched or (lidarr_entity.watched and coalesce(lidarr_entity.mbid = excluded.mbid, false));

-- name: accepted
-- Lidarr has taken it.
update lidarr_entity set status = :status, lidarr_id = :lidarr_id, note = '', checked_at = {now}, watched = true, sent = true
where kind = :kind and entity_id = :entity_id;

-- name: set_status
update lidarr_entity set status = :status, note = :note where kind = :kind and entity_id = :entity_id;

-- name: happened
insert into lidarr_event (at, kind, entity_id, user_id, lidarr_id, job)
values ({now}, :kind, :entity_id, :user_id, :lidarr_id, :job);

-- name: events
select id, at, kind, entity_id, user_id as user, lidarr_id, job from lidarr_event where id < :below order by id desc limit :n;

-- name: prune_events
delete from lidarr_event where at < :before;

-- name: wanted_of
-- The MusicBrainz ids of the albums that wait for an artist; not of those that a person has cancelled.
select distinct e.mbid from tg_link as l join lidarr_entity as e on e.job = l.child join tg_job as c on c.id = l.child
where l.parent = :job and c.state <> 'cancelled' and e.mbid is not null order by e.mbid limit 1000;

-- name: lately_sent
-- Albums that Lidarr took lately, by its own ids: the depth of its queue shows which of them have arrived.
select e.job, e.lidarr_id from lidarr_event as v join lidarr_entity as e on e.job = v.job
where v.at >= :since and v.kind = 'lidarr_album_submitted' and e.lidarr_id is not null;

-- name: eligible
-- What one wake may send: what is ready or due, or was left by somebody who died, and the albums of artists among that.
select count(*) from tg_job as j
where j.queue = 'lidarr' and (
    j.state = 'ready' or (j.state = 'waiting' and j.due_at <= {now}) or (j.state = 'running' and j.lease_until <= {now})
    or (j.state = 'blocked' and not exists (
        select 1 from tg_link as l join tg_job as p on p.id = l.parent
        where l.child = j.id and not (
            p.state in ('ready', 'done') or (p.state = 'waiting' and p.due_at <= {now})
            or (p.state = 'running' and p.lease_until <= {now})
        )
    ))
);

-- name: changed
-- Entries whose jobs have given up since, or were cancelled or queued again by a person. What Lidarr has all the same is
-- not touched.
select e.kind, e.entity_id, j.state, j.error_code, j.error_message from lidarr_entity as e join tg_job as j on j.id = e.job
where (j.state = 'failed' and coalesce(e.status, 'queued') = 'queued')
    or (j.state = 'cancelled' and e.status in ('queued', 'gave_up'))
    or (j.state in ('blocked', 'waiting', 'ready', 'running') and coalesce(e.status, '') <> 'queued');

-- name: old_jobs
-- Final jobs past their time that no unfinished job depends on, a slice at a time.
select id from tg_job as old
where finished_at is not null and queue = 'lidarr' and state = :state and finished_at < :before
    and not exists (
        select 1 from tg_link as link join tg_job as child on child.id = link.child
        where link.parent = old.id and child.state in ('blocked', 'waiting', 'ready', 'running')
    )
order by finished_at limit :n;

-- name: release
-- The entry of a job that is forgotten.
update lidarr_entity set job = null, status = case when status = 'gave_up' then null else status end
where job = :job returning kind, entity_id, status;

-- name: orphans
-- Entries whose jobs somebody else has removed.
select e.job from lidarr_entity as e
where e.job is not null and not exists (select 1 from tg_job as j where j.id = e.job) limit :n;

-- name: put_wake
insert into lidarr_wake (id, at, ended_at, eligible, submitted, failed, remaining, depth, own, outcome, message, code,
    failures, failing_since)
values (1, :at, {now}, :eligible, :submitted, :failed, :remaining, :depth, :own, :outcome, :message, :code, :failures,
    :failing_since)
on conflict (id) do update set at = excluded.at, ended_at = excluded.ended_at, eligible = excluded.eligible,
    submitted = excluded.submitted, failed = excluded.failed, remaining = excluded.remaining, depth = excluded.depth,
    own = excluded.own, outcome = excluded.outcome, message = excluded.message, code = excluded.code,
    failures = excluded.failures, failing_since = excluded.failing_since;

-- name: waking
insert into lidarr_waking (id, since, until) values (1, :since, :until)
on conflict (id) do update set since = excluded.since, until = excluded.until;

-- name: still_awake
update lidarr_waking set until = :until;

-- name: woken
delete from lidarr_waking;

-- name: put_look
insert into lidarr_look (id, at, looked, found, queued, message, goes_on_at)
values (1, :at, :looked, :found, :queued, :message, :goes_on_at)
on conflict (id) do update set at = excluded.at, looked = excluded.looked, found = excluded.found,
    queued = excluded.queued, message = excluded.message, goes_on_at = excluded.goes_on_at;

-- name: last_look
select at, looked, found, queued, message from lidarr_look where id = 1;

-- name: look_under_way
-- Since when the library is looked through, or when that goes on.
select state, at from (
    select 'running' as state, claimed_at as at from tg_job where state = 'running' and queue = 'lidarr-look'
    union all select 'waiting', goes_on_at from lidarr_look where goes_on_at > {now}
) as looks order by state, at limit 1;

-- name: under_way
select since from lidarr_waking where until > {now};

-- name: last_wake
select at, ended_at, eligible, submitted, failed, remaining, depth, own, outcome, message, code, failures, failing_since
from lidarr_wake where id = 1;

-- name: counts
-- By the core's own tally: nothing is counted.
select what, sum(delta) from tg_tally where queue = 'lidarr' group by what;

-- name: rows
-- All entries, the newest first.
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from lidarr_entity as e join tg_job as j on j.id = e.job
where e.job is not null and e.job < :below order by e.job desc limit :n;

-- name: rows_ready
-- What goes next, in that order.
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from (
    select id from tg_job where state = 'ready' and queue = 'lidarr' and target = 'lidarr' and lane = ''
        and (priority < :priority or (priority = :priority and id > :after))
    order by priority desc, id limit :n
) as next_ones join tg_job as j on j.id = next_ones.id left join lidarr_entity as e on e.job = j.id
order by j.priority desc, j.id;

-- name: rows_blocked
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from tg_job as j left join lidarr_entity as e on e.job = j.id
where j.state = 'blocked' and j.queue = 'lidarr' and j.id < :below order by j.id desc limit :n;

-- name: rows_waiting
-- What is tried again, the next one first.
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from tg_job as j left join lidarr_entity as e on e.job = j.id
where j.state = 'waiting' and j.queue = 'lidarr' and (j.due_at > :due or (j.due_at = :due and j.id > :after))
order by j.due_at, j.id limit :n;

-- name: rows_failed
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from tg_job as j left join lidarr_entity as e on e.job = j.id
where j.finished_at is not null and j.queue = 'lidarr' and j.kind = 'lidarr.submit' and j.state = 'failed' and j.id < :below
order by j.id desc limit :n;

-- name: rows_cancelled
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from tg_job as j left join lidarr_entity as e on e.job = j.id
where j.finished_at is not null and j.queue = 'lidarr' and j.kind = 'lidarr.submit' and j.state = 'cancelled' and j.id < :below
order by j.id desc limit :n;

-- name: rows_done
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from tg_job as j left join lidarr_entity as e on e.job = j.id
where j.finished_at is not null and j.queue = 'lidarr' and j.kind = 'lidarr.submit' and j.state = 'done' and j.id < :below
order by j.id desc limit :n;

-- name: row
select j.id, j.state, j.args, j.attempt, j.deaths, j.most_attempts as max_attempts, j.created_at, j.due_at, j.claimed_at, j.last_at,
    j.finished_at, j.last_code, j.last_message, j.error_code, j.error_message, e.lidarr_id, e.status as lidarr_status
from tg_job as j left join lidarr_entity as e on e.job = j.id where j.id = :job and j.queue = 'lidarr';

-- name: badges
-- Entities of one kind with any state, by number.
select kind, entity_id, user_id, name, artist, status, lidarr_id, mbid, note from lidarr_entity
where kind = :kind and status is not null and entity_id > :after order by entity_id limit :n;

-- name: badges_in
-- Those in one state. The inner one reads nothing but an index; without it, SQLite goes through all of a kind.
select e.kind, e.entity_id, e.user_id, e.name, e.artist, e.status, e.lidarr_id, e.mbid, e.note from (
    select entity_id from lidarr_entity
    where kind = :kind and status = :status and entity_id > :after order by entity_id limit :n
) as found join lidarr_entity as e on e.kind = :kind and e.entity_id = found.entity_id order by e.entity_id;

-- name: shown
select kind, entity_id, user_id, name, artist, status, lidarr_id, mbid, note from lidarr_entity
where kind = :kind and entity_id = :entity_id;

-- name: count_in
-- How many are in a state; nobody waits for the rest of a large number.
select count(*) from (select 1 from lidarr_entity where kind = :kind and status = :status limit :n) as found;

-- name: unsendable
-- Those that cannot be sent, and why.
select kind, entity_id, name, artist, note from lidarr_entity where status is null and note <> '' order by kind, entity_id limit :n;

-- name: jobs_of_artists
-- The jobs that artists were or are sent by. One that was given up is not waited for when Lidarr has the artist anyway.
select e.entity_id, e.job from lidarr_entity as e join {rows entity_id bigint} on e.entity_id = given.entity_id
join tg_job as j on j.id = e.job
where e.kind = 'artist' and (e.lidarr_id is null or j.state not in ('failed', 'cancelled'));

-- name: our_artists
-- Those that we have sent, or are about to: their albums come into Lidarr with them, and nobody has chosen among these.
select distinct e.mbid from lidarr_entity as e join {rows mbid text} on e.mbid = given.mbid
left join tg_job as j on j.id = e.job
where e.kind = 'artist' and (e.sent or j.state in ('blocked', 'waiting', 'ready', 'running'));

-- name: statuses_of
-- What tracks show: the state of their albums.
select e.entity_id, e.status, e.lidarr_id, e.mbid from lidarr_entity as e join {rows entity_id bigint} on e.entity_id = given.entity_id
where e.kind = 'album';

-- name: causes
-- Why the artists were not accepted that albums have failed with.
select l.child, p.state, coalesce(p.error_message, '') from tg_link as l
join {rows job bigint} on l.child = given.job join tg_job as p on p.id = l.parent
where p.state in ('failed', 'cancelled');

-- name: refused_parents
-- The artists that were given up, of an album that failed with them.
select p.id from tg_link as l join tg_job as p on p.id = l.parent
where l.child = :job and p.state in ('failed', 'cancelled') and coalesce(p.error_code, '') <> :code order by p.id;

-- name: shift_wake
-- The clock was moved by :by seconds: times move with it, but for what was written after that, from :after to :until.
update lidarr_wake set at = at + :by, ended_at = ended_at + :by where ended_at < :after or ended_at > :until;

-- name: shift_waking
update lidarr_waking set since = since + :by, until = until + :by where since < :after or since > :until;

-- name: shift_look
update lidarr_look set at = at + :by, goes_on_at = goes_on_at + :by where at < :after or at > :until;

-- name: shift_events
update lidarr_event set at = at + :by where at < :after or at > :until;

-- name: shift_checks
update lidarr_entity set checked_at = checked_at + :by where checked_at > 0 and (checked_at < :after or checked_at > :until);
