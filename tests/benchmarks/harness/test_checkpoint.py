"""Files that are no checkpoints."""

from pathlib import Path

import pytest
import torch

from benchmarks.harness.checkpoint import read_checkpoint
from benchmarks.harness.errors import InputError

KEYS = {"model", "words"}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"hello\n", b"smiles,y\nCC,1\n", b"(a", b"q\x00", b"h", b"\x80"),
        *(b"X\xff", b"X\x01\x00\x00\x00\xff", b"N.", b"\x80\x02K\x01."),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """Some are read as a stack of instructions, which fails in many ways."""
    path = tmp_path / "some.ckpt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"^--checkpoint .*some.ckpt is not a checkpoint of this"):
        read_checkpoint(path, [KEYS])


@pytest.mark.parametrize(
    "content",
    [
        *(torch.zeros(3), 5, [], {}, {"hyper_parameters": None}, {"hyper_parameters": KEYS}),
        *({"hyper_parameters": {"model": 1, "words": []}}, {"hyper_parameters": {"model": {}}}),
    ],
    ids=["tensor", "number", "list", "empty", "no-arguments", "names", "no-model", "fewer"],
)
def test_other_tensors_are_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(InputError, match=r"other.ckpt is not a checkpoint of this module$"):
        read_checkpoint(tmp_path / "other.ckpt", [KEYS])


def test_content_and_arguments(tmp_path: Path) -> None:
    arguments = {"model": {"name": "a"}, "words": ["b"]}
    torch.save({"hyper_parameters": arguments}, tmp_path / "own.ckpt")
    content, found = read_checkpoint(tmp_path / "own.ckpt", [KEYS])
    assert content == {"hyper_parameters": arguments}
    assert found == arguments
    torch.save(arguments, tmp_path / "whole.ckpt")
    content, found = read_checkpoint(tmp_path / "whole.ckpt", [], whole=[KEYS])
    assert content is found
    assert found == arguments
    with pytest.raises(InputError, match=r"nowhere.ckpt: no such file"):
        read_checkpoint(tmp_path / "nowhere.ckpt", [KEYS])
