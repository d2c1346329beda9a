-- Uploads. State, result and error are in the row of the job. `public_id` is what owners and URLs name: 128 random bits,
-- so that ids cannot be guessed or counted.

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
    public_id text not null check (length(public_id) = 32),
    check (source is not null or source_gone_at is null),
    check ((downloads > 0) = (first_downloaded_at is not null))
);

create unique index convert_file_public_id on convert_file (public_id);
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

-- The id of the storage that the files are in; the storage has the same in a file.

create table convert_storage (
    place text primary key check (place = 'files'),
    id text not null check (id <> '')
);
