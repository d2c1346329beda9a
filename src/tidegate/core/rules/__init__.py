"""Rule packs: how to read the answers of one service. A pack of your own is ten lines.

    acme = rules.Pack("acme", [
        rules.Rule(name="no-art", code=None, status=404, path="/art"),
        rules.Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"}),
    ])
    spot = Target("acme", rules=acme)
"""

from tidegate.core.rule import ANY, Pack, Rule

__all__ = ["ANY", "Pack", "Rule"]
