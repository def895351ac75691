"""Files of text that their authors publish, but not for a program to download."""

from __future__ import annotations

from pathlib import Path


def find_text(root: str | Path, name: str) -> Path | None:
    """A file in ``root`` or ``root/raw``, also compressed (``.gz``); None: not there."""
    root = Path(root).expanduser()
    for folder in (root, root / "raw"):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def obtain_text(root: str | Path, name: str, source: str) -> Path:
    """A file in ``root`` or ``root/raw``, also compressed (``.gz``).

    Args:
        root: the folder.
        name: what its authors call the file.
        source: where they publish it.

    Raises:
        FileNotFoundError: if it is not there, with the place to get it from.
    """
    path = find_text(root, name)
    if path is None:
        raise FileNotFoundError(f"{name} or {name}.gz is not in {root}; {source} has it")
    return path
