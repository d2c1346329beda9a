"""Bugs to plant in every machine, each with a seed whose run shows it. Nothing of this is shipped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.simulation.store_weather import Change
from tests.simulation.world import Planted
from tidegate.store.sql import Statement


def changed(name: str, *changes: tuple[str, str]) -> Change:
    """The statement *name* with other words in it."""

    def apply(statement: Statement) -> Statement:
        if statement.name != name:
            return statement
        sql = statement.sql
        for old, new in changes:
            assert old in sql, f"{name} has changed: plant the bug anew ({old!r})"
            sql = sql.replace(old, new)
        return replace(statement, sql=sql)

    return apply


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, the world that shows it, and the applications that must be there for that."""

    planted: Planted
    seed: int = 1
    calm: bool = True  # it shows also when nothing else breaks
    parts: tuple[str, ...] = ()
    hours: float = 0.5
    said: str = ""  # words of the verdict, where more than one check would find it

    @property
    def world(self) -> str:
        """In words, for the page that lists them."""
        said = [f"seed {self.seed}", f"{self.hours:g} h", *(["calm"] if self.calm else []), *self.parts]
        return ", ".join(said)


def wrong_words(name: str, *changes: tuple[str, str]) -> Planted:
    return Planted(changed(name, *changes))


def _taken_away(statement: Statement) -> Statement:
    early = changed("lost_leases", ("lease_until < :now", "claimed_at < :now - 10"))(statement)
    return changed("take_back", (" and lease_until < :now", ""))(early)


def _convicted_together(statement: Statement) -> Statement:
    counted = changed("lost_leases", ("deaths_alone, suspect,", "deaths_alone, 1,"))(statement)
    return changed("take_back", ("suspect = case when :outcome = 'ready' then 1 else 0 end", "suspect = 0"))(counted)


def _parents_forgotten(statement: Statement) -> Statement:
    chosen = changed("old_jobs", ("link.parent = old.id and", "link.parent = -1 and"))(statement)
    return changed("forget", ("link.parent = tg_job.id and", "link.parent = -1 and"))(chosen)


OF_THE_CORE: dict[str, Bug] = {
    "a result is accepted without its lease": Bug(
        wrong_words(
            "settle",
            ("and tg_job.fence = :fence", ""),
            ("returning tg_job.id, tg_job.fence", "returning tg_job.id, :fence"),
        ),
        seed=14, calm=False,
    ),
    "a result is not stored": Bug(wrong_words("settle", ("result = :result", "result = null"))),
    "a claim does not increase the fence": Bug(wrong_words("claim", ("fence = fence + 1", "fence = max(fence, 1)"))),
    "an attempt is not counted": Bug(wrong_words("claim", ("attempt = attempt + 1", "attempt = max(attempt, 1)"))),
    "a lease is not renewed": Bug(
        wrong_words("renew", ("lease_until = :now + :lease", "lease_until = lease_until"))
    ),
    "a valid lease is taken away": Bug(Planted(_taken_away)),
    "a lost lease is never found": Bug(
        wrong_words("lost_leases", ("lease_until < :now", "lease_until < 0")), seed=20, calm=False, hours=1
    ),
    "a delay is ignored": Bug(wrong_words("promote", ("due_at <= :now", "due_at > 0"))),
    "a crash counts against all jobs of the worker": Bug(
        Planted(_convicted_together), seed=2, calm=False, hours=1, said="failed for others"
    ),
    "no job runs alone after a crash": Bug(
        wrong_words("take_back", ("suspect = case when :outcome = 'ready' then 1 else 0 end", "suspect = 0")),
        seed=2, calm=False, hours=1,
    ),
    "a parent is removed while its child waits": Bug(
        Planted(_parents_forgotten), hours=1, said="without the result of its parent"
    ),
    "a child is never unblocked": Bug(wrong_words("free_children", ("parents_open > n", "parents_open > 0"))),
    "a total is counted twice": Bug(wrong_words("tally", (":delta)", ":delta * 2)"))),
    "a pause is ignored": Bug(
        wrong_words("target_pause", (":name, :now, :now, :until", ":name, :now, :now, :now"))
    ),
    "a cancelled job continues": Bug(
        wrong_words("cancel_waiting", ("state = 'cancelled', parents_open = 0, finished_at = :now", "priority = 0")),
        seed=2, said="after it was cancelled",
    ),
    "running jobs are not counted": Bug(wrong_words("running_of", ("select count(*)", "select 0"))),
    "a breaker never opens": Bug(
        wrong_words("target_moved", ("where name", "where 1 = 0 and name")), seed=6, hours=1
    ),
    "a delivery loses its job and is sent again": Bug(
        wrong_words("delivery_job", ("set job = :job", "set job = null"))
    ),
}  # fmt: skip

OF_APPLICATIONS: dict[str, Bug] = {
    "a feed is polled before it is due": Bug(
        wrong_words("feeds.due", ("due_at <= :at", "due_at <= :at + 200")), parts=("feeds",)
    ),
    "entries of a feed are lost": Bug(
        wrong_words("feeds.put_items", ("where true", "where entry.key < '3'")), parts=("feeds",)
    ),
    "a submission to Lidarr does not count until it is listed": Bug(
        Planted(settings={"lidarr": {"credits": False}}), parts=("lidarr",), hours=1
    ),
    "a submission counts as accepted although Lidarr never received it": Bug(
        wrong_words("lidarr.eligible", ("select count(*)", "select 0 * count(*)")), parts=("lidarr",), hours=1
    ),
    "a play is stored again at each sync": Bug(
        wrong_words("music.add_plays", (":provider, ref, at", ":provider, ref || hex(randomblob(4)), at")),
        parts=("music",),
    ),
    "a play is skipped": Bug(
        wrong_words("music.add_plays", ("where true", "where track_id % 3 <> 0")), parts=("music",)
    ),
    "the Tautulli mark is ahead of the stored rows": Bug(
        wrong_words("tautulli.seen", ("then :row_id else", "then :row_id + 5 else")), parts=("tautulli",)
    ),
    "the XML is removed too early": Bug(
        wrong_words("convert.old_results", ("and j.finished_at < :before and f.created_at < :before", "")),
        parts=("convert",), hours=1,
    ),
}  # fmt: skip

PLANTED = OF_THE_CORE | OF_APPLICATIONS
