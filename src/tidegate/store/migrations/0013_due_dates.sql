-- A job that is due at a time that the caller named, and not after a delay: a step of the clock does not move it.
alter table tg_job add column due_is_date integer not null default 0 check (due_is_date in (0, 1));
