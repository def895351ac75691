"""Writing files atomically: each is written whole or not at all."""

from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file or none of it."""
    from pyg_kernels.datasets.public_file import write_whole

    write_whole(path, lambda partial: partial.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """Writes a whole file in UTF-8 or none of it."""
    write_bytes(path, text.encode())
