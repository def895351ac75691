"""Interrupting a run, and what must not depend on it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch


def outcome(out: Path) -> dict[str, Any]:
    """Records, predictions and weights of whatever network, without the seconds."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        if path.name in ("record.json", "metrics.json", "predictions.csv"):
            text = re.sub(r'"\w*seconds\w*": [\d.e+-]+', "", path.read_text())
            found[str(path.relative_to(out))] = text
        elif path.name in ("best.ckpt", "checkpoint.pt"):
            content = torch.load(path, weights_only=True)
            weights = content.get("state_dict", content.get("network"))
            found[str(path.relative_to(out))] = {k: v.tolist() for k, v in weights.items()}
    return found


def interrupt_once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]
) -> list[bool]:
    """Makes a function raise KeyboardInterrupt the first time that `when` says so; gives a list
    that is not empty once it has.
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
