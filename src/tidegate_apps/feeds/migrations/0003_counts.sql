-- Polls since the beginning, by how they ended: histories are forgotten, and counters never fall.
create table feeds_count (
    outcome text primary key,
    polls bigint not null,
    ms bigint not null,
    fresh bigint not null
);
