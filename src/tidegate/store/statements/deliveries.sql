-- Deliveries of notices through channels.

-- name: notices_undecided
-- Notices to plan deliveries for. A waiting notice is checked again when it is due, resolved or read.
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user as "user", created_at,
    ended_at, acked_at, snoozed_until, told_at, waits_until, why, round_no
from tg_notice where decided_at is null and (
    waits_until is null or waits_until <= {now} or (kind <> 'recovered' and (ended_at is not null or acked_at is not null))
) order by id limit :n;

-- name: notice_told_of
-- One notice, as it is sent.
select id, kind, level, subject, name, lane, operation, episode, code, title, message, advice, for_user as "user", created_at,
    ended_at, acked_at, snoozed_until, told_at, waits_until, why, round_no
from tg_notice where id = :id;

-- name: notices_at
-- The other notices of the same subject, newest first.
select id, kind, level, created_at, ended_at, acked_at, snoozed_until, told_at from tg_notice
where subject = :subject and name = :name and lane = :lane and operation = :operation and id <> :id
order by id desc limit :n;

-- name: notices_going_on
-- Open notices of one kind.
select id, subject, name, lane, operation, episode, created_at from tg_notice
where ended_at is null and kind = :kind order by id limit :n;

-- name: notice_waits
update tg_notice set waits_until = :until, why = :why where id = :id and decided_at is null;

-- name: notice_decided
update tg_notice set decided_at = {now}, waits_until = null, why = :why,
    told_at = case when :told = 1 then {now} else told_at end
where id = :id and decided_at is null returning id;

-- name: notice_reworded
update tg_notice set message = :message, advice = :advice where id = :id;

-- name: notice_snooze
update tg_notice set snoozed_until = {now} + :lasts, snoozed_by = :actor where id = :id and ended_at is null
returning snoozed_until;

-- name: notices_snoozed_out
-- Ends snoozes. Returns the notices that are still open, which are sent again.
update tg_notice set snoozed_until = null, snoozed_by = null,
    round_no = case when ended_at is null and told_at is not null then round_no + 1 else round_no end,
    decided_at = case when ended_at is null then null else decided_at end
where snoozed_until is not null and snoozed_until <= {now} returning id;

-- name: notices_snoozing_out
select count(*) from tg_notice where snoozed_until is not null and snoozed_until <= {now};

-- name: notices_dealt_with
-- Delivered notices that a user has resolved, without a new problem or a recovery notice since.
select n.id, n.subject, n.name, n.lane, n.operation, n.episode, n.created_at from tg_notice as n
where n.ended_at is not null and n.ended_at > :since and n.ended_at <= :until and n.told_at is not null
    and n.kind in ('fatal', 'cap') and not exists (
        select 1 from tg_notice as r where r.subject = n.subject and r.name = n.name and r.lane = n.lane
            and r.operation = n.operation and r.id <> n.id and (r.created_at >= n.ended_at or r.ended_at is null))
order by n.id limit :n;

-- name: breaker_moves
-- Breaker transitions of all targets since a time, oldest first.
select name, at, fields from tg_gate_event
where kind = 'breaker_state_changed' and at > :since and subject = 'target' order by at, id limit :n;

-- name: gave_up_lately
-- Jobs of a queue that failed for good after an attempt since a time, by reason.
select failure, max(target), max(kind), max(error_code), max(error_message), count(*), min(finished_at)
from (
    select failure, target, kind, error_code, error_message, finished_at from tg_job
    where finished_at is not null and queue = :queue and state = 'failed' and finished_at > :since and attempt > 0
    order by finished_at desc limit :n
) as lately
where failure is not null group by failure order by failure;

-- name: gave_up_since
-- How many of the last jobs of a target have failed for good since a time.
select count(*) from (
    select state, finished_at from tg_job where target = :target and target <> '' and finished_at is not null
    order by id desc limit :n
) as ended where state = 'failed' and finished_at >= :since;

-- name: target_has_jobs
select id from tg_job where target = :target and target <> '' and finished_at is not null order by id desc limit 1;

-- name: cycles
-- Batch-only queues.
select name from tg_store where name like 'cycle %';

