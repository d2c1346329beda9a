-- Steps of the clock: its stored state, and the times that move with it.
--
-- The clock moved by :by seconds, from :was to :is. Rows from :after to :until were written after the step and stay. The
-- time at which a row was written moves too, so that the next step handles it correctly.

-- name: clock_lock
select value from tg_store where name = :name {skip_locked};

-- name: clock_write
insert into tg_store (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;

-- name: shift_leases
-- A lease from before a boot may have been extended since.
update tg_job set lease_until = lease_until + :by,
    claimed_at = case when claimed_at < :after or claimed_at > :until then claimed_at + :by else claimed_at end
where state = 'running'
    and (claimed_at < :after or claimed_at > :until or lease_until > cast(:jumped_at as double precision));

-- name: shift_expiry
-- `shift_waiting` and `shift_blocked` come first: they compare the creation time with the time of the step.
update tg_job set expires_at = expires_at + :by, created_at = created_at + :by
where expires_at is not null and state in ('blocked', 'waiting', 'ready')
    and (created_at < :after or created_at > :until);

-- name: shift_running_expiry
update tg_job set expires_at = expires_at + :by, created_at = created_at + :by
where expires_at is not null and state = 'running' and (created_at < :after or created_at > :until);

-- name: shift_waiting
-- A delay continues. A first attempt at a date that the caller named does not move.
update tg_job set due_at = due_at + :by, last_at = last_at + :by,
    created_at = case when expires_at is null and (created_at < :after or created_at > :until) then created_at + :by
        else created_at end
where state = 'waiting' and (due_is_date = 0 or last_at is not null)
    and (coalesce(last_at, created_at) < :after or coalesce(last_at, created_at) > :until);

-- name: shift_blocked
-- Otherwise a child would wait until the time of its insertion, once its parents are done.
update tg_job set due_at = due_at + :by, last_at = last_at + :by,
    created_at = case when expires_at is null and (created_at < :after or created_at > :until) then created_at + :by
        else created_at end
where state = 'blocked' and (due_is_date = 0 or last_at is not null)
    and (coalesce(last_at, created_at) < :after or coalesce(last_at, created_at) > :until);

-- name: shift_holds
-- The end of a hold was set by its last failure, or by a probe.
update tg_hold set
    since = case when until is not null and (since < :after or since > :until) then since + :by else since end,
    failed_at = case when failed_at > 0 and (failed_at < :after or failed_at > :until) then failed_at + :by
        else failed_at end,
    until = case
        when case when failed_at > since then failed_at else since end between :after and :until
            and (probe is null or until <= :jumped_at or cast(:jumped_at as double precision) is null) then until
        else until + :by
    end;

-- name: shift_breakers
update tg_target set breaker_until = breaker_until + :by, breaker_since = breaker_since + :by
where breaker_until is not null and (breaker_since < :after or breaker_since > :until);

-- name: shift_target_pauses
update tg_target set paused_until = paused_until + :by, paused_at = paused_at + :by
where paused_until is not null and (paused_at < :after or paused_at > :until);

-- name: shift_queue_pauses
update tg_queue set paused_until = paused_until + :by, paused_at = paused_at + :by
where paused_until is not null and (paused_at < :after or paused_at > :until);

-- name: shift_leaders
update tg_leader set until = until + :by where cast(:after as double precision) > :is or abs(until - :was) < abs(until - :is);

-- name: shift_workers
update tg_worker set seen_at = seen_at + :by where seen_at < :after or seen_at > :until;

-- name: shift_requests
update tg_request set lease_until = lease_until + :by
where lease_until is not null and (cast(:after as double precision) > :is or abs(lease_until - :was) < abs(lease_until - :is));

-- name: kept_capacities
select name, capacity from tg_target where capacity is not null order by name {for_update};

-- name: shift_notices
-- Events that are open, undecided, or ended less than a day ago: they decide how long a problem lasts.
update tg_notice set created_at = created_at + :by, ended_at = ended_at + :by, acked_at = acked_at + :by,
    decided_at = decided_at + :by, told_at = told_at + :by, waits_until = waits_until + :by,
    snoozed_until = snoozed_until + :by
where (ended_at is null or decided_at is null or ended_at > :was - 86400) and (created_at < :after or created_at > :until);

-- name: shift_gate_events
update tg_gate_event set at = at + :by where at > :was - 86400 and (at < :after or at > :until);
