-- Counters, stored as differences that are compacted periodically.

-- name: tally
insert into tg_tally (queue, what, delta) select given.queue, given.what, given.delta
from {rows queue text, what text, delta bigint} where true;

-- name: tally_one
insert into tg_tally (queue, what, delta) values (:queue, :what, 1);

-- name: tallies
select queue, what, sum(delta) from tg_tally group by queue, what;

-- name: tally_take
-- One statement: a concurrent insert must not be lost between a sum and a delete. A single row needs no compaction.
delete from tg_tally
where (queue, what) in (select queue, what from tg_tally group by queue, what having count(*) > 1)
returning queue, what, delta;
