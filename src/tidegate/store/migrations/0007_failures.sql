-- Failures that are the same one, as groups: who failed with which code and message, how often, since when.

alter table tg_job add column failure text;

create index tg_job_failure on tg_job (failure, id, state) where failure is not null;

-- Every batch appends what it met, and the leader adds it up: no two workers ever wait for each other here.
create table tg_failure_note (
    id {serial},
    failure text not null,
    target text not null,
    kind text not null,
    code text not null,
    message text not null,
    at double precision not null,
    n integer not null check (n > 0)
);

create table tg_failure (
    failure text primary key,
    target text not null,
    kind text not null,
    code text not null,
    message text not null,
    first_at double precision not null,
    last_at double precision not null,
    n bigint not null check (n > 0)
) {clustered};

create index tg_failure_last on tg_failure (last_at);

create table tg_failure_hour (
    failure text not null,
    hour bigint not null,
    n bigint not null check (n > 0),
    primary key (failure, hour)
) {clustered};
