"""The closing table of a run."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos.campaign import Outcome, Plan
from tests.chaos.judge import figures
from tests.chaos.schedule import KINDS
from tools import figures as docs


def table(outcomes: Sequence[Outcome]) -> str:
    """One column for each database, then every broken promise."""
    columns = [_column(outcome) for outcome in outcomes]
    names = _names(columns)
    width = max(map(len, names)) + 2
    head = " " * width + "".join(f"{outcome.plan.database:>12}" for outcome in outcomes)
    lines = ["", head, *(name.ljust(width) + "".join(f"{_cell(c, name):>12}" for c in columns) for name in names)]
    for outcome in outcomes:
        lines += [f"{outcome.plan.database}: {what}: {why}" for what, why in outcome.notes.items()]
    for outcome in outcomes:
        for promise, cases in outcome.wrong.items():
            such = "; ".join(cases[:3])
            lines.append(f"BROKEN on {outcome.plan.database}: {promise}: {len(cases)}, such as {such}")
    return "\n".join(lines)


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The same figures as a table of the documentation, with the seed."""
    columns = [_column(outcome) for outcome in outcomes]
    head = [f"seed {outcomes[0].plan.seed}", *(outcome.plan.database for outcome in outcomes)]
    return docs.table(head, [(name, *(_cell(each, name) for each in columns)) for name in _names(columns)])


def again(database: str, plan: Plan) -> str:
    said = f"python -m tests.chaos --database {database} --seconds {plan.seconds:g} --seed {plan.seed}"
    if plan.often != 1:
        said += f" --often {plan.often:g}"
    if plan.only:
        said += f' --only "{plan.only}"'
    if not plan.mount:
        said += " --no-mount"
    return said + (f" --plant {plan.plant}" if plan.plant else "")


def _names(columns: Sequence[dict[str, int]]) -> list[str]:
    longest_first = sorted(columns, key=len, reverse=True)
    return list(dict.fromkeys(name for column in longest_first for name in column))


def _cell(column: dict[str, int], name: str) -> str:
    return f"{column[name]:,}" if name in column else "-"


def _column(outcome: Outcome) -> dict[str, int]:
    verdict = outcome.verdict
    column = {
        "seconds": round(outcome.seconds), "jobs": verdict.jobs, "done": verdict.done,
        "failed after three dead workers": verdict.poisoned,
        "of these innocent": verdict.innocent, "attempts lost": verdict.lost_attempts,
        "begun again after that": verdict.repeats, "late results refused": verdict.late_results,
    }  # fmt: skip
    column |= {f"times: {kind}": outcome.done[kind] for kind in KINDS if kind in outcome.done}
    column["LEFT OUT, the machine was too slow"] = outcome.left_out.total()
    column |= outcome.figures
    found = figures(verdict)
    found["other"] += sum(len(cases) for cases in outcome.broken.values())
    return column | {f"VIOLATIONS: {name}": n for name, n in found.items()}
