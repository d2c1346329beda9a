-- What the chart of the hours is drawn from: plays by the quarter of the day, in UTC, and by stretches of 28 days since 1970.
-- Whatever a time zone adds to them, its hours are made of whole quarters.
create table tautulli_clock (
    stretch bigint not null,
    quarter integer not null check (quarter >= 0 and quarter < 96),
    plays bigint not null,
    seconds bigint not null,
    primary key (stretch, quarter)
){clustered};

insert into tautulli_clock (stretch, quarter, plays, seconds)
select at / 2688, at % 96, sum(plays), sum(seconds) from tautulli_time where width = 900 group by 1, 2;
