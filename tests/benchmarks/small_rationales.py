"""Small data whose targets one word says."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pandas


def write_own(folder: Path, number: int = 120, unknown: int = 4) -> Path:
    """``own.csv``: texts, classes, numbers, and of all but every so many rows what says them."""
    generator = random.Random(4)
    rows = []
    for k in range(number):
        words = [f"w{generator.randrange(9)}" for _ in range(6)]
        mark = ("awful film", "superb film")[k % 2]
        words.insert(generator.randrange(6), mark)
        why = mark if unknown and k % unknown else ""
        rows.append(
            {"body": " ".join(words), "kind": "nc"[k % 2], "why": why, "stars": k % 2 + 0.5}
        )
    pandas.DataFrame(rows).to_csv(folder / "own.csv", index=False)
    return folder / "own.csv"


def write_beer(root: Path) -> Path:
    """Reviews that rate the look by one word; the annotation is that word."""
    root.mkdir()
    generator = random.Random(0)

    def review() -> tuple[list[str], list[float], int]:
        rating, place = generator.random(), generator.randrange(6)
        text = [f"w{generator.randrange(9)}" for _ in range(6)]
        text[place] = "clear" if rating > 0.5 else "murky"
        return text, [rating, *(generator.random() for _ in range(4))], place

    for name, number in (("train", 40), ("heldout", 12)):
        reviews = [review() for _ in range(number)]
        lines = [f"{' '.join(f'{y:.2f}' for y in ys)}\t{' '.join(x)}\n" for x, ys, _ in reviews]
        file = root / f"reviews.aspect0.{name}.txt.gz"
        file.write_bytes(gzip.compress("".join(lines).encode()))
    lines = []
    for text, ratings, place in (review() for _ in range(9)):
        spans: dict[str, Any] = {str(k): [] for k in range(5)} | {"0": [[place, place + 1]]}
        lines.append(json.dumps({"x": text, "y": ratings, **spans}) + "\n")
    (root / "annotations.json").write_text("".join(lines))
    return root
