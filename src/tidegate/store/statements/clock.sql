-- Steps of the clock: what is known of it, and the times that move with it.
--
-- :by seconds from :was to :is. :all = 0 where some rows were written after the step, between :after and :until: those
-- stay. The time at which a row was written moves with it, so that the next step finds it where the clock is.

-- name: clock_lock
select value from tg_store where name = :name {skip_locked};

-- name: clock_write
insert into tg_store (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;

-- name: shift_leases
update tg_job set lease_until = lease_until + :by, claimed_at = claimed_at + :by
where state = 'running' and (:all = 1 or claimed_at < :after or claimed_at > :until);

-- name: shift_expiry
update tg_job set expires_at = expires_at + :by
where expires_at is not null and state in ('blocked', 'waiting', 'ready')
    and (:all = 1 or created_at < :after or created_at > :until);

-- name: shift_running_expiry
update tg_job set expires_at = expires_at + :by
where expires_at is not null and state = 'running' and (:all = 1 or created_at < :after or created_at > :until);

-- name: shift_retries
-- A first attempt at a time that a person chose stays there.
update tg_job set due_at = due_at + :by, last_at = last_at + :by
where state = 'waiting' and last_at is not null and (:all = 1 or last_at < :after or last_at > :until);

-- name: shift_holds
update tg_hold set until = until + :by, since = since + :by
where until is not null and (:all = 1 or since < :after or since > :until);

-- name: shift_breakers
update tg_target set breaker_until = breaker_until + :by
where breaker_until is not null and (:all = 1 or abs(breaker_until - :was) < abs(breaker_until - :is));

-- name: shift_target_pauses
update tg_target set paused_until = paused_until + :by, paused_at = paused_at + :by
where paused_until is not null and (:all = 1 or paused_at < :after or paused_at > :until);

-- name: shift_queue_pauses
update tg_queue set paused_until = paused_until + :by, paused_at = paused_at + :by
where paused_until is not null and (:all = 1 or paused_at < :after or paused_at > :until);

-- name: shift_leaders
update tg_leader set until = until + :by where :all = 1 or abs(until - :was) < abs(until - :is);

-- name: shift_workers
update tg_worker set seen_at = seen_at + :by where :all = 1 or abs(seen_at - :was) < abs(seen_at - :is);

-- name: shift_requests
update tg_request set lease_until = lease_until + :by
where lease_until is not null and (:all = 1 or abs(lease_until - :was) < abs(lease_until - :is));
