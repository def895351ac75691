"""Writing files so that each is there whole or not at all."""

import os
from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file or none of it."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a whole file in UTF-8 or none of it."""
    write_bytes(path, text.encode())
