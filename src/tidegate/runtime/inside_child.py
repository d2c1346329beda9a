"""Whether this process is a child that runs handlers, and what it must not do then."""

from __future__ import annotations

_state = {"child": False, "importing": ""}


def mark() -> None:
    _state["child"] = True


def importing(file: str) -> None:
    """*file* is being imported for the handler that is in it; empty when that is over."""
    _state["importing"] = file


def refuse_at_import(what: str) -> None:
    """RuntimeError while a script is imported again by a child: it would do once more what its first run does."""
    if _state["importing"]:
        raise RuntimeError(
            f"{what} while a child process imports {_state['importing']}: put what the script does under "
            "`if __name__ == '__main__':`"
        )


def refuse_children() -> None:
    if _state["child"]:
        raise RuntimeError("a child process starts no children of its own")
