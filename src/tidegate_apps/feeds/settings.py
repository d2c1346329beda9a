"""Settings of feeds: the section `feeds`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from tidegate.apps import validate_url
from tidegate.guard import Seconds


def _address(value: str) -> str:
    return validate_url(value, "one such as https://sources.example.org, or nothing to keep the sources here")


Fraction = Annotated[float, Field(gt=0, le=1)]


class FeedsSettings(BaseModel):
    """What can be set; each with what it is good for."""

    interval: Seconds = Field(default=Seconds("1h"), ge=60, description="Between two polls of one feed.")
    poll: bool = Field(default=True, description="Whether this server polls; one that only keeps sources does not.")
    concurrency: int = Field(default=32, ge=1, le=500, description="Hosts that are polled at the same time.")
    contact: str = Field(
        default="", max_length=200, description="An address or a web page for those who wonder who polls them."
    )
    allow_networks: tuple[str, ...] = Field(
        default=(), description="Networks that feeds may be fetched from although they are private, as 10.0.0.0/8."
    )
    ports: tuple[int, ...] = Field(default=(80, 443), description="Ports that feeds may be fetched from; empty: all.")
    total: Seconds = Field(default=Seconds("30s"), gt=0, description="For one poll, redirects and body included.")
    body: int = Field(default=5_000_000, ge=1000, description="Bytes that a feed may have, unpacked.")
    redirects: int = Field(default=5, ge=0, le=20, description="Redirects that are followed in one poll.")
    history: Seconds = Field(default=Seconds("7d"), ge=86400, description="How long every single poll is remembered.")
    events: Seconds = Field(
        default=Seconds("365d"), ge=86400, description="How long it is remembered what else happened to a source."
    )
    keep_items: int = Field(
        default=5000, ge=10, description="Items of one feed that are kept; the oldest go, but none that it still lists."
    )
    own_link: bool = Field(default=True, description="Blame our own network when most hosts fail at the same time.")
    own_link_hosts: int = Field(default=10, ge=2, description="Hosts that must be seen before that is believed.")
    own_link_share: Fraction = Field(default=0.5, description="The share of them that fails.")
    own_link_within: Seconds = Field(default=Seconds("60s"), gt=0, description="How long a host counts as seen.")
    host_guard: bool = Field(
        default=False, description="Blame a host, and none of its feeds, when most of three or more fail alike."
    )
    simulated: str = Field(default="", description="Where simulated feeds are, which the page then offers.")
    source_manager_url: Annotated[str, AfterValidator(_address)] = Field(
        default="", description="The server that keeps the sources, if it is another one; empty: this one does."
    )
    source_manager_token: SecretStr = Field(
        default=SecretStr(""), description="A JSON Web Token with the role poller for it; env:NAME or file:PATH."
    )
    refresh: Seconds = Field(default=Seconds("60s"), ge=1, description="Between two looks at another source manager.")
