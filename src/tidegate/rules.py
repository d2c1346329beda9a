"""Rule packs, ready-made and your own; all of them live in the core."""

from tidegate.core.rules import *  # noqa: F403
