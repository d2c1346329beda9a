-- Notices: raised, read, resolved.

-- name: notice_raise
-- Inserts a notice, unless the episode has one, or one of its kind and subject is open.
insert into tg_notice (kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user, created_at, ended_at)
values (:kind, :level, :subject, :name, :lane, :operation, :episode, :code, :title, :message, :advice, :for_user, {now},
        case when :over = 1 then {now} end)
on conflict do nothing
returning id;

-- name: notice_outdated
-- Resolves an open notice of this kind with another code.
update tg_notice set ended_at = case when {now} > created_at then {now} else created_at end
where subject = :subject and name = :name and lane = :lane and operation = :operation and kind = :kind
    and ended_at is null and coalesce(code, '') <> :code;

-- name: notice_end
-- Resolves the open notice of one kind and subject.
update tg_notice set ended_at = case when {now} > created_at then {now} else created_at end
where subject = :subject and name = :name and lane = :lane and operation = :operation and kind = :kind and ended_at is null
returning episode;

-- name: notice_end_key
-- Resolves all open notices of a key that a user has cleared, for all operations.
update tg_notice set ended_at = case when {now} > created_at then {now} else created_at end
where subject = :subject and name = :name and lane = :lane and ended_at is null
returning id;

-- name: notice_unanswered_of
-- When the last notice of a key began that a user has resolved, if no recovery was reported since.
select n.episode from tg_notice n
where n.kind in ('fatal', 'cap') and n.subject = :subject and n.name = :name and n.lane = :lane
    and n.ended_at is not null and not exists (
        select 1 from tg_notice r where r.subject = n.subject and r.name = n.name and r.lane = n.lane
            and ((r.kind = 'recovered' and r.created_at >= n.ended_at)
                or (r.kind in ('fatal', 'cap') and r.ended_at is null)))
order by n.episode desc limit 1;

-- name: notices_unanswered
-- Keys whose last notice a user has resolved, if no recovery was reported since.
select distinct n.lane from tg_notice n
where n.kind in ('fatal', 'cap') and n.subject = :subject and n.name = :name
    and n.ended_at is not null and not exists (
        select 1 from tg_notice r where r.subject = n.subject and r.name = n.name and r.lane = n.lane
            and ((r.kind = 'recovered' and r.created_at >= n.ended_at)
                or (r.kind in ('fatal', 'cap') and r.ended_at is null)))
order by n.lane limit :n;

-- name: notices_open_of
-- Open notices of one subject.
select kind, lane, operation, episode, code from tg_notice
where subject = :subject and name = :name and ended_at is null order by lane, operation, kind limit :n;

-- name: notices
-- Newest first.
select id, kind, level, subject, name, lane as key, operation, episode, code, title, message, advice, for_user as "user", created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where id < :before order by id desc limit :n;

-- name: notices_unread
select id, kind, level, subject, name, lane as key, operation, episode, code, title, message, advice, for_user as "user", created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where id < :before and acked_at is null and snoozed_until is null order by id desc limit :n;

-- name: notices_urgent
-- Open errors, newest first. With :unread, only unread ones.
select id, kind, level, subject, name, lane as key, operation, episode, code, title, message, advice, for_user as "user", created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where ended_at is null and level = 'error'
    and (:unread = 0 or (acked_at is null and snoozed_until is null)) order by id desc limit :n;

-- name: notice
select id, kind, level, subject, name, lane as key, operation, episode, code, title, message, advice, for_user as "user", created_at,
    ended_at, acked_at, acked_by, told_at, decided_at, waits_until, why, snoozed_until, snoozed_by
from tg_notice where id = :id;

-- name: notices_unread_count
-- Counts up to :n.
select count(*) from (select id from tg_notice where acked_at is null and snoozed_until is null limit :n) as unread;

-- name: notice_ack
update tg_notice set acked_at = case when {now} > created_at then {now} else created_at end, acked_by = :actor
where id = :id and acked_at is null returning id;

-- name: notices_ack
-- All notices up to an id, in batches.
update tg_notice set acked_at = case when {now} > created_at then {now} else created_at end, acked_by = :actor
where id in (select id from tg_notice where acked_at is null and id <= :newest order by id limit :n) and acked_at is null
returning id;

-- name: notices_prune
delete from tg_notice where id in (
    select id from tg_notice where ended_at is not null and ended_at < :before order by ended_at limit :n
) returning id;

-- name: notices_needing
-- Open notices of targets that only a user can resolve.
select name, title, message, advice, lane from tg_notice
where subject = 'target' and kind = 'fatal' and ended_at is null and for_user is null
order by name, lane, operation limit :n;
