"""Small corpora, written as their files are."""

import random
from pathlib import Path


def write_questions(root: Path, train: int = 120, test: int = 30) -> Path:
    """Questions whose class is the order of two words: no bag of words tells them apart."""
    root.mkdir()
    generator = random.Random(0)
    for name, number in (("train_5500.label", train), ("TREC_10.label", test)):
        lines = []
        for k in range(number):
            label, pair = (("NUM:a", "many how"), ("LOC:b", "how many"))[k % 2]
            left, right = (
                " ".join(f"w{generator.randrange(30)}" for _ in range(generator.randrange(4)))
                for _ in range(2)
            )
            lines.append(f"{label} {' '.join(f'{left} {pair} {right}'.split())}\n")
        (root / name).write_text("".join(lines))
    return root


def write_glove(path: Path, words: list[str], size: int = 6) -> Path:
    generator = random.Random(1)
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "".join(f"{w} {' '.join(f'{generator.gauss():.3f}' for _ in range(size))}\n" for w in words)
    )
    return path
