-- A job whose worker died while it ran is a suspect until it is cleared. It runs alone, and only deaths while it ran
-- alone count against it.
alter table tg_job add column suspect integer not null default 0 check (suspect in (0, 1));
alter table tg_job add column deaths_alone integer not null default 0 check (deaths_alone >= 0);
create index tg_job_suspect on tg_job (priority desc, id) where state = 'ready' and suspect = 1;

-- A worker that is older than the schema claims nothing.
alter table tg_worker add column outdated integer not null default 0 check (outdated in (0, 1));
