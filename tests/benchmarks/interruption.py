"""Interrupting a run, and what must not depend on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def results(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Everything that must not depend on interruptions; seconds do."""
    runs = []
    for path in sorted(folder.glob("runs/*/record.json")):
        content = json.loads(path.read_text())
        content.pop("seconds_per_epoch")
        for epoch in content["history"]:
            epoch.pop("seconds")
        runs.append(content)
    return runs, (folder / "predictions.csv").read_text()


def interrupt_once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]
) -> list[bool]:
    """Makes a function raise KeyboardInterrupt the first time that `when` says so.

    Returns:
        A list that is not empty once it has.
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
