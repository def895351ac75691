"""A small corpus of questions in AskUbuntu's files."""

import random
from pathlib import Path

TOPICS = ("boot", "usb", "wifi", "sound", "grub", "driver")
FILLERS = tuple(f"w{k}" for k in range(12))
EACH = 8  # questions a topic


def write_questions(root: Path, bodies: bool = True, seed: int = 0) -> Path:
    """Questions on a few topics; those of one topic are similar and share a word of the title.

    Of each topic five are trained on, one is a query of dev and one of test; the eighth is a
    candidate alone. Ids are not positions.
    """
    root.mkdir(exist_ok=True)
    generator = random.Random(seed)

    def words(number: int) -> list[str]:
        return [generator.choice(FILLERS) for _ in range(number)]

    def title(topic: str) -> str:
        return " ".join([*words(generator.randrange(1, 3)), topic, *words(generator.randrange(3))])

    def body(topic: str, k: int) -> str:
        return " ".join([*words(6), topic, *words(k)]) if bodies and k != 3 else ""

    ids = {topic: [f"0{t}{k}" for k in range(EACH)] for t, topic in enumerate(TOPICS)}
    lines = [
        f"{ids[topic][k]}\t{title(topic)}\t{body(topic, k)}"
        for topic in TOPICS
        for k in range(EACH)
    ]
    generator.shuffle(lines)
    (root / "text_tokenized.txt").write_text("\n".join(lines) + "\n")

    def others(topic: str, number: int) -> list[str]:
        rest = [name for other in TOPICS if other != topic for name in ids[other]]
        return generator.sample(rest, number)

    train = [
        f"{ids[topic][k]}\t{' '.join(ids[topic][j] for j in range(5) if j != k)}\t"
        f"{' '.join(others(topic, 12))}"
        for topic in TOPICS
        for k in range(3)
    ]
    (root / "train_random.txt").write_text("\n".join(train) + "\n")
    for place, name in ((5, "dev"), (6, "test")):
        rows = []
        for topic in TOPICS:
            similar = [ids[topic][0], ids[topic][7]]
            candidates = [*similar, *others(topic, 6)]
            generator.shuffle(candidates)
            scores = " ".join(f"{8 - j}.5" for j in range(8))
            rows.append(
                f"{ids[topic][place]}\t{' '.join(similar)}\t{' '.join(candidates)}\t{scores}"
            )
        (root / f"{name}.txt").write_text("\n".join(rows) + "\n")
    return root
