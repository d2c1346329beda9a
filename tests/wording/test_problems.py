"""What the API and the settings say of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.settings.test_mistakes import MISTAKES, mistakes
from tests.web.api.building import client_of, filled, served, shop
from tests.wording import catalogue
from tidegate.web.problems import API_CODES

# Method, path and body of requests to a shop with ten jobs, of which some are done and some wait.
REQUESTS = """
GET /api/v1/jobs/99
GET /api/v1/jobs?cursor=x
GET /api/v1/jobs?state=tired
GET /api/v1/jobs?limit=0
GET /api/v1/targets/mailerr
GET /api/v1/explain/targets/nobody
GET /api/v1/codes/nonsense
GET /api/v1/bulk-actions/999
GET /api/v1/nothing
PUT /api/v1/jobs
POST /api/v1/jobs/1/retry
POST /api/v1/jobs/1/cancel
POST /api/v1/jobs/7/forget
POST /api/v1/jobs/10/cancel
POST /api/v1/targets/mailer/test
POST /api/v1/queues/mial/pause {"for": "1h"}
POST /api/v1/queues/mail/pause {}
POST /api/v1/queues/mail/pause {"for": "soon"}
POST /api/v1/bulk-actions {"action": "burn", "filter": {}, "expected": 1}
POST /api/v1/bulk-actions {"action": "retry", "filter": {"stat": "failed"}, "expected": 1}
POST /api/v1/bulk-actions {"action": "retry", "filter": {}, "expected": 77}
POST /api/v1/classify nonsense
POST /api/v1/classify {}
"""


def test_problems(tmp_path: Path) -> None:
    found = {f"code/{name}": f"{code.title} {code.advice}" for name, code in API_CODES.items()}
    (tmp_path / "jobs.db").write_bytes(filled())
    with shop(tmp_path) as there, client_of(served(there)) as client:
        for line in REQUESTS.strip().splitlines():
            method, path, *body = line.split(maxsplit=2)
            answer = client.request(
                method, path, content=body[0] if body else None, headers={"Content-Type": "application/json"}
            )
            problem = answer.json()
            errors = [f"{each['field']}: {each['message']}" for each in problem.get("errors", ())]
            said = [f"{answer.status_code} {problem['code']}", problem["title"], problem["detail"], *errors]
            found[line.replace(": ", ":")] = "\n".join(said)
    catalogue.compare("problems", found)


def test_mistakes_in_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {" ".join(text.split()).replace(": ", ":"): "\n".join(mistakes(text)) for text, _ in MISTAKES}
    catalogue.compare("settings", found)
