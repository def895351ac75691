"""Small random data, written in the file formats of the real data sets."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

TOPICS = ("boot", "usb", "wifi", "sound", "grub", "driver")
FILLERS = tuple(f"w{k}" for k in range(12))
EACH = 8  # questions of each topic
SCORES = " ".join(f"{8 - j}.5" for j in range(8))  # in place of BM25 scores


def write_file(path: Path, content: str | bytes) -> Path:
    """A file, compressed if its name ends in ``.gz``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_trec(root: Path, train: int = 120, test: int = 30) -> Path:
    """Questions whose class is the order of two words: no bag of words tells them apart."""
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
        write_file(root / name, "".join(lines))
    return root


def write_glove(path: Path, words: list[str]) -> Path:
    """Writes a vector of six numbers for each word."""
    draw = random.Random(1).gauss
    lines = [" ".join([word, *(f"{draw():.3f}" for _ in range(6))]) + "\n" for word in words]
    return write_file(path, "".join(lines))


def write_askubuntu(root: Path, bodies: bool = True) -> Path:
    """Writes AskUbuntu's files; questions of one topic are similar and share a word of the title.

    Of the eight questions of a topic, five are trained on, one is a query of dev and one of test;
    the eighth is only a candidate. Ids are not positions.
    """
    generator = random.Random(0)
    ids = {topic: [f"0{t}{k}" for k in range(EACH)] for t, topic in enumerate(TOPICS)}
    files: dict[str, list[str]] = {n: [] for n in ("text_tokenized", "train_random", "dev", "test")}
    for topic, own in ids.items():
        others = [name for other in TOPICS if other != topic for name in ids[other]]
        for k, name in enumerate(own):
            before, after, body = (generator.choices(FILLERS, k=n) for n in (1 + k % 2, k % 3, 6))
            title, text = " ".join([*before, topic, *after]), " ".join([*body, topic, *after])
            files["text_tokenized"].append(f"{name}\t{title}\t{text if bodies and k != 3 else ''}")
        for name in own[:3]:
            similar = " ".join(other for other in own[:5] if other != name)
            row = f"{name}\t{similar}\t{' '.join(generator.sample(others, 12))}"
            files["train_random"].append(row)
        for place, part in ((5, "dev"), (6, "test")):
            candidates = [own[0], own[7], *generator.sample(others, 6)]
            generator.shuffle(candidates)
            row = f"{own[place]}\t{own[0]} {own[7]}\t{' '.join(candidates)}\t{SCORES}"
            files[part].append(row)
    generator.shuffle(files["text_tokenized"])
    for name, rows in files.items():
        write_file(root / f"{name}.txt", "\n".join(rows) + "\n")
    return root


def write_corpus(root: Path, pattern: str = "ptb.{}.txt", train: int = 150) -> Path:
    """Writes sentences in which three words may follow a word; each part has a word of its own."""
    draw = random.Random(0)
    for part, size in {"train": train, "valid": 12, "test": 9}.items():
        lines = []
        for _ in range(size):
            word, line = draw.randrange(20), []
            for _ in range(draw.randint(2, 8)):
                line.append(f"w{word}")
                word = (3 * word + draw.randrange(3)) % 20
            lines.append(" ".join(line))
        lines[0] += f" only-{part}"
        write_file(root / pattern.format(part), "".join(f" {line} \n" for line in lines))
    return root


def write_own(folder: Path, number: int = 120) -> Path:
    """Writes ``own.csv``: texts, classes, numbers, and the evidence for three in four rows."""
    generator = random.Random(4)
    lines = ["body,kind,why,stars\n"]
    for k in range(number):
        words = [f"w{generator.randrange(9)}" for _ in range(6)]
        mark = ("awful film", "superb film")[k % 2]
        words.insert(generator.randrange(6), mark)
        why = mark if k % 4 else ""
        lines.append(f"{' '.join(words)},{'nc'[k % 2]},{why},{k % 2 + 0.5}\n")
    return write_file(folder / "own.csv", "".join(lines))


def write_beer(root: Path) -> Path:
    """Reviews that rate the look by one word; the annotation is that word."""
    generator = random.Random(0)

    def review() -> tuple[list[str], list[float], int]:
        rating, place = generator.random(), generator.randrange(6)
        text = [f"w{generator.randrange(9)}" for _ in range(6)]
        text[place] = "clear" if rating > 0.5 else "murky"
        return text, [rating, *(generator.random() for _ in range(4))], place

    for name, number in (("train", 40), ("heldout", 12)):
        reviews = [review() for _ in range(number)]
        lines = [f"{' '.join(f'{y:.2f}' for y in ys)}\t{' '.join(x)}\n" for x, ys, _ in reviews]
        write_file(root / f"reviews.aspect0.{name}.txt.gz", "".join(lines))
    lines = []
    for text, ratings, place in (review() for _ in range(9)):
        spans: dict[str, Any] = {str(k): [] for k in range(5)} | {"0": [[place, place + 1]]}
        lines.append(json.dumps({"x": text, "y": ratings, **spans}) + "\n")
    write_file(root / "annotations.json", "".join(lines))
    return root
