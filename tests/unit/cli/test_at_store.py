"""The verbs that look at a database: what they print, and how each mistake ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.text import names, numbers
from tests.unit.cli.conftest import Command
from tidegate import Target
from tidegate.cli.exits import Exit
from tidegate.errors import NotFound
from tidegate.jobs.job import NewJob
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue

VERBS = [
    ("jobs", "list"), ("jobs", "queues"), ("jobs", "show", "1"), ("jobs", "retry", "1"), ("jobs", "cancel", "1"),
    ("jobs", "forget", "1"), ("jobs", "pause", "mail", "--for", "1h"), ("jobs", "resume", "mail"),
    ("targets", "list"), ("targets", "show", "api"), ("targets", "pause", "api", "--for", "1h"),
    ("targets", "resume", "api"), ("targets", "clear", "api"), ("targets", "enable", "api"),
    ("targets", "disable", "api"), ("targets", "reset", "api"), ("targets", "test", "api"),
    ("explain", "job", "1"), ("explain", "target", "api"),
    ("db", "status"), ("db", "check"), ("db", "backup", "copy.db"),
]  # fmt: skip


@pytest.fixture
def q(url: str) -> Iterator[Queue]:
    """Six jobs, of which one is done and one has failed; the others wait, one of them for another."""
    with Queue(url) as queue:

        @queue.job(queue="mail", target=Target("api", breaker=True), key=lambda n: n % 2, name="send")
        async def send(n: int) -> None:
            if n == 1:
                raise Fail("gone")

        send.enqueue_many([(0,), (1,)])
        asyncio.run(queue.adrain())
        send.options(due="1h").enqueue_many([(2,), (3,)])
        send.options(after=[send.enqueue(4)]).enqueue(5)
        yield queue


def shown(run: Any) -> Any:
    assert run.code == 0, run
    return json.loads(run.out)


@pytest.mark.parametrize(
    "verb", [("jobs", "list"), ("jobs", "show", "1"), ("targets", "show", "api"), ("explain", "target", "api")]
)
def test_what_others_wrote_does_not_steer_the_terminal(command: Command, url: str, verb: tuple[str, ...]) -> None:
    with Queue(url) as queue:

        @queue.job(queue="mail", target=Target("api"), key=lambda name: name, name="send")
        async def send(name: str) -> None: ...

        send.enqueue("\x1b]0;mine\x07\x9b31m")
        queue.target("api").key("\x1b]0;mine\x07").disable("1h", by="eve\x1b[31m")

    run = command(*verb, "--db", url)

    assert run.code == 0, run
    assert not set(run.out) & set("\x1b\x07\x9b")


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_database_that_is_not_there_is_not_made(command: Command, url: str, verb: tuple[str, ...]) -> None:
    run = command(*verb, "--db", url)

    assert (run.code, run.out, run.err.count("\n")) == (Exit.NOT_FOUND, "", 1)
    assert "jobs.db" in run.err
    assert list(Path().iterdir()) == []


def test_a_database_that_cannot_be_reached_is_one_line(command: Command) -> None:
    run = command("jobs", "list", "--db", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")

    assert (run.code, run.out, run.err.count("\n")) == (Exit.UNREACHABLE, "", 1)


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb[:2] not in {("db", "status"), ("db", "backup")}], ids=" ".join
)
def test_a_schema_that_is_not_up_to_date_says_what_to_run(command: Command, url: str, verb: tuple[str, ...]) -> None:
    Path("jobs.db").touch()

    run = command(*verb, "--db", url)

    assert (run.code, run.out) == (Exit.CONFIGURATION, "")
    assert run.err.endswith(": tidegate db migrate\n")


@pytest.mark.parametrize("bad", ["nonsense", "mysql://x", "sqlite:///", "sqlite://jobs.db"])
def test_a_url_that_is_none_is_a_mistake_of_usage(command: Command, bad: str) -> None:
    run = command("jobs", "list", "--db", bad)

    assert (run.code, run.err.count("\n")) == (Exit.USAGE, 1)


def test_a_password_is_not_printed(command: Command) -> None:
    run = command("jobs", "list", "--db", "mysql://ada:secret@host/db")

    assert "secret" not in run.err + run.out


def test_the_url_may_come_from_the_environment(
    command: Command, q: Queue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DB", url)

    assert command("jobs", "list").code == 0


@pytest.mark.parametrize(
    "verb",
    [("jobs", "show", "99"), ("explain", "job", "99"), ("targets", "show", "nobody"), ("explain", "target", "nobody"),
     ("targets", "pause", "nobody", "--for", "1h"), ("targets", "reset", "nobody"),
     ("jobs", "pause", "nobody", "--for", "1h"),
     ("jobs", "retry", "99"), ("jobs", "cancel", "99"), ("jobs", "forget", "99")],
    ids=" ".join,
)  # fmt: skip
def test_what_is_not_there_is_exit_code_7(command: Command, q: Queue, url: str, verb: tuple[str, ...]) -> None:
    run = command(*verb, "--db", url)

    assert run.code == Exit.NOT_FOUND
    assert "there is no" in run.err + run.out


@pytest.mark.parametrize(
    ("verb", "says"),
    [(("jobs", "retry", "1"), "job 1 is done"), (("jobs", "cancel", "2"), "job 2 is failed"),
     (("jobs", "forget", "3"), "job 3 is queued"),
     (("jobs", "retry", "--queue", "mail", "--expect", "7"), "1 match, not 7"),
     (("db", "restore", "jobs.db"), "--yes")],
    ids=str,
)  # fmt: skip
def test_what_is_not_possible_is_exit_code_6(
    command: Command, q: Queue, url: str, verb: tuple[str, ...], says: str
) -> None:
    run = command(*verb, "--db", url)

    assert run.code == Exit.REFUSED
    assert says in run.err + run.out


@pytest.mark.parametrize(
    "verb",
    [("jobs", "retry"), ("jobs", "retry", "1", "--queue", "mail"), ("jobs", "cancel"), ("targets", "pause", "api"),
     ("targets", "pause", "api", "--for", "soon"), ("jobs", "list", "--state", "tired"),
     ("jobs", "list", "--limit", "0"),
     ("db", "restore", "--yes"), ("jobs", "lst"), ("explain", "job", "one")],
    ids=" ".join,
)  # fmt: skip
def test_a_mistake_of_usage_is_one_line(command: Command, q: Queue, url: str, verb: tuple[str, ...]) -> None:
    run = command(*verb, "--db", url)

    assert (run.code, run.err.count("\n"), run.out) == (Exit.USAGE, 1, "")


# -- jobs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "ids"),
    [((), [6, 5, 4, 3, 2, 1]), (("--state", "failed"), [2]), (("--state", "done"), [1]),
     (("--state", "waiting"), [4, 3]),
     (("--state", "ready"), [5]), (("--state", "blocked"), [6]), (("--state", "queued"), [6, 5, 4, 3]),
     (("--state", "running"), []), (("--older", "1h"), []), (("--younger", "1h", "--state", "failed"), [2]),
     (("--limit", "2"), [6, 5]), (("--code", "gone"), [2]), (("--queue", "other"), []),
     (("--kind", "send", "--target", "api", "--queue", "mail", "--state", "failed", "--code", "gone"), [2])],
    ids=str,
)  # fmt: skip
def test_jobs_are_listed_by_what_is_asked(
    command: Command, q: Queue, url: str, options: tuple[str, ...], ids: list[int]
) -> None:
    found = shown(command("jobs", "list", "--db", url, "--json", *options))

    assert [job["id"] for job in found] == ids


def test_a_list_for_people_has_a_head_and_a_line_per_job(command: Command, q: Queue, url: str) -> None:
    head, line = command("jobs", "list", "--state", "failed", "--db", url).out.splitlines()

    assert head.split() == ["ID", "STATE", "QUEUE", "KIND", "TARGET", "KEY", "ATTEMPT", "CODE", "AT"]
    assert line.split()[:8] == ["2", "failed", "mail", "send", "api", "1", "1/10", "gone"]
    assert command("jobs", "list", "--queue", "x", "--db", url).out.count("\n") == 1


def test_one_job_is_shown_with_its_history_and_why_it_waits(command: Command, q: Queue, url: str) -> None:
    failed = shown(command("jobs", "show", "2", "--db", url, "--json"))
    assert (failed["state"], failed["error_code"], failed["args"]) == ("failed", "gone", {"n": 1})
    assert [event["kind"] for event in failed["events"]] == ["queued", "processing", "failed"]

    waiting = command("jobs", "show", "6", "--db", url).out
    assert q.explain(6)[0].message in waiting


def test_queues_are_listed_with_their_numbers(command: Command, q: Queue, url: str) -> None:
    (queue,) = shown(command("jobs", "queues", "--db", url, "--json"))

    assert queue["name"] == "mail"
    assert queue["jobs"] == {"blocked": 1, "waiting": 2, "ready": 1, "done": 1, "failed": 1}
    assert command("jobs", "queues", "--db", url).out.splitlines()[1].split()[:3] == ["mail", "1", "2"]


def test_a_failed_job_is_queued_again(command: Command, q: Queue, url: str) -> None:
    run = command("jobs", "retry", "2", "--by", "ada", "--db", url)

    assert (run.code, run.out) == (0, "job 2: queued again\n")
    assert q.events(2)[-1].actor == "ada"
    command("jobs", "pause", "mail", "--for", "1h", "--by", "worker", "--db", url)
    assert q.store.read(lambda tx: tx.query("queue_row", {"name": "mail"}))[0][3] == "user worker"


def test_of_several_each_is_done_for_itself(command: Command, q: Queue, url: str) -> None:
    run = command("jobs", "cancel", "3", "99", "4", "--db", url, "--json")

    assert run.code == Exit.NOT_FOUND
    assert [each["done"] for each in json.loads(run.out)] == [True, False, True]


def test_many_are_counted_first_and_retried_with_their_number(command: Command, q: Queue, url: str) -> None:
    run = command("jobs", "retry", "--queue", "mail", "--db", url)
    assert (run.code, "--expect 1" in run.out) == (0, True)
    assert q.get(2).state == "failed"

    assert shown(command("jobs", "retry", "--queue", "mail", "--expect", "1", "--db", url, "--json")) == {
        "action": "retry",
        "id": 1,
        "matched": 1,
        "changed": 1,
        "left": [],
        "dry_run": False,
    }
    assert q.get(2).state == "queued"


@pytest.mark.parametrize(("verb", "n", "left"), [("retry", 1, {}), ("cancel", 4, {"cancelled": 4}), ("forget", 2, {})])
def test_what_can_be_done_to_one_can_be_done_to_all_that_match(
    command: Command, q: Queue, url: str, verb: str, n: int, left: dict[str, int]
) -> None:
    counted = command("jobs", verb, "--queue", "mail", "--db", url)
    assert (counted.code, numbers(counted.out), f"--expect {n}" in counted.out) == (0, [n, n], True)

    assert numbers(command("jobs", verb, "--queue", "mail", "--expect", str(n), "--db", url).out) == [n, 1]

    jobs = shown(command("jobs", "queues", "--db", url, "--json"))[0]["jobs"]
    assert jobs.get("cancelled", 0) == left.get("cancelled", 0)
    assert command("jobs", verb, "--queue", "mail", "--expect", str(n), "--db", url).code in (Exit.REFUSED, Exit.OK)


@pytest.mark.parametrize("expect", [(), ("--expect", "0")], ids=["counted", "expected"])
@pytest.mark.parametrize("verb", ["retry", "cancel", "forget"])
def test_that_nothing_matches_is_said_and_is_a_negative_answer(
    command: Command, q: Queue, url: str, verb: str, expect: tuple[str, ...]
) -> None:
    run = command("jobs", verb, "--kind", "none such", *expect, "--db", url)
    assert (run.code, run.out.count("\n")) == (Exit.NEGATIVE, 1)

    run = command("jobs", verb, "--kind", "none such", *expect, "--db", url, "--json")
    assert (run.code, json.loads(run.out)["matched"]) == (Exit.NEGATIVE, 0)


def test_jobs_of_another_state_are_retried_when_it_is_asked_for(command: Command, q: Queue, url: str) -> None:
    command("jobs", "cancel", "3", "--db", url)
    run = command("jobs", "retry", "--state", "cancelled", "--db", url)
    assert "--expect 1" in run.out
    assert command("jobs", "retry", "--state", "done", "--db", url).code == Exit.USAGE


@pytest.mark.parametrize("group", ["jobs", "targets", "db", "explain"])
def test_the_list_of_verbs_leaves_no_sentence_unfinished(command: Command, group: str) -> None:
    text = command(group, "--help").out
    assert "..." not in text.split("Commands:")[1]


def test_a_job_is_forgotten(command: Command, q: Queue, url: str) -> None:
    assert command("jobs", "forget", "1", "--db", url).out == "job 1: forgotten\n"
    with pytest.raises(NotFound):
        q.get(1)


def test_a_queue_is_paused_and_resumed(command: Command, q: Queue, url: str) -> None:
    assert "is paused until" in command("jobs", "pause", "mail", "--for", "2h", "--db", url).out
    assert q.explain(5)[0].reason == "paused"
    assert command("jobs", "resume", "mail", "--db", url).code == 0
    assert command("jobs", "resume", "mail", "--db", url).code == Exit.NEGATIVE


# -- targets and explain -----------------------------------------------------------------------------------------------


def test_targets_are_listed_with_the_state_of_their_gate(command: Command, q: Queue, url: str) -> None:
    (target,) = shown(command("targets", "list", "--db", url, "--json"))
    assert (target["name"], target["token"], target["breaker"]) == ("api", "ok", "closed")

    q.target("api").key(1).disable()
    assert shown(command("targets", "list", "--db", url, "--json"))[0]["token"] == "disabled"
    q.target("api").pause("1h", by="ada")
    assert command("targets", "list", "--db", url).out.splitlines()[1].split()[:2] == ["api", "Paused"]
    q.target("api").resume()
    q.target("api").force("open", "1h")
    assert shown(command("targets", "list", "--db", url, "--json"))[0]["token"] == "open"


def test_one_target_is_shown_with_its_keys_and_its_events(command: Command, q: Queue, url: str) -> None:
    q.target("api").key(1).disable(by="ada")

    detail = shown(command("targets", "show", "api", "--db", url, "--json"))
    assert [(key["key"], key["reason"]) for key in detail["keys"]] == [("1", "cooldown")]
    assert [(event["kind"], event["actor"]) for event in detail["events"]] == [("target_disabled", "ada")]
    assert "target_disabled" in command("targets", "show", "api", "--db", url).out


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (("pause", "--for", "1h"), ("resume",), "api is no longer paused."),
        (("disable", "--key", "7", "--for", "1h"), ("enable", "--key", "7"), "key 7 of api is enabled."),
        (("disable", "--key", "7"), ("clear", "--key", "7"), "key 7 of api is cleared."),
    ],
)
def test_what_was_done_is_undone_once(
    command: Command, q: Queue, url: str, first: tuple[str, ...], then: tuple[str, ...], says: str
) -> None:
    assert command("targets", first[0], "api", *first[1:], "--db", url).code == 0
    run = command("targets", then[0], "api", *then[1:], "--db", url)
    assert (run.code, run.out.strip()) == (0, says)
    assert command("targets", then[0], "api", *then[1:], "--db", url).code == Exit.NEGATIVE


def test_a_target_is_tested_by_a_job_that_waits(command: Command, q: Queue, url: str) -> None:
    run = command("targets", "test", "api", "--db", url)
    assert (run.code, "api" in run.err, run.err.count("\n")) == (Exit.REFUSED, True, 1)
    q.target("api").force("open", "1h")

    found = shown(command("targets", "test", "api", "--db", url, "--json", "--by", "ada"))["result"]

    assert (found["job"], found["key"], found["breaker"]) == (5, "0", "half-open")
    assert [why["reason"] for why in found["waits"]] == ["no_worker"]
    assert q.target("api").events()[0].actor == "ada"


def test_a_breaker_is_reset(command: Command, q: Queue, url: str) -> None:
    q.target("api").force("open", "1h")

    run = command("targets", "reset", "api", "--db", url, "--by", "ada")

    assert names(run.out, "api", "open", "closed")
    assert q.target("api").events()[0].actor == "ada"


def test_a_job_is_explained_in_words(command: Command, q: Queue, url: str) -> None:
    q.pause("mail", "1h", by="ada")

    lines = command("explain", "job", "5", "--db", url).out.splitlines()

    assert names(lines[0], "job 5 (send, queue mail)", "queued")
    assert lines[1] == "1. paused (queue mail)"
    assert lines[2].strip() == q.explain(5)[0].message
    assert q.explain(5)[0].ended_by == "person"
    assert lines[4] == "2. no_worker (queue mail)"


def test_a_job_that_has_ended_needs_no_explanation(command: Command, q: Queue, url: str) -> None:
    assert names(command("explain", "job", "1", "--db", url).out, "job 1 (send, queue mail)", "done")
    assert shown(command("explain", "job", "1", "--db", url, "--json")) == {"job": 1, "state": "done", "reasons": []}


def test_a_target_and_a_key_are_explained(command: Command, q: Queue, url: str) -> None:
    assert shown(command("explain", "target", "api", "--db", url, "--json"))["reasons"] == []
    q.target("api").key(7).disable("1h", by="ada")
    found = shown(command("explain", "target", "api", "--key", "7", "--db", url, "--json"))
    assert [why["reason"] for why in found["reasons"]] == ["cooldown"]


def test_explain_takes_a_number_as_a_job_and_another_word_as_a_target(command: Command, q: Queue, url: str) -> None:
    assert shown(command("explain", "1", "--db", url, "--json"))["job"] == 1
    assert shown(command("explain", "--json", "api", "--db", url))["target"] == "api"
    assert shown(command("explain", "api", "--key", "7", "--db", url, "--json"))["key"] == "7"


@pytest.mark.parametrize(("word", "tried"), [("ap", ["job", "target", "'api'"]), ("99", ["job 99"])])
def test_explain_says_what_it_tried_for_an_unknown_word(
    command: Command, q: Queue, url: str, word: str, tried: list[str]
) -> None:
    run = command("explain", word, "--db", url)

    assert (run.code, run.out, run.err.count("\n")) == (Exit.NOT_FOUND, "", 1)
    assert names(run.err, *tried)


@pytest.mark.parametrize("verb", [("jobs", "show"), ("jobs", "retry"), ("explain", "job"), ("bulk", "show")])
def test_a_number_that_no_database_can_hold_is_a_mistake_of_one_line(
    command: Command, url: str, q: Queue, verb: tuple[str, ...]
) -> None:
    run = command(*verb, str(2**63), "--db", url)
    assert (run.code, str(2**63) in run.err) == (Exit.USAGE, True)
    assert "Traceback" not in run.err


def test_a_job_is_shown_without_the_secrets_among_its_arguments(command: Command, url: str) -> None:
    with Queue(url) as q:
        args = '{"to": "ada", "api_key": "hunter22", "deep": {"password": "hunter22"}}'
        put = q.insert(NewJob(queue="q", kind="k", args=args))

    text, document = (command("jobs", "show", str(put.id), "--db", url, *more) for more in ((), ("--json",)))

    assert "hunter22" not in text.out + document.out
    assert shown(document)["args"] == {"to": "ada", "api_key": "***", "deep": {"password": "***"}}
