-- Users, sessions and tokens.

-- name: user
select role, password from tg_user where name = :name;

-- name: users
-- With the session count of each user.
select who.name, who.role, who.made_at, who.changed_at, who.seen_at,
    (select count(*) from tg_session as session where session.who = who.name and session.ends_at > {now}) as sessions
from tg_user as who order by who.name;

-- name: any_user
select 1 from tg_user limit 1;

-- name: user_add
insert into tg_user (name, role, password, made_at, changed_at) values (:name, :role, :password, {now}, {now})
on conflict (name) do nothing returning name;

-- name: user_change
update tg_user set role = coalesce(:role, role), password = coalesce(:password, password), changed_at = {now}
where name = :name returning name;

-- name: user_remove
delete from tg_user where name = :name returning name;

-- name: admins
-- Changes nothing, but locks the row, so that two admins cannot demote each other at the same time.
update tg_user set changed_at = changed_at where role = 'admin' returning name;

-- name: user_seen
update tg_user set seen_at = {now} where name = :name;

-- name: session_add
insert into tg_session (digest, who, made_at, seen_at, ends_at) values (:digest, :who, {now}, {now}, {now} + :lasts);

-- name: session
select who.name, who.role, session.seen_at, {now} from tg_session as session join tg_user as who on who.name = session.who
where session.digest = :digest and session.ends_at > {now};

-- name: session_seen
update tg_session set seen_at = {now},
    ends_at = case when {now} + :lasts > made_at + :longest then made_at + :longest else {now} + :lasts end
where digest = :digest and made_at + :longest > {now} returning who;

-- name: session_end
delete from tg_session where digest = :digest returning who;

-- name: sessions_end
delete from tg_session where who = :who returning digest;

-- name: sessions_prune
delete from tg_session where digest in (select digest from tg_session where ends_at <= {now} order by ends_at limit :n)
returning digest;

-- name: token_add
insert into tg_token (digest, name, role, made_by, made_at, ends_at)
values (:digest, :name, :role, :made_by, {now}, {now} + :lasts)
on conflict do nothing returning id;

-- name: token
select id, name, role, used_at, {now} from tg_token where digest = :digest and (ends_at is null or ends_at > {now});

-- name: tokens
select id, name, role, made_by, made_at, ends_at, used_at from tg_token order by id;

-- name: token_used
update tg_token set used_at = {now} where id = :id;

-- name: token_remove
delete from tg_token where name = :name returning id;

-- name: account_event
insert into tg_account_event (at, kind, name, actor, fields) values ({now}, :kind, :name, :actor, :fields) returning id;

-- name: account_events
-- Newest first.
select id, at, kind, name, actor, fields from tg_account_event order by id desc limit :n;

-- name: account_events_prune
delete from tg_account_event where id < :before returning id;
