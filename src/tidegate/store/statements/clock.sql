-- Steps of the clock: what is known of it, and the times that move with it.
--
-- :by seconds from :was to :is. :all = 0 where some rows were written after the step: those are nearer to :is, and stay.

-- name: clock_lock
select value from tg_store where name = :name {skip_locked};

-- name: clock_write
insert into tg_store (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;

-- name: shift_leases
update tg_job set lease_until = lease_until + :by
where state = 'running' and (:all = 1 or abs(claimed_at - :was) < abs(claimed_at - :is));

-- name: shift_expiry
update tg_job set expires_at = expires_at + :by
where expires_at is not null and state in ('blocked', 'waiting', 'ready')
    and (:all = 1 or abs(created_at - :was) < abs(created_at - :is));

-- name: shift_running_expiry
update tg_job set expires_at = expires_at + :by
where expires_at is not null and state = 'running' and (:all = 1 or abs(created_at - :was) < abs(created_at - :is));

-- name: shift_retries
-- A first attempt at a time that a person chose stays there.
update tg_job set due_at = due_at + :by
where state = 'waiting' and last_at is not null and (:all = 1 or abs(last_at - :was) < abs(last_at - :is));

-- name: shift_holds
update tg_hold set until = until + :by where until is not null and (:all = 1 or abs(since - :was) < abs(since - :is));

-- name: shift_breakers
update tg_target set breaker_until = breaker_until + :by
where breaker_until is not null and (:all = 1 or abs(breaker_until - :was) < abs(breaker_until - :is));

-- name: shift_target_pauses
update tg_target set paused_until = paused_until + :by
where paused_until is not null and (:all = 1 or abs(paused_at - :was) < abs(paused_at - :is));

-- name: shift_queue_pauses
update tg_queue set paused_until = paused_until + :by
where paused_until is not null and (:all = 1 or abs(paused_at - :was) < abs(paused_at - :is));

-- name: shift_leaders
update tg_leader set until = until + :by where :all = 1 or abs(until - :was) < abs(until - :is);

-- name: shift_workers
update tg_worker set seen_at = seen_at + :by where :all = 1 or abs(seen_at - :was) < abs(seen_at - :is);

-- name: shift_requests
update tg_request set lease_until = lease_until + :by
where lease_until is not null and (:all = 1 or abs(lease_until - :was) < abs(lease_until - :is));
