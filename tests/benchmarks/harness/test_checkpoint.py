"""Files that are no checkpoints."""

from pathlib import Path

import pytest
import torch

from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.errors import InputError


class Learner(torch.nn.Module):
    UNSAVED, ADDED = ("relevance",), ("later",)

    def __init__(
        self, model: dict[str, str], words: list[str], relevance: int = 0, later: bool = False
    ) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(1, len(words))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"hello\n", b"smiles,y\nCC,1\n", b"(a", b"q\x00", b"h", b"\x80"),
        *(b"X\xff", b"X\x01\x00\x00\x00\xff", b"N.", b"\x80\x02K\x01."),
        *(torch.zeros(3), 5, [], {}, {"hyper_parameters": None}),
        {"hyper_parameters": {"model", "words"}},
        *({"hyper_parameters": {"model": 1, "words": []}}, {"hyper_parameters": {"model": {}}}),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: object) -> None:
    """Some are read as a stack of instructions, which fails in many ways."""
    path = tmp_path / "some.ckpt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(InputError, match=r"^--checkpoint .*some.ckpt is not a checkpoint of this"):
        load_learner(path, Learner)


def test_a_checkpoint_gives_its_learner_or_says_why_not(tmp_path: Path) -> None:
    made, path = Learner({"name": "a"}, ["b", "c"]), tmp_path / "some.ckpt"
    arguments = {"model": {"name": "a"}, "words": ["b", "c"]}
    for told, said in (
        (arguments, ""),
        ({**arguments, "later": True}, ""),
        ({"model": {"name": "a"}}, "some.ckpt is a checkpoint of another network"),
        ({**arguments, "more": 1}, "some.ckpt is a checkpoint of another network"),
        ({**arguments, "words": ["b"]}, "some.ckpt does not fit this version's a"),
        ({**arguments, "words": 3}, "some.ckpt does not fit this version's a"),
    ):
        torch.save({"hyper_parameters": told, "state_dict": made.state_dict()}, path)
        if said:
            with pytest.raises(InputError, match=said):
                load_learner(path, Learner)
        else:
            found = load_learner(path, Learner)
            assert torch.equal(found.lin.weight, made.lin.weight) and not found.training
    with pytest.raises(InputError, match=r"nowhere.ckpt: no such file"):
        load_learner(tmp_path / "nowhere.ckpt", Learner)
