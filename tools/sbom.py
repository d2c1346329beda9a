"""The software bill of materials of a wheel, as CycloneDX JSON.

Hatchling runs this file as a build hook and puts the document into the wheel as ``.dist-info/sboms/tidegate.cdx.json``
(PEP 770). It lists what ``requirements/run.txt`` pins. The wheel itself requires nothing, so each of these components
is optional.

The document depends on the sources, ``SOURCE_DATE_EPOCH`` and the installed packages only. A licence is known where the
pinned version is installed and states an SPDX expression.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME = "tidegate.cdx.json"
PINS = Path("requirements/run.txt")


class SbomHook(BuildHookInterface[Any]):
    """Adds the document to a wheel. An editable install gets none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        core = self.metadata.core
        direct = [Requirement(each) for group in core.optional_dependencies.values() for each in group]
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / NAME
        made = document(
            name=core.name,
            version=self.metadata.version,
            licence=core.license_expression,
            description=core.description,
            pins=(Path(self.root) / PINS).read_text(encoding="utf-8"),
            direct={canonicalize_name(each.name) for each in direct},
            epoch=os.environ.get("SOURCE_DATE_EPOCH"),
        )
        path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()


def document(
    *, name: str, version: str, licence: str, description: str, pins: str, direct: set[str], epoch: str | None
) -> dict[str, Any]:
    """The CycloneDX 1.6 document of one version; *direct* are the names that its extras require."""
    own = purl(name, version)
    components = list(pinned(pins))
    listed = {
        "metadata": {
            **({"timestamp": datetime.fromtimestamp(int(epoch), UTC).isoformat()} if epoch else {}),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "description": description,
                "licenses": [{"expression": licence}],
                "purl": own,
            },
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in components if each["name"] in direct]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(listed, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": serial.urn, "version": 1, **listed}


def pinned(pins: str) -> Iterator[dict[str, Any]]:
    """One component for each pinned package, with the hashes of its files."""
    for entry in pins.replace("\\\n", " ").splitlines():
        text, *hashes = entry.split(" --hash=")
        if not text.strip() or text.startswith("#"):
            continue
        requirement = Requirement(text.strip())
        name = canonicalize_name(requirement.name)
        (pin,) = requirement.specifier
        known = licence_of(name, pin.version)
        yield {
            "type": "library",
            "bom-ref": purl(name, pin.version),
            "name": name,
            "version": pin.version,
            "scope": "optional",
            "hashes": [{"alg": "SHA-256", "content": each.strip().removeprefix("sha256:")} for each in hashes],
            **({"licenses": [{"expression": known}]} if known else {}),
            "purl": purl(name, pin.version),
        }


def licence_of(name: str, version: str) -> str | None:
    """The SPDX expression that an installed package of this version states."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    stated = found["Version"] == version and "License-Expression" in found
    return found["License-Expression"] if stated else None


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
