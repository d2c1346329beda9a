-- The number of a worker's last heartbeat: a database that does not know it any more went back in time.
alter table tg_worker add column beat bigint not null default 0;
