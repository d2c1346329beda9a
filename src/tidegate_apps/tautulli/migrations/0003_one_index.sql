-- Plays are sought in one index, which grows at its end. One for each filter took as long as all else that a sync writes.
drop index tautulli_play_started;
drop index tautulli_play_person;
drop index tautulli_play_show;
drop index tautulli_play_platform;
drop index tautulli_play_media_type;
create index tautulli_play_sought on tautulli_play (started, row_id, person, show, platform, media_type, duration);

-- A change is seen by comparing what is stored.
alter table tautulli_play drop column digest;

-- Days at the rim of a stretch of time are read from the plays.
delete from tautulli_tally where grain = 'day';
