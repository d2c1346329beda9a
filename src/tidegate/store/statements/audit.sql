-- The audit log.

-- name: activity_note
insert into tg_activity (at, actor, origin, action, subject, name, lane, was, became, reason)
values ({now}, :actor, :origin, :action, :subject, :name, :lane, :was, :became, :reason);

-- name: activity
-- Newest first.
select id, at, actor, origin, action, subject, name, lane, was, became, reason from tg_activity
where id < :before and at >= :earliest and at <= :latest
    and (:actor = '' or actor = :actor) and (:action = '' or action = :action) and (:origin = '' or origin = :origin)
    and (:subject = '' or subject = :subject) and (:name = '' or name = :name)
    and (:accounts = 1 or subject not in ('user', 'token'))
order by id desc limit :n;

-- name: activity_prune
delete from tg_activity where id in (select id from tg_activity where at < :before order by at limit :n) returning id;
