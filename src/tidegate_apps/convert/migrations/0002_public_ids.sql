-- The id by which owners and URLs name an upload: 128 random bits, so that nobody can count the jobs of others.

alter table convert_file add column public_id text not null default '' check (public_id = '' or length(public_id) = 32);

-- only sqlite
update convert_file set public_id = lower(hex(randomblob(16)));

-- only postgres
update convert_file set public_id = replace(gen_random_uuid()::text, '-', '');

create unique index convert_file_public_id on convert_file (public_id);
