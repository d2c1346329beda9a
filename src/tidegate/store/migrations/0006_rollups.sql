-- What queues and targets looked like in the past: their numbers at the end of each five minutes, later of each hour.
-- What only grows is put down as it stands, so that a slot that is missing loses nothing. The scope 'all' says only that
-- somebody looked: who has no row beside it had no numbers then.

create table tg_rollup (
    scope text not null check (scope in ('all', 'queue', 'target')),
    name text not null,
    at bigint not null check (at > 0 and at % 300 = 0),
    figures text not null,
    primary key (scope, name, at)
) {clustered};

create index tg_rollup_at on tg_rollup (at);
