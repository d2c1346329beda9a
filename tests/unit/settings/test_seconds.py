"""Durations: read as people write them, used as numbers, shown as they were written."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from tidegate.settings import Seconds


class Model(BaseModel):
    every: Annotated[Seconds, Field(gt=0)] = Seconds("3m")


@pytest.mark.parametrize(
    ("given", "seconds", "shown"),
    [("3m", 180, "3m"), ("1h30m", 5400, "1h30m"), ("90m", 5400, "90m"), (" 2d ", 172800, "2d"), (90, 90, "1m30s"),
     (1.5, 1.5, "1.5s"), (3661, 3661, "3661.0s"), ("90", 90, "90"), ("1.5", 1.5, "1.5"), (0.25, 0.25, "250ms"),
     (timedelta(hours=2), 7200, "2h"), (Seconds("2w"), 1209600, "2w")],
)  # fmt: skip
def test_a_duration_is_a_number_that_remembers_how_it_was_written(given: Any, seconds: float, shown: str) -> None:
    every = Model(every=given).every

    assert (float(every), str(every)) == (seconds, shown)
    assert Seconds(shown) == every
    assert every + 1 == seconds + 1


@pytest.mark.parametrize("given", ["soon", "", "3 minutes", "-3m", -1, True, None, [], "1e9", "0s", float("nan")])
def test_what_is_no_duration_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        Model(every=given)


def test_it_survives_copies_and_json() -> None:
    model = Model(every=Seconds("90m"))

    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), Model.model_validate(model.model_dump())):
        assert (other.every, str(other.every)) == (5400, "90m")
    assert model.model_dump_json() == '{"every":"90m"}'
    assert Model.model_json_schema()["properties"]["every"]["default"] == "3m"
