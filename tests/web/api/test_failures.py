"""Failures as groups, over the API and on their page."""

from __future__ import annotations

import re

from starlette.testclient import TestClient

from tests.web.api.building import Shop
from tidegate import Fail


def broken(there: Shop, api: TestClient, times: int) -> str:
    """So many jobs that failed alike; the name of their group."""

    @there.queue.job(queue="prints", name="print")
    async def print_(page: int) -> None:
        raise Fail("bad_request", f"page {page} cannot be printed")

    print_.enqueue_many([(each,) for each in range(times)])
    there.queue.drain(queue="prints")
    (found,) = (each for each in api.get("/api/v1/failures").json()["items"] if each["kind"] == "print")
    return str(found["failure"])


def test_the_same_failure_is_one_group_with_its_jobs(there: Shop, api: TestClient) -> None:
    name = broken(there, api, 3)
    (found,) = (each for each in api.get("/api/v1/failures").json()["items"] if each["failure"] == name)
    assert (found["bucket"], found["count"], found["jobs_failed"], found["jobs_queued"]) == ("gave_up", 3, 3, 0)
    assert (found["target"], found["kind"], found["code"]) == (None, "print", "bad_request")
    assert found["message"] == "page … cannot be printed"
    assert found["trend"][-1] + found["trend"][-2] == 3  # an hour may end meanwhile
    assert len(api.get("/api/v1/jobs", params={"failure": name}).json()["items"]) == 3
    assert name not in api.get("/api/v1/failures", params={"bucket": "needs_you"}).text


def test_a_group_that_is_none_is_refused(api: TestClient) -> None:
    assert api.get("/api/v1/jobs", params={"failure": "x"}).status_code == 422
    assert api.get("/api/v1/failures", params={"bucket": "x"}).status_code == 422


def test_the_page_offers_to_retry_or_discard_a_group_as_a_whole(there: Shop, api: TestClient) -> None:
    name = broken(there, api, 3)
    text = api.get("/failures").text
    assert "page … cannot be printed" in text
    for action in ("retry", "forget"):
        (link,) = re.findall(rf'href="(/bulk\?action={action}[^"]*failure={name}[^"]*)"', text)
        assert "3 jobs" in api.get(link.replace("&amp;", "&")).text
    assert api.get("/queue", params={"failure": name}).text.count('class="lead"') == 3


def test_a_group_that_is_discarded_on_the_page_takes_no_other_job_with_it(there: Shop, api: TestClient) -> None:
    name = broken(there, api, 3)
    others = [each["id"] for each in api.get("/api/v1/jobs", params={"state": "failed"}).json()["items"]][3:]
    assert others
    asked = {"action": "forget", "state": "failed", "failure": name, "expected": "3", "back": "/failures"}
    assert api.post("/bulk", data=asked, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    left = [each["id"] for each in api.get("/api/v1/jobs", params={"state": "failed"}).json()["items"]]
    assert left == others


def test_a_wrong_bucket_is_all_of_them_and_an_empty_one_says_so(there: Shop, api: TestClient) -> None:
    broken(there, api, 1)
    assert "cannot be printed" in api.get("/failures", params={"bucket": "nonsense"}).text
    assert '<div class="empty">' in api.get("/failures", params={"bucket": "over"}).text
