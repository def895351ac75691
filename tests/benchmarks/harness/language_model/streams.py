"""Small corpora whose words depend on those before, made of random draws."""

import random
from pathlib import Path


def write_corpus(
    root: Path, pattern: str = "ptb.{}.txt", known: int = 20, train: int = 150
) -> Path:
    """Sentences in which each word says which three may follow; a few words of their own a part."""
    root.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for part, size in {"train": train, "valid": 12, "test": 9}.items():
        lines = []
        for _ in range(size):
            word, line = draw.randrange(known), []
            for _ in range(draw.randint(2, 8)):
                line.append(f"w{word}")
                word = (3 * word + draw.randrange(3)) % known
            lines.append(" ".join(line))
        lines[0] += f" only-{part}"
        (root / pattern.format(part)).write_text("".join(f" {line} \n" for line in lines))
    return root
