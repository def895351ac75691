"""Interrupting a run."""

from collections.abc import Callable
from typing import Any

import pytest


def interrupt_once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]
) -> list[bool]:
    """Makes a function raise KeyboardInterrupt the first time that `when` returns True. Returns
    a list that is empty until then.
    """
    original = getattr(owner, name)
    raised: list[bool] = []

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not raised and when(*args, **kwargs):
            raised.append(True)
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return raised
