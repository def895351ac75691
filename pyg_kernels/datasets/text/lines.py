"""Lines of text, whatever their encoding."""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path


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
