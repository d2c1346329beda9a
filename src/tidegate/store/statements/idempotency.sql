-- Requests with an Idempotency-Key.

-- name: request_begin
-- Reserves a key: a new one, an old one, or one whose lease has expired.
insert into tg_request (scope, name, digest, begun_at, lease_until) values (:scope, :key, :digest, {now}, {now} + :lease)
on conflict (scope, name) do update set digest = excluded.digest, fence = tg_request.fence + 1,
    begun_at = excluded.begun_at, lease_until = excluded.lease_until, status = null, headers = null, body = null
where tg_request.begun_at <= excluded.begun_at - :kept
    or (tg_request.status is null and tg_request.lease_until <= excluded.begun_at and tg_request.digest = excluded.digest)
returning fence;

-- name: request_seen
select digest, status, headers, body, lease_until - {now} from tg_request where scope = :scope and name = :key;

-- name: request_finish
update tg_request set status = :status, headers = :headers, body = :body, lease_until = null
where scope = :scope and name = :key and fence = :fence and status is null returning fence;

-- name: request_abandon
delete from tg_request where scope = :scope and name = :key and fence = :fence and status is null returning fence;

-- name: requests_prune
delete from tg_request where (scope, name) in (
    select scope, name from tg_request where begun_at < :before order by begun_at limit :n
) returning name;
