-- name: add
insert into convert_file (job, public_id, owner, name, mapping, bytes, sha256, source, created_at)
values (:job, :public_id, :owner, :name, :mapping, :bytes, :sha256, :source, {now});

-- name: file
select f.job, f.public_id, f.owner, f.name, f.mapping, f.bytes, f.sha256, f.source, f.source_gone_at,
    f.result_gone_at, f.created_at, f.downloads, j.state, j.attempt, j.most_attempts, j.manual_retries, j.due_at, j.claimed_at, j.finished_at,
    j.last_at, j.last_code, j.last_status, j.error_code, j.error_message, j.result,
    (select min(e.began_at) from tg_event as e where e.job = j.id) as began_at
from convert_file as f join tg_job as j on j.id = f.job
where f.job = :job;

-- name: files_of
-- The newest uploads of an owner before a job, those that changed since a time and have a status.
select f.job, f.public_id, f.owner, f.name, f.mapping, f.bytes, f.sha256, f.source, f.source_gone_at,
    f.result_gone_at, f.created_at, f.downloads, j.state, j.attempt, j.most_attempts, j.manual_retries, j.due_at, j.claimed_at, j.finished_at,
    j.last_at, j.last_code, j.last_status, j.error_code, j.error_message, j.result,
    (select min(e.began_at) from tg_event as e where e.job = j.id) as began_at
from convert_file as f join tg_job as j on j.id = f.job
where f.owner = :owner and f.job < :below
    and (j.created_at >= :since or j.claimed_at >= :since or j.finished_at >= :since or j.last_at >= :since
         or j.due_at >= :since or f.source_gone_at >= :since or f.result_gone_at >= :since)
    and (:status = '' or :status = case j.state
         when 'running' then 'processing' when 'done' then 'complete' when 'failed' then 'failed' else 'queued' end)
order by f.job desc limit :n;

-- name: job_of
select job from convert_file where public_id = :public_id;

-- name: active_of
select count(*) from convert_file as f join tg_job as j on j.id = f.job
where f.owner = :owner and j.state in ('blocked', 'waiting', 'ready', 'running');

-- name: twin
-- Another upload of the same file by the same owner that has not failed.
select f.public_id from convert_file as f join tg_job as j on j.id = f.job
where f.owner = :owner and f.sha256 = :sha256 and f.mapping = :mapping and f.bytes = :bytes and f.job <> :job
    and f.result_gone_at is null and j.state in ('blocked', 'waiting', 'ready', 'running', 'done')
order by f.job desc limit 1;

-- name: downloaded
update convert_file set downloads = downloads + 1, first_downloaded_at = coalesce(first_downloaded_at, {now})
where job = :job;

-- name: result_gone
update convert_file set result_gone_at = {now} where job = :job and result_gone_at is null returning job;

-- name: held_still
-- Locks the job: a retry that is not yet committed is waited for.
select state from tg_job where id = :job {for_update};

-- name: source_gone
-- The PDF of a job that has ended, unless a user retried it meanwhile.
update convert_file set source_gone_at = {now}
where job = :job and source_gone_at is null and source is not null
    and not exists (
        select 1 from tg_job as j where j.id = convert_file.job and j.state in ('blocked', 'waiting', 'ready', 'running')
    )
returning source;

-- name: old_sources
-- PDFs of jobs that ended before a time.
select f.job from convert_file as f join tg_job as j on j.id = f.job
where f.source is not null and f.source_gone_at is null and j.finished_at < :before and f.created_at < :before
order by f.created_at limit :n;

-- name: old_results
-- XML files of jobs that were complete before a time.
select f.job, j.result from convert_file as f join tg_job as j on j.id = f.job
where f.result_gone_at is null and j.state = 'done' and j.finished_at < :before and f.created_at < :before
order by f.created_at limit :n;

-- name: forgotten
-- Uploads whose job was removed.
delete from convert_file where job in (
    select f.job from convert_file as f left join tg_job as j on j.id = f.job where j.id is null limit :n
) returning job;

-- name: source_known
-- Whether a job may still need this PDF.
select 1 from convert_file as f join tg_job as j on j.id = f.job
where f.source = :source and f.source_gone_at is null;

-- name: running_or_done
-- Whether the job of this PDF has not failed: its XML has the same name.
select 1 from convert_file as f join tg_job as j on j.id = f.job
where f.source = :source and f.result_gone_at is null and j.state <> 'failed';

-- name: pause
insert into convert_pause (what, until, since, actor) values ('uploads', :until, {now}, :actor)
on conflict (what) do update set until = excluded.until, since = excluded.since, actor = excluded.actor;

-- name: resume
delete from convert_pause where what = 'uploads' and until > {now} returning what;

-- name: paused
select until, since, actor from convert_pause where what = 'uploads' and until > {now};

-- name: queue_paused
select paused_until from tg_queue where name = :name and paused_until > {now};

-- name: gateway
select breaker from tg_target where name = :name;

-- name: gateway_shut
-- A hold that an operator must clear.
select reason from tg_hold where target = :name and reason = 'fatal' limit 1;

-- name: storage_id
select id from convert_storage;

-- name: storage_begin
-- The first id stays.
insert into convert_storage (place, id) values ('files', :id)
on conflict (place) do update set id = convert_storage.id returning id;

-- name: storage_forget
delete from convert_storage;

-- name: restored_at
-- When the database was last restored from a backup.
select value from tg_store where name = 'restored_at';

-- name: shift_pause
-- The clock was moved by :by seconds. Times move with it, except those that were written from :after to :until.
update convert_pause set until = until + :by, since = since + :by where since < :after or since > :until;
