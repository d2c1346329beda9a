-- What channels were told of each notice, how that went, and whom a person's own mail was sent to.

alter table tg_notice add column decided_at double precision;
alter table tg_notice add column told_at double precision;
alter table tg_notice add column waits_until double precision;
alter table tg_notice add column why text;
alter table tg_notice add column snoozed_until double precision;
alter table tg_notice add column snoozed_by text;
alter table tg_notice add column round_no integer not null default 0;

-- Nobody is told now of what was there before.
update tg_notice set decided_at = created_at;

create index tg_notice_undecided on tg_notice (id) where decided_at is null;
create index tg_notice_place on tg_notice (subject, name, lane, operation, id);
create index tg_notice_going_on on tg_notice (kind) where ended_at is null;
create index tg_notice_snoozed on tg_notice (snoozed_until) where snoozed_until is not null;

create index tg_gate_event_breaker on tg_gate_event (at) where kind = 'breaker_state_changed';

create table tg_delivery (
    notice bigint not null references tg_notice (id) on delete cascade,
    channel text not null check (channel <> ''),
    round_no integer not null check (round_no >= 0),
    state text not null check (state in ('queued', 'delivered', 'failed')),
    job bigint,
    instead_of text,
    created_at double precision not null,
    ended_at double precision,
    code text,
    why text,
    primary key (notice, channel, round_no),
    check ((state = 'queued') = (ended_at is null))
) {clustered};

create index tg_delivery_queued on tg_delivery (job) where state = 'queued';

create table tg_channel (
    name text primary key check (name <> ''),
    kind text not null check (kind <> ''),
    shown text not null,
    level text not null check (level in ('error', 'warning', 'success', 'info')),
    place integer not null,
    standby integer not null check (standby in (0, 1)),
    digest text not null,
    there integer not null default 1 check (there in (0, 1)),
    last_at double precision,
    last_ok integer check (last_ok in (0, 1)),
    last_why text,
    tested_at double precision,
    tested_ok integer check (tested_ok in (0, 1)),
    tested_why text,
    disabled_at double precision,
    disabled_why text,
    check ((last_at is null) = (last_ok is null)),
    check ((tested_at is null) = (tested_ok is null)),
    check ((disabled_at is null) = (disabled_why is null))
);

create table tg_address (
    who text primary key check (who <> ''),
    mail text not null check (mail <> '')
);

create table tg_mailed (
    who text not null,
    target text not null,
    at double precision not null,
    primary key (who, target)
);
