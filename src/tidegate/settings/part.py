"""What every section of the settings is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsSection(BaseModel):
    """Frozen, and nothing in it that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")
