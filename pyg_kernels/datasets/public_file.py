"""Files that their authors publish: found locally or downloaded, and read."""

from __future__ import annotations

import codecs
import gzip
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
    """A file of such a name in ``root`` or ``root/raw``, plain or ``.gz``; None if missing."""
    root = Path(root).expanduser()
    folders, ends = (root, root / "raw"), ("", ".gz")
    paths = [folder / f"{name}{end}" for folder in folders for name in names for end in ends]
    return next(filter(Path.is_file, paths), None)


@dataclass(frozen=True)
class PublicFile:
    """A file that its authors publish."""

    name: str
    url: str
    sha256: str
    aliases: tuple[str, ...] = ()
    member: str = ""

    def find(self, root: str | Path) -> Path | None:
        """The file in ``root`` or ``root/raw``, plain or compressed (``.gz``); None if missing."""
        return find_file(root, self.name, *self.aliases)

    def obtain(self, root: str | Path) -> Path:
        """The file in ``root``, downloaded into ``root/raw`` if it is not there.

        If the download fails, the folder is not made either.
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
    """Downloads a file to a temporary folder; for an archive, gives the folder of its files."""
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


def read_lines(path: str | Path, encoding: str | None = None) -> list[str]:
    """The lines of a text file."""
    path = Path(path)
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be decompressed: {error}") from error
    try:
        name = codecs.lookup(encoding or "utf-8").name
        text = content.decode("utf-8-sig" if name == "utf-8" else name)
    except (UnicodeError, LookupError) as error:
        if encoding is not None:
            raise ValueError(f"{path} is not in the encoding {encoding}: {error}") from error
        text = content.decode("latin-1")
    if encoding is not None and "\0" in text:
        raise ValueError(f"{path} is not in the encoding {encoding}: it has zero bytes")
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, which is read in chunks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file so that it is there whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
