"""Files that their authors publish: found where they lie, downloaded otherwise."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile


def find_file(root: str | Path, *names: str) -> Path | None:
    """A file so called in ``root`` or ``root/raw``, also compressed (``.gz``); None: not there."""
    root = Path(root).expanduser()
    for folder in (root, root / "raw"):
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                if path.is_file():
                    return path
    return None


@dataclass(frozen=True)
class PublicFile:
    """A file that its authors publish."""

    name: str
    url: str
    sha256: str
    aliases: tuple[str, ...] = ()
    member: str = ""

    def find(self, root: str | Path) -> Path | None:
        """The file in ``root`` or ``root/raw``, also compressed (``.gz``); None: not there."""
        return find_file(root, self.name, *self.aliases)

    def obtain(self, root: str | Path) -> Path:
        """The file in ``root``, downloaded into ``root/raw`` if it is not there.

        Where that fails, not even the folder is made.
        """
        there = self.find(root)
        if there is not None:
            return there
        path = Path(root).expanduser() / "raw" / self.name
        advice = f"put {f'its file {self.member}' if self.member else 'the file'} at {path}"
        with downloaded(self.url, advice, is_archive=bool(self.member)) as found:
            file = found / self.member
            if not file.is_file() or file_sha256(file) != self.sha256:
                raise OSError(f"{self.url} no longer gives the known file; {advice}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda partial: shutil.copyfile(file, partial))
        return path


@contextmanager
def downloaded(url: str, advice: str, is_archive: bool = False) -> Iterator[Path]:
    """A published file in a temporary folder; of an archive, the folder of its files."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f"{url} is downloaded with the package pooch, which is not installed: "
            f"pip install 'pyg_kernels[mol]', or {advice}",
            name="pooch",
        ) from error
    pooch.get_logger().setLevel("WARNING")
    with TemporaryDirectory() as folder:
        unpack = pooch.Unzip(extract_dir="files") if is_archive else None
        try:
            pooch.retrieve(url, None, fname="download", path=folder, processor=unpack)
        except (OSError, BadZipFile, zlib.error) as error:
            said = " ".join(str(error).split())
            raise OSError(f"cannot download {url} ({said}); {advice}") from error
        yield Path(folder) / ("files" if is_archive else "download")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, of which a chunk at a time is in memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file so that it is there whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
