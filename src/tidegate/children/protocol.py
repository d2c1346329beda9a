"""Frames between a worker and its child processes. A child imports this module, so it stays small."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any

# A frame has fields, which are encoded as JSON, and a body, which is already JSON.

_LENGTH = struct.Struct(">I")
Fields = Mapping[str, Any]
Frame = tuple[dict[str, Any], str]


class BadFrame(Exception):
    """The data in the pipe is not a valid frame."""


def pack_frame(fields: Fields, body: str = "") -> bytes:
    # The encoder escapes line breaks, so the first one ends the fields.
    payload = b"%s\n%s" % (json.dumps(fields, separators=(",", ":")).encode(), body.encode())
    return _LENGTH.pack(len(payload)) + payload


def unpack_frame(payload: bytes) -> Frame:
    head, found, body = payload.partition(b"\n")
    try:
        fields = json.loads(head)
        text = body.decode()
    except (ValueError, RecursionError) as error:
        raise BadFrame from error
    if not found or not isinstance(fields, dict):
        raise BadFrame
    return fields, text


def receive_frame(read: Callable[[int], bytes], limit: int) -> Frame:
    """Reads the next frame. *read* returns up to a number of bytes. Raises EOFError at the end of the pipe."""
    (length,) = _LENGTH.unpack(_exactly(read, _LENGTH.size))
    if length > limit:
        raise BadFrame(f"a frame of {length} bytes")
    return unpack_frame(_exactly(read, length))


def send_frame(fd: int, frame: bytes) -> None:
    """Writes a frame to a blocking pipe."""
    rest = memoryview(frame)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = read(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


# -- restrictions of a child process ---------------------------------------------------------------------------------

_state = {"child": False, "importing": ""}


def mark() -> None:
    _state["child"] = True


def importing(file: str) -> None:
    """Records which script the child is importing; empty for none."""
    _state["importing"] = file


def refuse_at_import(what: str) -> None:
    """Raises RuntimeError while a child imports a script, which would otherwise repeat its actions."""
    if _state["importing"]:
        raise RuntimeError(
            f"{what} while a child process imports {_state['importing']}: put what the script does under "
            "`if __name__ == '__main__':`"
        )


def refuse_children() -> None:
    if _state["child"]:
        raise RuntimeError("a child process starts no children of its own")
