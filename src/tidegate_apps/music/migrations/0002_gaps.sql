-- Times of which plays may be missing, because there were more of them than the provider still hands over.
create table music_gap (
    user_id text not null,
    provider text not null,
    since double precision not null,
    until double precision not null,
    seen_at double precision not null,
    primary key (user_id, provider, since),
    check (since < until)
){clustered};
