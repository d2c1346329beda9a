-- Leases that ended without a word from their worker. A later heartbeat of that worker shows that its process lives: the
-- job did not crash it.
create table tg_lost_lease (
    job bigint not null references tg_job (id) on delete cascade,
    fence bigint not null,
    worker text not null,
    alone integer not null check (alone in (0, 1)),
    survived integer not null default 0 check (survived in (0, 1)),
    primary key (job, fence)
) {clustered};
create index tg_lost_lease_worker on tg_lost_lease (worker, job) where survived = 0;
