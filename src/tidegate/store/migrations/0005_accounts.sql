-- When somebody was here last, and who changed what about people and tokens.

alter table tg_user add column seen_at double precision;

create table tg_account_event (
    id {serial},
    at double precision not null,
    kind text not null check (kind <> ''),
    name text not null,
    actor text not null,
    fields text not null default '{}'
);
