"""Settings of convert: the section `convert`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tidegate.apps import validate_url
from tidegate.guard import Seconds
from tidegate_apps.convert.codes import MEGABYTE
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping


def _mapping(value: str) -> str:
    if not is_mapping(value):
        raise ValueError(f"{value!r:.80} is not the name of a mapping; give {MAPPING}")
    return value


def _address(value: str) -> str:
    return validate_url(value, "one such as http://gateway:8400, or nothing for the one that is built in", login=True)


def _patience(value: Seconds) -> Seconds:
    # Drafts without a write for an hour are deleted.
    if not 0 < value <= 3000:
        raise ValueError(f"{value.written} is not allowed; give more than 0s, and 50m at most")
    return value


def _some(value: Seconds) -> Seconds:
    if not value > 0:
        raise ValueError(f"{value.written} is not allowed; give more than 0s")
    return value


def _window(value: Seconds) -> Seconds:
    if not 120 <= value <= 300:
        raise ValueError(f"{value.written} is not allowed; give 2m to 5m")
    return value


class ConvertSettings(BaseModel):
    """PDF files become XML."""

    model_config = ConfigDict(frozen=True)

    gateway_url: Annotated[str, AfterValidator(_address)] = Field(
        default="", description="The address of the gateway that converts; empty: the one that is built in."
    )
    gateway_timeout: Annotated[Seconds, AfterValidator(_patience)] = Field(
        default=Seconds("3m"), description="How long one conversion may take, 50m at most."
    )
    probe_every: Annotated[Seconds, AfterValidator(_some)] = Field(
        default=Seconds("10s"), description="How often the gateway is asked for its health while its breaker is open."
    )
    breaker: Literal["hold-queue", "fail-fast"] = Field(
        default="hold-queue",
        description="While the gateway is ill: hold-queue lets jobs wait, fail-fast fails new ones at once.",
    )
    breaker_window: Annotated[Seconds, AfterValidator(_window)] = Field(
        default=Seconds("3m"), description="Over how long its failures are counted, 2m to 5m."
    )
    attempts: int = Field(
        default=3,
        ge=1,
        le=20,
        json_schema_extra={"env": "RETRY_MAX_ATTEMPTS"},
        description="How often a conversion is tried in all.",
    )
    retry_after: Seconds = Field(
        default=Seconds("5s"), description="The wait after the first failure; then three times, then nine times that."
    )
    most_bytes: int = Field(
        default=50 * MEGABYTE, ge=1024, le=2**40, description="How large a file may be, in bytes; 52428800 is 50 MB."
    )
    mapping: Annotated[str, AfterValidator(_mapping)] = Field(
        default="text", description="The mapping of uploads that name none."
    )
    mappings: str = Field(default="", description="A folder with more mappings, each a file; empty: there are none.")
    anonymous: bool = Field(default=False, description="Whether visitors who are not signed in may upload.")
    anonymous_uploads: int = Field(
        default=20, ge=1, le=100_000, description="How many files visitors of one network may upload per hour."
    )
    anonymous_bytes: int = Field(
        default=200 * MEGABYTE,
        ge=1024,
        le=2**50,
        description="How many bytes visitors of one network may upload per hour; 209715200 is 200 MB.",
    )
    uploads_at_once: int = Field(default=20, ge=1, le=1000, description="How many files may come in at the same time.")
    upload_time: Annotated[Seconds, AfterValidator(_some)] = Field(
        default=Seconds("10m"), description="How long the upload of one file may take."
    )
    storage: str = Field(
        default="tidegate-files",
        min_length=1,
        description="Where files are kept: a folder, or an object store such as s3://bucket/prefix.",
    )
    least_free: float = Field(
        default=0.05, ge=0, lt=1, description="Uploads pause while less of the disk is free; 0.05 is 5 percent."
    )
    keep_pdf: Seconds = Field(default=Seconds("7d"), description="How long a PDF is kept after its job has ended.")
    keep_xml: Seconds = Field(default=Seconds("30d"), description="How long an XML file is kept.")
