-- Figures per minute and hour.

-- name: rollups_put
insert into tg_rollup (scope, name, at, figures) select scope, name, :at, figures
from {rows scope text, name text, figures text} where true
on conflict do nothing;

-- name: rollups
select at, figures from tg_rollup where scope = :scope and name = :name and at >= :since order by at;

-- name: rollups_hours
-- Figures of several full hours.
select one.name, one.at, one.figures
from {rows name text} join tg_rollup as one on one.scope = :scope and one.name = given.name and one.at >= :since
where one.at % 3600 = 0;

-- name: rollups_all
-- Figures of all queues or all targets at the ends of intervals.
select name, at, figures from tg_rollup
where scope = :scope and at >= :since and at % :step = 0;

-- name: rollups_prune
-- Old figures except those of full hours, and older figures of full hours.
delete from tg_rollup where (scope, name, at) in (
    select scope, name, at from tg_rollup
    where at < :hours_before or (at < :fine_before and at % 3600 <> 0) order by at limit :n
) returning at;
