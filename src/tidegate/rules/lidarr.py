"""Lidarr: a rejection may mean that the work is already done, and an outage may be that of its metadata host."""

from __future__ import annotations

from tidegate.faults.codes import from_rows
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Reach
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules.common import NEVER_WORKED, WEB_PAGE


def _empty_lookup(evidence: Evidence) -> bool:
    """A lookup found nothing."""
    return evidence.body.strip() == b"[]" and "/lookup" in evidence.path


lidarr = Pack(
    "lidarr",
    [
        WEB_PAGE,
        # A repeated submission violates several rules. That it already exists outweighs the others.
        Rule(name="exists", code=None, status=400,
             text=("artistexistsvalidator", "albumexistsvalidator", "has already been added")),
        Rule(name="exists-by-race", code=None, status=409),
        Rule(name="path-taken", code="path_taken", status=400, text="artistpathvalidator"),
        Rule(name="unknown-id", code="unknown_music", status=400, text="with this id was not found"),
        Rule(name="profile-missing", code="profile_missing", status=400,
             text=("profile does not exist", "qualityprofileexistsvalidator", "metadataprofileexistsvalidator")),
        Rule(name="root-folder-missing", code="profile_missing", status=400,
             text=("root folder does not exist", "rootfolderexistsvalidator")),
        Rule(name="empty-lookup", code="unknown_music", status=200, test=_empty_lookup),
        Rule(name="nameless", code="nameless", status=200, text=('"artistname":""', '"artistname": ""'),
             path="/lookup"),
        # One key for the whole server. A rejection by a proxy in front of it stops everything as well.
        Rule(name="key-refused", code="unauthorized", status=(401, 403), reach=Reach.TARGET),
        Rule(name="starting", code="starting", status=503, json={"errorMessage": ANY}),
        Rule(name="metadata-down", code="metadata_down", status=503, text="lidarrapi"),
    ],
    codes=from_rows(
        ("path_taken", "item", "item", "WARN", "Lidarr uses the folder of this artist for another one.",
         "Rename one of the two folders, then try this entry again."),
        ("unknown_music", "item", "item", "WARN", "Lidarr does not know this artist or album.",
         "Check the MusicBrainz id of the entry; a new entry may take days to arrive there."),
        ("nameless", "item", "item", "WARN", "Lidarr has no name for this artist.", "Check the entry at MusicBrainz."),
        ("profile_missing", "config", "target", "ERROR", "Lidarr lacks the profile or the root folder that we ask for.",
         "The operator must choose a profile and a root folder that exist in Lidarr."),
        ("starting", "transient", "target", "WARN", "Lidarr is starting up.",
         "Nothing to do: it is retried automatically."),
        ("metadata_down", "overloaded", "operation", "WARN", "The metadata service behind Lidarr is down.",
         "Nothing to do: Tidegate retries automatically, and the rest of Lidarr works."),
    ),
    confirm=[NEVER_WORKED],
)  # fmt: skip
