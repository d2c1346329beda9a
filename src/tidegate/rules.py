"""Rule packs: how to read the answers of one service."""

from tidegate.core.rules import ANY, Pack, Rule

__all__ = ["ANY", "Pack", "Rule"]
