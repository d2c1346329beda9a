-- What was uploaded. The job, in its own table, has the state, the result and the error.

create table convert_file (
    job bigint primary key,
    owner text not null check (owner <> ''),
    name text not null,
    mapping text not null,
    bytes bigint not null check (bytes >= 0),
    sha256 text not null check (length(sha256) = 64),
    source text,
    source_gone_at double precision,
    result_gone_at double precision,
    created_at double precision not null,
    downloads integer not null default 0 check (downloads >= 0),
    first_downloaded_at double precision,
    check (source is not null or source_gone_at is null),
    check ((downloads > 0) = (first_downloaded_at is not null))
);

create index convert_file_of on convert_file (owner, job desc);
create unique index convert_file_source on convert_file (source) where source is not null;
create index convert_file_sources on convert_file (created_at) where source is not null and source_gone_at is null;
create index convert_file_results on convert_file (created_at) where result_gone_at is null;

create table convert_pause (
    what text primary key check (what = 'uploads'),
    until double precision not null,
    since double precision not null,
    actor text not null,
    check (until > since)
);
