"""The page about applications has every part of one."""

from __future__ import annotations

import re
from dataclasses import fields

from tests.unit.faults.test_codes import tables
from tidegate.apps import App, Page, ScheduledJob


def test_every_part_of_an_application_is_listed_in_its_order() -> None:
    rows = tables("how-to/write-an-application.md")["part"]
    listed = [name for row in rows for name in re.findall(r"\w+", row[0])]

    assert listed == [each.name for each in fields(App)]


def test_what_a_page_and_a_schedule_take_is_told() -> None:
    cells = {row[0]: row[1] for row in tables("how-to/write-an-application.md")["part"]}

    assert f"ScheduledJob({', '.join(each.name for each in fields(ScheduledJob))})" in cells["schedules"]
    assert f"Page({', '.join(each.name for each in fields(Page))})" in cells["pages"]
