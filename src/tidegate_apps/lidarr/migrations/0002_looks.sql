-- When a look that Lidarr has cut short goes on; null when it came to its end.
alter table lidarr_look add column goes_on_at double precision;
