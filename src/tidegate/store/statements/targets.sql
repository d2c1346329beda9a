-- The state and events of targets, keys and queues.

-- name: target
select name, paused_at, paused_until, paused_by, breaker, generation, breaker_since, breaker_until, counts,
    closed_at, paid_until, capacity, rules, reported_at, summary, {now} as now
from tg_target where name = :name;

-- name: targets
select name, paused_at, paused_until, paused_by, breaker, generation, breaker_since, breaker_until, counts,
    closed_at, paid_until, capacity, rules, reported_at, summary, {now} as now
from tg_target order by name;

-- name: targets_locked
-- The rows of these targets, locked until the transaction ends. Locked in order to avoid deadlocks.
select name, paused_at, paused_until, paused_by, breaker, generation, breaker_since, breaker_until, counts,
    closed_at, paid_until, capacity, rules, reported_at, summary, {now} as now
from tg_target join {rows wanted text} on tg_target.name = given.wanted order by tg_target.name {for_update};

-- name: target_new
insert into tg_target (name, breaker_since) values (:name, {now}) on conflict (name) do nothing;

-- name: target_moved
-- Updates the breaker, if no other process has changed it since it was read.
update tg_target set breaker = :breaker, generation = :generation, breaker_since = :since, breaker_until = :until,
    counts = :counts, closed_at = :closed_at
where name = :name and generation = :was;

-- name: target_paid
update tg_target set paid_until = :paid_until where name = :name;

-- name: target_capacity
update tg_target set capacity = :capacity where name = :name;

-- name: target_rules
-- The parameters of a target in its workers, for processes that only see the store.
insert into tg_target (name, breaker_since, rules) values (:name, {now}, :rules)
on conflict (name) do update set rules = excluded.rules
where tg_target.rules is null or tg_target.rules <> excluded.rules;

-- name: target_report
-- The report of a program about a target that it guards.
insert into tg_target (name, breaker_since, reported_at, summary) values (:name, {now}, {now}, :summary)
on conflict (name) do update set reported_at = excluded.reported_at, summary = excluded.summary;

-- name: target_pause
insert into tg_target (name, breaker_since, paused_at, paused_until, paused_by) values (:name, {now}, {now}, :until, :actor)
on conflict (name) do update set paused_at = excluded.paused_at, paused_until = excluded.paused_until, paused_by = excluded.paused_by;

-- name: target_resume
update tg_target set paused_at = null, paused_until = null, paused_by = null
where name = :name and paused_until is not null returning name;

-- name: queue_pause
insert into tg_queue (name, paused_at, paused_until, paused_by) values (:name, {now}, :until, :actor)
on conflict (name) do update set paused_at = excluded.paused_at, paused_until = excluded.paused_until, paused_by = excluded.paused_by;

-- name: queue_resume
update tg_queue set paused_at = null, paused_until = null, paused_by = null
where name = :name and paused_until is not null returning name;

-- name: queue_row
select name, paused_at, paused_until, paused_by from tg_queue where name = :name;

-- name: hold
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where target = :target and lane = :lane and operation = '';

-- name: holds_locked
-- The state of these keys, locked until the transaction ends.
select hold.target, hold.lane, hold.reason, hold.since, hold.until, hold.failed_at, hold.failures, hold.code, hold.message, hold.told, hold.rest, hold.probe
from tg_hold as hold join {rows wanted_target text, wanted_lane text}
    on hold.target = given.wanted_target and hold.lane = given.wanted_lane
where hold.operation = '' order by hold.target, hold.lane {for_update};

-- name: hold_put
insert into tg_hold (target, lane, operation, reason, since, until, failed_at, failures, code, message, told, rest, probe)
values (:target, :lane, '', :reason, :since, :until, :failed_at, :failures, :code, :message, :told, :rest, :probe)
on conflict (target, lane, operation) do update set reason = excluded.reason, since = excluded.since,
    until = excluded.until, failed_at = excluded.failed_at, failures = excluded.failures, code = excluded.code,
    message = excluded.message, told = excluded.told, rest = excluded.rest, probe = excluded.probe;

-- name: hold_drop
delete from tg_hold where target = :target and lane = :lane returning operation;

-- name: hold_probe
-- Reserves the probe of a key whose cooldown is over. No row if another job has it.
update tg_hold set until = :until, probe = 0
where target = :target and lane = :lane and operation = '' and reason <> 'open' and until <= :at
returning lane;

-- name: hold_probe_is
-- Sets the job that is the probe.
update tg_hold set probe = :job where target = :target and lane = :lane and operation = '' and probe = 0;

-- name: hold_unprobe
-- Releases a probe without a result: the next one may run. The end is as old as the hold, for corrections of the clock.
update tg_hold set until = since, probe = null
where target = :target and lane = :lane and operation = '' and probe = :job;

-- name: holds_of
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where target = :target order by lane limit :n;

-- name: holds_next
-- The keys after a given one, in order, to find stale ones.
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where (target, lane) > (:target, :lane) and operation = '' order by target, lane limit :n {skip_locked};

-- name: holds_resting
select target, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe from tg_hold
where target = :target and rest is not null order by lane limit :n;

-- name: running_of
-- The number of running jobs of a target, in total and of those claimed since a time.
select count(*), coalesce(sum(case when claimed_at >= :since then 1 else 0 end), 0)
from tg_job where state = 'running' and target = :target;

-- name: running_in
-- The number of running jobs of a key.
select count(*) from tg_job where state = 'running' and target = :target and lane = :lane;

-- name: gate_event
-- An event of a queue, a target or a key.
insert into tg_gate_event (at, subject, name, lane, kind, actor, fields, written_at)
values ({now}, :subject, :name, :lane, :kind, :actor, :fields, {now});

-- name: gate_event_at
-- The same for another program, which sets the time.
insert into tg_gate_event (at, subject, name, lane, kind, actor, fields, written_at)
values (:at, :subject, :name, :lane, :kind, :actor, :fields, {now});

-- name: gate_events
-- Newest first.
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where subject = :subject and name = :name and id < :before order by id desc limit :n;

-- name: gate_cleared
select id, at, subject, name, lane, kind, actor, fields from tg_gate_event
where subject = 'target' and name = :name and id > :after and kind = 'target_cleared' order by id limit :n;

-- name: gate_event_last
select coalesce(max(id), 0) from tg_gate_event where subject = 'target' and name = :name;

-- name: gate_events_prune
-- Reads only the oldest rows: the first ones written are deleted first.
delete from tg_gate_event where id in (
    select id from (select id, coalesce(written_at, at) as kept_at from tg_gate_event order by id limit :n) as oldest
    where kept_at < :before
) returning id;

-- name: queue_rows
select name, paused_at, paused_until, paused_by from tg_queue order by name;
