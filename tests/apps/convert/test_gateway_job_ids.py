"""The same job_id twice gives the same answer, and one conversion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, refusal, valid
from tidegate_apps.convert.gateway import Embedded, GatewayLimits
from tidegate_apps.convert.gateway.config import GatewayRefusal
from tidegate_apps.convert.gateway.conversions import Conversions
from tidegate_apps.convert.gateway.uploads import ConversionUpload

_NUMBERS = count()


def test_a_job_id_that_comes_again_gets_the_answer_it_got_before(tmp_path: Path) -> None:
    with Embedded(GatewayLimits(folder=tmp_path)) as url:
        first = process(url, pdfs.text(), job_id="7", pretty="1")
        (kept,) = tmp_path.rglob("result-*")
        kept.write_bytes(first.content.replace(b"page", b"PAGE"))  # which shows that it is not converted again
        second = process(url, pdfs.text(), job_id="7", pretty="1")

        assert first.status_code == second.status_code == 200
        assert second.content == first.content.replace(b"page", b"PAGE")
        assert not list(tmp_path.rglob("upload-*"))


def test_requests_with_one_job_id_at_once_share_one_conversion(tmp_path: Path) -> None:
    with Embedded(GatewayLimits(folder=tmp_path)) as url, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: process(url, pdfs.text(20), job_id="7"), range(8)))

        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        assert len(list(tmp_path.rglob("result-*"))) == 1


def test_a_job_id_cannot_be_used_for_another_file_or_mapping() -> None:
    with Embedded() as url:
        process(url, pdfs.text(), job_id="7")

        assert refusal(process(url, pdfs.table(), job_id="7")) == (422, "job_id_reused")
        assert refusal(process(url, pdfs.text(), "text", job_id="7")) == (422, "job_id_reused")
        assert process(url, pdfs.text(), "text", job_id="8").status_code == 200


def refused_and_kept(folder: Path, limits: GatewayLimits, pdf: bytes) -> tuple[str, int]:
    """Why a document is refused, and how many answers are kept after that."""

    async def main() -> tuple[str, int]:
        conversions = Conversions(folder, limits)
        with pytest.raises(GatewayRefusal) as refused:
            await conversions.result(asked(folder, "7", pdf))
        found = refused.value.code, conversions.kept
        await conversions.close()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("limits", "pdf", "found"),
    [
        (GatewayLimits(), pdfs.encrypted(), ("encrypted", 1)),
        (GatewayLimits(), pdfs.BROKEN, ("broken", 1)),
        (GatewayLimits(time=0.001), pdfs.text(), ("took_too_long", 0)),
        (GatewayLimits(cpu=0.001), pdfs.endless_pages(), ("too_hard", 0)),
    ],
    ids=["locked", "broken", "not in time", "too hard"],
)
def test_a_refusal_is_kept_only_if_the_document_alone_decides_it(
    tmp_path: Path, limits: GatewayLimits, pdf: bytes, found: tuple[str, int]
) -> None:
    assert refused_and_kept(tmp_path, limits, pdf) == found


def test_a_conversion_goes_on_when_the_client_with_a_job_id_does_not_wait(tmp_path: Path) -> None:
    async def main() -> None:
        conversions = Conversions(tmp_path, GatewayLimits())
        impatient = asyncio.create_task(conversions.result(asked(tmp_path, "7")))
        await under_way(conversions)
        impatient.cancel()
        await asyncio.wait([impatient])
        assert conversions.active == 1
        result, own = await conversions.result(asked(tmp_path, "7"))
        assert (result.made.pages, own) == (20, False)
        await conversions.close()

    asyncio.run(main())


def test_what_nobody_can_wait_for_is_refused_and_the_end_ends_all(tmp_path: Path) -> None:
    async def main() -> None:
        conversions = Conversions(tmp_path, GatewayLimits(conversions=1, waiting=1))
        slow = asyncio.create_task(conversions.result(asked(tmp_path, "1", pdfs.endless_pages())))
        await under_way(conversions)
        second = asyncio.create_task(conversions.result(asked(tmp_path, "2")))
        while conversions.waiting == 0:  # noqa: ASYNC110 - it has only a number
            await asyncio.sleep(0.001)
        with pytest.raises(GatewayRefusal, match="busy") as busy:
            await conversions.result(asked(tmp_path, "3"))
        assert busy.value.row.retry_after == 5
        await conversions.close()
        assert all(
            isinstance(each, BaseException) for each in await asyncio.gather(slow, second, return_exceptions=True)
        )
        assert (conversions.active, conversions.waiting) == (0, 0)
        while conversions.processes:  # noqa: ASYNC110 - they are killed, and gone soon
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert not list(tmp_path.iterdir())


async def under_way(conversions: Conversions) -> None:
    while conversions.active == 0:  # noqa: ASYNC110 - it has only a number
        await asyncio.sleep(0.001)


def kept_after(tmp_path: Path, limits: GatewayLimits, ages: list[float]) -> tuple[int, int]:
    """How many answers, and how many files, are left of conversions that ended at those times, at the last of them."""

    async def main() -> int:
        now = [0.0]
        conversions = Conversions(tmp_path, limits, clock(now))
        for number, age in enumerate(ages):
            now[0] = age
            await conversions.result(asked(tmp_path, str(number), pdfs.table()))
        await asyncio.sleep(0)
        conversions.sweep()
        await conversions.close()
        return conversions.kept

    return asyncio.run(main()), len(list(tmp_path.glob("result-*")))


def clock(now: list[float]) -> Callable[[], float]:
    return lambda: now[0]


def test_answers_are_kept_for_a_while_and_not_for_ever(tmp_path: Path) -> None:
    assert kept_after(tmp_path, GatewayLimits(kept_for=900), [0, 100, 950]) == (2, 2)


def test_only_so_many_answers_are_kept(tmp_path: Path) -> None:
    assert kept_after(tmp_path, GatewayLimits(kept=2), [0, 1, 2]) == (2, 2)


def test_only_so_many_bytes_of_answers_are_kept(tmp_path: Path) -> None:
    assert kept_after(tmp_path, GatewayLimits(kept_bytes=3000), [0, 1, 2]) == (1, 1)


def asked(folder: Path, job_id: str, pdf: bytes | None = None) -> ConversionUpload:
    body = pdf or pdfs.text(20)
    path = folder / f"upload-{next(_NUMBERS)}.pdf"
    path.write_bytes(body)
    return ConversionUpload(
        path=path, size=len(body), sha256=sha256(body).hexdigest(), mapping="layout", pretty=False, job_id=job_id
    )


@pytest.mark.parametrize("full", [{"kept": 0}, {"kept_bytes": 0}, {"kept_for": 0}], ids=str)
def test_whoever_waits_gets_the_answer_even_if_there_is_no_room_to_keep_it(full: dict[str, int]) -> None:
    with Embedded(GatewayLimits(**full)) as url:  # type: ignore[arg-type]
        for _ in range(2):
            valid(process(url, pdfs.text(), job_id="7"))
