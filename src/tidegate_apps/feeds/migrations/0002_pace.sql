-- Seconds between two polls when all goes well, with what the feed asks for; null before its first success.
alter table feeds_state add column every_s double precision;
