-- The id of the storage that the files are in; the storage has the same in a file.

create table convert_storage (
    place text primary key check (place = 'files'),
    id text not null check (id <> '')
);
