-- Counts, kept as differences that are summed up now and then.

-- name: tally
insert into tg_tally (queue, what, delta) select given.queue, given.what, given.delta
from {rows queue text, what text, delta bigint} where true;

-- name: tally_one
insert into tg_tally (queue, what, delta) values (:queue, :what, 1);

-- name: tallies
select queue, what, sum(delta) from tg_tally group by queue, what;

-- name: tally_take
-- In one statement: what another transaction appends meanwhile must not vanish between a sum and a delete.
-- What stands in one row is added up already.
delete from tg_tally
where (queue, what) in (select queue, what from tg_tally group by queue, what having count(*) > 1)
returning queue, what, delta;
