-- Properties of the database.

-- name: has_migrations_sqlite
select 1 from sqlite_master where name = 'tg_migration';

-- name: has_migrations_postgres
select 1 where to_regclass('tg_migration') is not null;

-- name: migrations
select app, number, name, checksum, applied_at from tg_migration order by app, number;

-- name: migration_count
select count(*) from tg_migration;

-- name: migrated
insert into tg_migration (app, number, name, checksum, applied_at) values (:app, :number, :name, :checksum, {now});

-- name: store_value
select value from tg_store where name = :name;

-- name: cycle_at
-- When the next run of a batch-only queue begins.
insert into tg_store (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value;

-- name: store_put
insert into tg_store (name, value) values (:name, :value) on conflict (name) do nothing;

-- name: clock
select {now};
