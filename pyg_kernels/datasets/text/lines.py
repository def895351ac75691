"""Lines of text, whatever their encoding."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file in UTF-8, or in Latin-1 where it is not UTF-8.

    Args:
        path: the file; decompressed if its name ends in ``.gz``. A line ends at a line feed alone
            (a text may hold the other characters that ``str.splitlines`` would end it at).

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is a damaged compressed file.
    """
    path = Path(path)
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be decompressed: {error}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
