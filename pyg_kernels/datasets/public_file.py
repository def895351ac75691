"""Files that their authors publish: found where they lie, downloaded otherwise."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PublicFile:
    """A file that its authors publish.

    Args:
        name: what it is called in a root folder.
        url: where it is published.
        sha256: of the file itself.
        aliases: other names under which it is taken where it lies.
        member: its name inside the zip archive that ``url`` gives; empty: ``url`` is the file.
    """

    name: str
    url: str
    sha256: str
    aliases: tuple[str, ...] = ()
    member: str = ""

    def find(self, root: str | Path) -> Path | None:
        """The file in ``root`` or ``root/raw``, also compressed (``.gz``); None: not there."""
        root = Path(root).expanduser()
        for folder in (root, root / "raw"):
            for name in (self.name, *self.aliases):
                for path in (folder / name, folder / f"{name}.gz"):
                    if path.is_file():
                        return path
        return None

    def obtain(self, root: str | Path) -> Path:
        """The file in ``root``, downloaded into ``root/raw`` if it is not there.

        Raises:
            OSError: as :meth:`download`.
        """
        path = self.find(root)
        if path is None:
            path = Path(root).expanduser() / "raw" / self.name
            self.download(path)
        return path

    def download(self, path: Path) -> None:
        """Writes the file at ``path``; where that fails, not even its folder is made.

        Raises:
            OSError: if it cannot be downloaded, is no longer the known one, or cannot be written.
        """
        content = self._published(path)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise OSError(f"{self.url} no longer gives the known file; put that at {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda partial: partial.write_bytes(content))

    def _published(self, path: Path) -> bytes:
        try:
            with urllib.request.urlopen(self.url, timeout=60) as response:
                content: bytes = response.read()
            if self.member:
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    content = archive.read(self.member)
        except (OSError, http.client.HTTPException, zipfile.BadZipFile, zlib.error, KeyError) as e:
            what = f"its file {self.member}" if self.member else "the file"
            raise OSError(f"cannot download {self.url} ({e}); put {what} at {path}") from e
        return content


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file so that it is there whole or not at all.

    Args:
        path: the file.
        write: called with the path to write to.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
