"""Pre-training, the writing of titles, as a task of the harness."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import lightning.pytorch as lightning
import pandas
import torch
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval.batches import PAIRS_A_QUERY, PairLoader, ranked_pairs
from benchmarks.harness.retrieval.data import QuestionData
from benchmarks.harness.retrieval.encoders import ENCODERS
from benchmarks.harness.retrieval.generator import TitleWriter
from benchmarks.harness.retrieval.models import QuestionModelConfig, set_word_vectors
from benchmarks.harness.retrieval.titles import (
    TitleLoader,
    held_out_pairs,
    written_pairs,
)
from benchmarks.harness.task import PARTS, Measure, Task

MIN_COUNT = 2  # how often titles must have a word that can be written
TRAIN_SAMPLE = 1000  # titles of the training part whose probability is measured in the end


class PretrainingTask(Task):
    """Titles of questions, measured by the perplexity of those held out.

    Half of the questions that are held out choose the epoch, the other half test it. A network's
    configuration has the name of its encoder.

    Args:
        data: The questions.
    """

    items = "titles"
    measure = Measure("perplexity", "perplexity", ".2f")
    packages = ("torch", "torch-geometric", "lightning", "torchmetrics", "numpy")
    files = ("table.md", "learning_curves.png")
    free_settings = ("root", "vectors")

    def __init__(self, data: QuestionData) -> None:
        self.data = data
        self.choice = data.choice
        self.dataset, self.split = data.choice.dataset, "titles held out of all questions"
        generator = torch.Generator().manual_seed(data.choice.split_seed)
        held_out = torch.tensor(data.corpus.held_out)
        self.written = written_pairs(data.corpus)
        if len(held_out) < 2 or not len(self.written):
            raise InputError(
                f"pre-training needs at least two questions held out and others to learn from, got "
                f"{len(held_out)} held out of {len(data.corpus)}"
            )
        held_out = held_out[torch.randperm(len(held_out), generator=generator)]
        half = len(held_out) // 2
        sample = torch.randperm(len(self.written), generator=generator)[:TRAIN_SAMPLE]
        self.pairs = {
            "train": self.written[sample],
            "valid": held_out_pairs(data.corpus, held_out[:half].tolist()),
            "test": held_out_pairs(data.corpus, held_out[half:].tolist()),
        }
        self.parts = {part: torch.arange(len(self.pairs[part])) for part in PARTS}
        titles = data.texts.batch(self.written[:, 1].unique())
        counts = Counter(titles.ids.tolist())
        unknown = data.vocabulary.unknown
        common = {word for word, count in counts.items() if count >= MIN_COUNT and word != unknown}
        self.title_words = sorted({*common, unknown + 1})

    def identity(self) -> dict[str, Any]:
        """The number of titles, and fingerprints of questions and word vectors."""
        return {**self.data.identity(), "pairs": len(self.written)}

    def has_model(self, name: str) -> bool:
        """Whether it is one of ``encoders.ENCODERS``."""
        return name in ENCODERS

    def learner(self, model: QuestionModelConfig, optimizer: OptimizerConfig) -> TitleWriter:
        """An untrained encoder-decoder, with the word vectors."""
        writer = TitleWriter(
            asdict(model),
            self.data.vocabulary.words[2:],
            self.title_words,
            asdict(optimizer),
            self.data.corpus.relevance("dev"),
        )
        if self.data.vectors is not None:
            set_word_vectors(writer.net.question.embedding, self.data.vectors.vectors)
        return writer

    def batches(self, learner: TitleWriter, batch_size: int, seed: int) -> "TitleBatches":
        """Titles and their contexts."""
        return TitleBatches(self, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The perplexity of each part: of a sample of the titles to learn, of those held out."""
        totals = {part: predictions[part].sum(dim=0) for part in PARTS}
        return {part: (total[0] / total[1]).exp().item() for part, total in totals.items()}

    def details(self, model: QuestionModelConfig, learner: TitleWriter) -> dict[str, Any]:
        """The width, and how many words can be written."""
        return {"hidden_size": model.hidden, "title_words": len(self.title_words)}

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each title: what it is written from, its words, minus its log-probability."""
        questions, number = self.data.corpus.questions, len(self.data.corpus)
        frames = []
        for part in PARTS:
            contexts, titles = self.pairs[part].T.tolist()
            frame = {
                "model": record["model"],
                "seed": record["seed"],
                "part": part,
                "query": [questions[place % number].id for place in contexts],
                "field": ["title" if place < number else "body" for place in contexts],
                "candidate": [questions[place].id for place in titles],
                "words": predictions[part][:, 1].long().tolist(),
                "nats": predictions[part][:, 0].tolist(),
            }
            frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)

    def run_name(self, model: str, seed: int) -> str:
        """What a run is called where it is shown."""
        return f"{model} (pre-training, seed {seed})"


class TitleBatches(lightning.LightningDataModule):
    """Batches of titles; those of validation are followed by the candidates of the dev part.

    Args:
        task: The titles.
        batch_size (int): Titles a batch.
        seed (int): Of the order of titles.
    """

    def __init__(self, task: PretrainingTask, batch_size: int, seed: int) -> None:
        super().__init__()
        self.task, self.batch_size = task, batch_size
        self.training = TitleLoader(
            task.data, task.written, batch_size, shuffle=True, seed=10_000 * seed
        )

    def train_dataloader(self) -> TitleLoader:
        """Shuffled titles of this epoch."""
        self.training.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return self.training

    def val_dataloader(self) -> list[Any]:
        """Titles that are held out, and candidates to rank by their titles."""
        data = self.task.data
        pairs = ranked_pairs(data.rankings["valid"])
        ranked = PairLoader(data.texts, pairs, PAIRS_A_QUERY * self.batch_size, bodies=False)
        return [self.part("valid"), ranked]

    def all_parts(self) -> list[TitleLoader]:
        """One loader for the titles of each part."""
        return [self.part(part) for part in PARTS]

    def part(self, name: str) -> TitleLoader:
        """The titles of one part, in their order."""
        return TitleLoader(self.task.data, self.task.pairs[name], self.batch_size)
