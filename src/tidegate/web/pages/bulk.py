"""`/bulk`: the same thing done to all jobs that match, after a page that says how many and what will happen."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request, Response

from tidegate.errors import NotThere
from tidegate.ops import bulk
from tidegate.ops.bulk import Outcome
from tidegate.web.pages import filtering
from tidegate.web.pages.filtering import Chosen
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Said, answer, attempt, local_path
from tidegate.web.pages.times import many, number
from tidegate.web.site import Site

# What will happen, by action; and what is said when it has.
EFFECTS = {
    "retry": (
        "They go to the back of their queues, and their attempts start again from one.",
        "A gate that is shut holds them as it holds the others.",
    ),
    "cancel": (
        "Those that wait are cancelled at once; a job that runs is asked to stop, and may still end by itself.",
        "Jobs that wait for one of them fail.",
    ),
    "forget": (
        "They are removed with their history. This cannot be undone.",
        "What they held as unique is free again, so the same work can be put in anew.",
    ),
}
_DONE = {"retry": "queued again", "cancel": "cancelled or asked to stop", "forget": "forgotten"}

Field = Annotated[str, Form(max_length=2000)]


def router(site: Site) -> APIRouter:
    found = APIRouter()

    @found.get("/bulk")
    def confirm(
        request: Request,
        wanted: Annotated[Chosen, Depends(filtering.chosen)],
        action: Annotated[str, Query(max_length=20)] = "",
        back: Annotated[str, Query(max_length=2000)] = "",
    ) -> Response:
        if action not in EFFECTS:
            raise NotThere(f"there is no action {action!r}; there are: {', '.join(EFFECTS)}")
        try:
            count = site.read(lambda tx: bulk.preview(tx, action, wanted.wanted))
        except ValueError as error:
            return answer(request, Said(text=f"Nothing was changed: {error}.", tone="bad"), back, "/queue")
        otherwise = f"{site.base}/queue?{urlencode(wanted.query)}"
        return page(
            request, "bulk.html", wanted=wanted, action=action, count=count, effects=EFFECTS[action],
            back_to=local_path(back, otherwise),
        )  # fmt: skip

    @found.post("/bulk")
    def run(
        request: Request,
        action: Field = "",
        expected: Field = "",
        back: Field = "",
        queue: Field = "",
        state: Field = "",
        kind: Field = "",
        target: Field = "",
        code: Field = "",
        age: Field = "",
    ) -> Response:
        wanted = filtering.chosen(queue, state, kind, target, code, age)

        def work() -> Said:
            if action not in EFFECTS or not expected.isdecimal():
                raise ValueError("action, expected: both are needed; go back and choose again")
            by = site.actor_of(request)
            outcome = bulk.run(site.queue.store, action, wanted.wanted, by, expected=int(expected))
            site.queue.woken()
            return _told(action, outcome)

        return answer(request, attempt(work), back, f"/queue?{urlencode(wanted.query)}")

    return found


def _told(action: str, outcome: Outcome) -> Said:
    text = f"{many(outcome.changed, 'job')} {'was' if outcome.changed == 1 else 'were'} {_DONE[action]}."
    if not outcome.left:
        return Said(text=text)
    some = ", ".join(f"#{id_}" for id_ in outcome.left[:10])
    more = f" and {number(len(outcome.left) - 10)} more" if len(outcome.left) > 10 else ""
    why = "another job has taken their place, or they are not as they were"
    return Said(
        text=f"{text} {many(len(outcome.left), 'job')} stayed as before, because {why}: {some}{more}.", tone="warn"
    )
