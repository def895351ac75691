"""Interrupting a run."""

from collections.abc import Callable
from typing import Any

import pytest


def interrupt_once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]
) -> None:
    """Makes a function raise KeyboardInterrupt the first time that `when` returns True."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if when(*args, **kwargs):
            monkeypatch.setattr(owner, name, original)
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
