"""What may follow what, what the database itself refuses, what is told of it, and no second XML."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

import pytest

from tests.apps.convert.building import XML, Place
from tidegate import Context
from tidegate.errors import LeaseLost, Rejected, StoreError
from tidegate.faults.codes import CORE
from tidegate.jobs import claim
from tidegate.jobs.job import Claimed
from tidegate.store.base import Tx
from tidegate.store.sql import compiled
from tidegate.testing import Status
from tidegate_apps.convert.codes import LINES
from tidegate_apps.convert.jobs import Converting, ConvertJob


def told(place: Place, job: str) -> list[str]:
    return [event["event"] for event in place.get(job)["events"]]


@pytest.mark.req("CNV-11")
def test_a_job_goes_its_way_and_no_other(each: Place) -> None:
    each.gateway.on("POST /process", Status(500), XML)
    job = each.new()
    assert (each.get(job)["status"], told(each, job)) == ("queued", ["queued"])
    each.work(2)
    assert (each.get(job)["status"], told(each, job)) == ("queued", ["queued", "processing", "retry"])
    assert each.queue.get(each.number(job)).lease_by is None, "between attempts nobody holds it"
    each.work(10)
    assert told(each, job) == ["queued", "processing", "retry", "processing", "complete"]
    assert each.get(job)["started_at"] is not None

    # Nothing leads out of complete, and nothing but a retry out of failed.
    assert each.queue.retry(each.number(job)) is False
    assert each.client.post(f"/api/jobs/{job}/retry").status_code == 409
    with pytest.raises(Rejected, match="cancelled"):
        each.queue.cancel(each.number(each.new()))


@pytest.mark.req("CNV-12")
def test_the_database_refuses_rows_that_cannot_be(each: Place) -> None:
    job = each.new()
    each.work(2)
    waiting = each.new()
    done, queued = each.number(job), each.number(waiting)
    store = each.queue.store
    wrong = {
        "a result of what is not complete": f"update tg_job set result = '{{}}' where id = {queued}",
        "a code of what has not failed": f"update tg_job set error_code = 'GW_5XX' where id = {queued}",
        "a message of what has not failed": f"update tg_job set error_message = 'x' where id = {done}",
        "a lease of what is not processing": f"update tg_job set lease_by = 'w', lease_until = 1 where id = {done}",
        "failed without a code": f"update tg_job set state = 'failed', finished_at = 1 where id = {queued}",
        "processing without a lease": f"update tg_job set state = 'running' where id = {queued}",
        "a file of nobody": f"update convert_file set owner = '' where job = {done}",
        "a hash that is none": f"update convert_file set sha256 = 'abc' where job = {done}",
        "a download without a time": f"update convert_file set downloads = 1 where job = {done}",
        "an id that can be guessed": f"update convert_file set public_id = '{done}' where job = {done}",
        "a pause of something else": "insert into convert_pause values ('jobs', 2, 1, 'x')",
        "a pause without an end ahead": "insert into convert_pause values ('uploads', 1, 1, 'x')",
    }
    for n, (what, sql) in enumerate(wrong.items()):
        name = f"convert.wrong{n}"
        store.add([compiled(name, sql, store.dialect)])
        with pytest.raises(StoreError):
            store.write(partial(_run, name))
        assert each.get(job)["status"] == "complete", what
    assert each.get(waiting)["status"] == "queued"


@pytest.mark.req("CNV-14")
def test_each_transition_is_told_with_attempt_status_duration_and_code(each: Place) -> None:
    each.gateway.on("POST /process", Status(503), XML, Status(400))
    done = each.new()
    each.work(20)
    failed = each.new()
    each.work(20)
    begun = [("queued", 0, None, None), ("processing", 1, None, None)]
    assert _metas(each, done) == [
        *begun, ("retry", 1, 503, "GW_5XX"), ("processing", 2, None, None), ("complete", 2, 200, None),
    ]  # fmt: skip
    assert _metas(each, failed) == [*begun, ("failed", 1, 400, "GW_4XX")]


def _metas(place: Place, job: str) -> list[tuple[Any, ...]]:
    """Each transition with its attempt, status and code; those that end an attempt say how long it took."""
    events = place.get(job)["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    for event in events:
        assert isinstance(event["meta"]["duration_ms"], int) == (event["event"] in ("retry", "complete", "failed"))
    return [
        (each["event"], *(each["meta"][name] for name in ("attempt", "gateway_http_status", "error_code")))
        for each in events
    ]


@pytest.mark.req("CNV-15")
def test_the_metrics_have_the_promised_names(each: Place) -> None:
    each.gateway.on("POST /process", Status(400), XML)
    first = each.new()
    each.work(2)
    each.client.post(f"/api/jobs/{first}/retry")
    each.work(2)
    each.new()
    text = each.client.get("/metrics").text
    for line in (
        'jobs_failed_total{error_code="GW_4XX",queue="convert"} 1.0', 'queue_depth{queue="convert"} 1.0',
        'jobs_active{queue="convert"} 0.0', 'manual_retry_total{queue="convert"} 1.0',
        'job_processing_duration_seconds_count{queue="convert"} 2.0',
    ):  # fmt: skip
        assert _same(line, text), line


def _same(line: str, text: str) -> bool:
    """Whether the metric is there, in whatever order its labels are."""
    name, _, rest = line.partition("{")
    labels, _, value = rest.partition("} ")
    wanted = (name, frozenset(labels.split(",")), value)
    found = [
        (each.partition("{")[0], frozenset(each.partition("{")[2].partition("} ")[0].split(",")), each.split()[-1])
        for each in text.splitlines()
        if "{" in each
    ]
    return wanted in found


@pytest.mark.req("CNV-13")
def test_an_xml_that_was_finished_is_taken_by_its_hash_and_the_gateway_is_not_asked(each: Place) -> None:
    """The worker died between the rename and the settling."""
    job = each.new()
    convert = each.there.jobs.convert.kind
    order: ConvertJob = convert.parameters.decode(each.queue.row(each.number(job)).args)["order"]
    _begin(each, job, {"pending": {"sha256": _sha(XML), "bytes": len(XML)}})
    _put(each, order, XML)
    each.clock.advance(60)
    each.work(60)  # its sweeps are half a minute apart

    done = each.get(job)
    assert (done["status"], done["attempt_count"], each.calls()) == ("complete", 2, 0)
    assert done["events"][-1]["meta"]["gateway_http_status"] is None
    assert len(each.files("xml")) == 1
    assert each.client.get(f"/api/jobs/{job}/download").content == XML


@pytest.mark.req("CNV-13")
@pytest.mark.parametrize("pending", [None, {"sha256": "0" * 64, "bytes": 3}])
def test_an_xml_with_another_hash_is_not_trusted(place: Place, pending: Any) -> None:
    job = place.new()
    order: ConvertJob = place.there.jobs.convert.kind.parameters.decode(place.queue.row(place.number(job)).args)[
        "order"
    ]
    _begin(place, job, {} if pending is None else {"pending": pending})
    _put(place, order, b"<half")
    place.clock.advance(60)
    place.work(60)

    assert (place.get(job)["status"], place.calls()) == ("complete", 1)
    assert place.client.get(f"/api/jobs/{job}/download").content == XML
    assert len(place.files("xml")) == 1


@pytest.mark.req("CNV-07", "CNV-13")
@pytest.mark.parametrize("keeps", [0, 1], ids=["before it kept the hash", "after it kept the hash"])
def test_a_worker_that_lost_its_lease_publishes_nothing(place: Place, keeps: int) -> None:
    job = place.new()
    order: ConvertJob = place.there.jobs.convert.kind.parameters.decode(place.queue.row(place.number(job)).args)[
        "order"
    ]
    if keeps:
        _put(place, order, b"<newer/>")  # whoever has the lease now was quicker
    work = Converting(place.there, place.there.jobs.storage, place.there.jobs.storage_id, place.there.jobs.gateway)
    with pytest.raises(LeaseLost):
        work.convert(order, Context(_begin(place, job, {}), "test", {}, Late(keeps)))
    assert [path.read_bytes() for path in place.files("xml")] == [b"<newer/>"] * keeps
    assert place.files("drafts") == []


@pytest.mark.req("CNV-01", "CNV-04", "CNV-14", "CNV-15")
def test_a_worker_lost_three_times_is_unknown(place: Place) -> None:
    job = place.new()
    lost = CORE["worker_lost"]
    for _ in range(2):
        _begin(place, job, {})
        place.clock.advance(60)
        place.queue.store.write(lambda tx: claim.rescue_lost(tx, claim.LostRule(lost.name), lost.message, {}, 30.0))
    _begin(place, job, {})
    place.clock.advance(60)
    place.work(90)  # the worker waits for the lost one, and does not try it
    assert place.calls() == 0
    assert place.client.get(f"/api/v1/jobs/{place.number(job)}").json()["error_code"] == "UNKNOWN"
    counted = [each for each in place.client.get("/metrics").text.splitlines() if each.startswith("jobs_failed_total{")]
    assert len(counted) == 1
    assert 'error_code="UNKNOWN"' in counted[0]
    found = place.get(job)
    assert (found["status"], found["error_code"]) == ("failed", "UNKNOWN")
    assert found["error_message"] == LINES["UNKNOWN"]
    last = found["events"][-1]
    assert told(place, job) == ["queued", *["processing", "retry"] * 2, "processing", "failed"]
    assert (last["meta"]["attempt"], last["meta"]["error_code"]) == (3, "UNKNOWN")
    assert last["meta"]["duration_ms"] >= 60_000


def _run(name: str, tx: Tx) -> object:
    return tx.query(name, {})


def _begin(place: Place, job: str, saved: dict[str, Any]) -> Claimed:
    """A worker takes the job, keeps something for the next one, and is never heard of again."""
    number = place.number(job)

    def work(tx: Tx) -> Claimed:
        (front,) = claim.ready(tx, ["convert"]).targets
        (lane,) = claim.ready_keys(tx, front, None, 10)
        taken = claim.claim(tx, lane, 1, "dead", 30.0)
        (found,) = taken or claim.claim_suspect(tx, lane, number, "dead", 30.0)
        assert found.id == number
        assert claim.save(tx, found.id, found.fence, json.dumps(saved))
        return found

    return place.queue.store.write(work)


class Late:
    """Its lease ends after it has saved so many times."""

    def __init__(self, keeps: int) -> None:
        self._left = keeps

    async def save(self, job: Claimed, saved: str) -> bool:
        return self.save_now(job, saved)

    def save_now(self, job: Claimed, saved: str) -> bool:
        self._left -= 1
        return self._left >= 0


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _put(place: Place, order: ConvertJob, content: bytes) -> None:
    with place.there.jobs.storage.draft() as draft:
        draft.add(content)
        draft.seal()
        place.there.jobs.storage.put(draft, order.result)