-- name: waiting_for
-- The number of jobs of one queue that wait for a target, up to :n.
select count(*) from (
    select id from tg_job where state = 'ready' and queue = :queue and target = :target limit :n
) as ready;

-- name: delivery_new
insert into tg_delivery (notice, channel, round_no, state, instead_of, created_at)
values (:notice, :channel, :round_no, 'queued', :instead_of, {now})
on conflict do nothing returning notice;

-- name: delivery_job
update tg_delivery set job = :job where notice = :notice and channel = :channel and round_no = :round_no;

-- name: delivery_code
select code from tg_delivery where notice = :notice and channel = :channel and round_no = :round_no;

-- name: delivery_done
update tg_delivery set state = 'delivered', ended_at = {now}, code = null, why = null
where notice = :notice and channel = :channel and round_no = :round_no;

-- name: delivery_failed
update tg_delivery set state = 'failed', ended_at = {now}, code = :code, why = :why
where notice = :notice and channel = :channel and round_no = :round_no and state = 'queued' returning notice;

-- name: deliveries_given_up
-- Deliveries whose job will never run. The plus keeps SQLite from scanning all deliveries in id order.
select d.notice, d.channel, d.round_no, j.error_code, coalesce(j.last_message, j.error_message) from tg_delivery as d
left join tg_job as j on j.id = d.job
where d.state = 'queued' and (j.id is null or j.state in ('failed', 'cancelled')) order by +d.notice, d.channel limit :n;

-- name: deliveries_of
select d.notice, d.channel, d.round_no, d.state, d.job, d.instead_of, d.created_at, d.ended_at, d.code, d.why
from tg_delivery as d join {rows notice bigint} on d.notice = given.notice order by d.notice, d.created_at, d.channel;

-- name: channel_put
insert into tg_channel (name, kind, shown, level, place, standby, digest)
values (:name, :kind, :shown, :level, :place, :standby, :digest)
on conflict (name) do update set kind = excluded.kind, shown = excluded.shown, level = excluded.level,
    place = excluded.place, standby = excluded.standby, digest = excluded.digest, there = 1,
    disabled_at = case when tg_channel.digest = excluded.digest then tg_channel.disabled_at end,
    disabled_why = case when tg_channel.digest = excluded.digest then tg_channel.disabled_why end,
    last_at = case when tg_channel.digest = excluded.digest then tg_channel.last_at end,
    last_ok = case when tg_channel.digest = excluded.digest then tg_channel.last_ok end,
    last_why = case when tg_channel.digest = excluded.digest then tg_channel.last_why end;

-- name: channel_left_out
-- Channels that are no longer in the settings.
update tg_channel set there = 0 where name = :name;

-- name: channels
select name, kind, shown, level, place, standby, digest, there, last_at, last_ok, last_why, tested_at, tested_ok,
    tested_why, disabled_at, disabled_why
from tg_channel order by place, name;

-- name: channel_ended
-- The result of the last delivery.
update tg_channel set last_at = {now}, last_ok = :ok, last_why = :why where name = :name;

-- name: channel_tested
update tg_channel set tested_at = {now}, tested_ok = :ok, tested_why = :why,
    last_ok = case when last_ok = 0 and :ok = 1 then 1 else last_ok end,
    last_why = case when :ok = 1 then null else last_why end,
    disabled_at = case when :ok = 1 then null else disabled_at end,
    disabled_why = case when :ok = 1 then null else disabled_why end
where name = :name returning name;

-- name: channel_disable
update tg_channel set disabled_at = {now}, disabled_why = :why where name = :name and disabled_at is null returning name;

-- name: address_put
insert into tg_address (who, mail) values (:who, :mail) on conflict (who) do update set mail = excluded.mail;

-- name: address_drop
delete from tg_address where who = :who returning who;

-- name: address
select mail from tg_address where who = :who;

-- name: mailed_put
insert into tg_mailed (who, target, at) values (:who, :target, {now})
on conflict (who, target) do update set at = excluded.at;

-- name: mailed
select at from tg_mailed where who = :who and target = :target;

-- name: mailed_forget
-- A key has recovered or was cleared by a user. Its owner may be mailed about the next failure at once.
delete from tg_mailed where target = :name and who in (
    select for_user from tg_notice where subject = :subject and name = :name and lane = :lane and for_user is not null
);
