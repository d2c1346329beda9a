-- What the demo tells is measured: one look at the tables of all applications.

-- name: facts
-- The columns are the fields of Facts.
select
    (select count(*) from tg_job where queue = 'convert' and state = 'done'),
    (select count(*) from tg_job where queue = 'convert' and state in ('ready', 'waiting', 'running')),
    (select count(*) from tg_job where queue = 'convert' and state = 'failed'),
    (select coalesce(max(breaker), 'closed') from tg_target where name = 'convert-gateway'),
    (select count(*) from feeds_state where last_polled_at is not null),
    (select count(*) from feeds_state),
    (select coalesce(max(consecutive_errors), 0) from feeds_state where source_id = :feed),
    (select max(rest_until) from feeds_state where source_id = :feed),
    (select count(*) from music_play where user_id = :listener),
    (select count(*) from tg_notice where name = 'spotify' and level = 'error' and created_at >= :since),
    (select count(*) from music_state where provider = 'spotify' and user_id = :listener and held = 'fatal'),
    (select count(*) from tg_job where queue = 'lidarr' and state in ('ready', 'waiting', 'blocked', 'running')),
    (select count(*) from tg_job where queue = 'lidarr' and state = 'done'),
    (select count(*) from tg_notice where created_at >= :since);
