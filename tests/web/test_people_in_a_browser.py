"""Signing in, and who may do what, in a real browser without script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.browsing import told, visit
from tidegate import Queue
from tidegate.accounts import users

GOOD = "correct horse battery"


def sign_in(page: Page, name: str, password: str = GOOD) -> None:
    expect(page.locator("h1")).to_have_text("Sign in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.full
def test_an_admin_adds_somebody_who_then_sees_and_may_not_act(opened: Browser, served: str, q: Queue) -> None:
    q.store.write(lambda tx: users.add_user(tx, "ada", "admin", users.digest_of(GOOD)))
    with visit(opened, served, script=False) as tab:
        page = tab.go("/people")
        sign_in(page, "ada", "a wrong password")
        expect(page.get_by_role("alert")).to_have_class("said bad")
        sign_in(page, "ada")
        expect(page.locator("h1")).to_have_text("People and tokens")  # where they wanted to go

        form = page.get_by_role("form", name="Add somebody")
        form.get_by_label("Name").fill("vera")
        form.get_by_label("Role").select_option("operator")
        form.get_by_label("Password").fill(GOOD)
        form.get_by_role("button", name="Add").click()
        told(page, "good", "vera", "operator")
        page.locator("a.button[href='/people/vera']").click()
        page.get_by_role("radio", name="Viewer").check()
        page.get_by_role("button", name="Save the role").click()
        told(page, "good", "vera", undo="/people/vera/role")
        page.get_by_role("button", name="Sign out").click()

        sign_in(page, "vera")
        expect(page.locator("#menu .me p")).to_have_text(re.compile(r"\bvera \(viewer\)"))
        expect(page.locator("#menu a[href='/people']")).to_have_count(0)
        page = tab.go("/targets/spotify")
        barred = page.get_by_role("button", name=re.compile("Clear")).first
        expect(barred).to_be_disabled()
        expect(barred).to_have_css("cursor", "not-allowed")  # and it looks so
        expect(barred).to_have_attribute("title", re.compile(r"\bviewer\b"))
        refused = page.goto(f"{served}/people")
        assert refused is not None
        assert refused.status == 403
        page.get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("Sign in")


@pytest.mark.full
def test_a_token_is_made_read_and_removed(opened: Browser, served: str, q: Queue) -> None:
    with visit(opened, served, script=False) as tab:
        page = tab.go("/people")
        form = page.get_by_role("form", name="Make a token")
        form.get_by_label("Name").fill("ci")
        form.get_by_label("Role").select_option("poller")
        form.get_by_role("button", name="Make").click()
        expect(page.locator("pre").first).to_have_text(re.compile(r"^tg_[\w-]{43}$"))
        page.get_by_role("link", name="I have it").click()
        page.locator("a[href='/tokens/ci/remove']").click()
        page.get_by_role("button", name="Remove ci").click()
        told(page, "good", "ci")
        assert q.store.read(users.tokens) == []
        assert tab.complaints == []
