from __future__ import annotations

import subprocess
import sys

CODE = "from tidegate.accounts.users import digest_of; print(digest_of('correct horse battery'))"


def test_a_password_costs_64_megabytes_and_three_passes() -> None:
    """In a process of its own: in this one the tests have made passwords cheap."""
    digest = subprocess.run(
        [sys.executable, "-c", CODE], check=True, capture_output=True, text=True, timeout=120
    ).stdout

    assert digest.startswith("$argon2id$v=19$m=65536,t=3,")
