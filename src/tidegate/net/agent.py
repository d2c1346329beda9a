"""Who we are, as the services that we call read it."""

from __future__ import annotations

from tidegate import __version__


def user_agent(about: str = "", contact: str = "") -> str:
    """The value of User-Agent: 'Tidegate/1.0', and behind it what calls, and where somebody can complain.

    user_agent("feed poller", "https://example.org/bot")  # Tidegate/1.0 (feed poller; +https://example.org/bot)
    """
    words = [about, f"+{contact}" if "://" in contact else contact]
    said = "; ".join(word for word in words if word)
    return f"Tidegate/{__version__} ({said})" if said else f"Tidegate/{__version__}"
