-- Figures by the minute and the hour.

-- name: rollups_put
insert into tg_rollup (scope, name, at, figures) select scope, name, :at, figures
from {rows scope text, name text, figures text} where true
on conflict do nothing;

-- name: rollups
select at, figures from tg_rollup where scope = :scope and name = :name and at >= :since order by at;

-- name: rollups_hours
-- Those of whole hours, of several at once.
select one.name, one.at, one.figures
from {rows name text} join tg_rollup as one on one.scope = :scope and one.name = given.name and one.at >= :since
where one.at % 3600 = 0;

-- name: rollups_all
-- Those of all queues or all targets, at the ends of slots of so many seconds.
select name, at, figures from tg_rollup
where scope = :scope and at >= :since and at % :step = 0;

-- name: rollups_prune
-- Old ones but for those of whole hours, and those when they are older still.
delete from tg_rollup where (scope, name, at) in (
    select scope, name, at from tg_rollup
    where at < :hours_before or (at < :fine_before and at % 3600 <> 0) order by at limit :n
) returning at;
