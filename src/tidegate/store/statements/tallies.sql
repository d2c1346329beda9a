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
delete from tg_tally returning queue, what, delta;
