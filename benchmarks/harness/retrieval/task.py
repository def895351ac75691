"""The ranking of similar questions and, to pre-train, the writing of titles.

Both have a learner, which Lightning trains, and a task for the harness.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchmetrics import CatMetric

from benchmarks.corpora.questions import RANKED, relevance_of
from benchmarks.harness.checkpoint import load_finished
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.learner import Learner, OptimizerConfig
from benchmarks.harness.retrieval.data import (
    END,
    CandidateLoader,
    QuestionBatch,
    QuestionData,
    TitleBatch,
    TitleLoader,
    held_out_pairs,
    question_batches,
    written_pairs,
)
from benchmarks.harness.retrieval.models import QuestionModelConfig, QuestionNet, TitleGenerator
from benchmarks.harness.retrieval.options import FIELDS, Networks
from benchmarks.harness.sizes import check_parameters, count_parameters, fit_hidden_size
from benchmarks.harness.study import RUNS
from benchmarks.harness.task import PARTS, Batches, Measure, Task
from benchmarks.harness.text.data import BUCKET
from benchmarks.harness.training import BEST

METRICS = ("MAP", "MRR", "P@1", "P@5")
TIES = 0  # seed of the order among candidates with equal scores
# Thesis Table 2.9.
POOLING = {"rcnn": "last", "lstm": "mean", "gru": "last", "cnn": "mean"}
PARAMETERS, ASKUBUNTU_PARAMETERS = 100_000, 401_000  # thesis Table 2.8: a width of 400
MIN_COUNT = 2  # occurrences in titles that a word needs to be written
TRAIN_SAMPLE = 1000  # titles of the training part whose probability is measured in the end


def evaluate(scores: Tensor, relevance: Sequence[Tensor]) -> dict[str, float]:
    """Mean average precision, mean reciprocal rank and precision at 1 and 5, in percent.

    Each is the mean over the queries that have a similar candidate. All are NaN if a score is not
    a number. The scores of all lists, ``(P,)``, stand one list after another.
    """
    if bool(scores.isnan().any()):
        return dict.fromkeys(METRICS, float("nan"))
    found = [ranks for ranks in similar_ranks(scores, relevance) if len(ranks)]
    if not found:
        raise ValueError("no query has a similar candidate")
    measures = {
        "MAP": [(torch.arange(1, 1 + len(ranks)) / ranks).mean() for ranks in found],
        "MRR": [1 / ranks[0] for ranks in found],
        "P@1": [(ranks <= 1).sum() / 1 for ranks in found],
        "P@5": [(ranks <= 5).sum() / 5 for ranks in found],
    }
    return {name: 100 * float(torch.stack(each).mean()) for name, each in measures.items()}


def similar_ranks(scores: Tensor, relevance: Sequence[Tensor]) -> Iterator[Tensor]:
    """The ranks of each list's similar candidates; the best rank is 1.

    Candidates with equal scores come in a random but fixed order, so that the order in which a
    search engine returned them gives no advantage.
    """
    generator = torch.Generator().manual_seed(TIES)
    lists = scores.detach().cpu().split([len(similar) for similar in relevance])
    for score, similar in zip(lists, relevance, strict=True):
        order = torch.randperm(len(score), generator=generator)
        best_first = order[score[order].argsort(stable=True).flip(0)]
        yield 1 + similar.cpu()[best_first].nonzero().flatten()


def hinge_losses(scores: Tensor, margin: float) -> Tensor:
    r"""The hinge loss of each query, :math:`\max_k \, [s_k - s_+ + \delta]_+`, ``(...)``.

    Scores are ``(..., 1 + K)``, that of the similar question first, then those of wrong ones.
    """
    return (scores[..., 1:].amax(dim=-1) - scores[..., 0] + margin).clamp(min=0)


class RankingError(CatMetric):
    """One minus the mean reciprocal rank of lists of candidates.

    Updates are the scores of the next pairs, ``(P,)``, in the order of lists and candidates.
    """

    def __init__(self, relevance: Sequence[Tensor]) -> None:
        super().__init__(nan_strategy="disable")
        self.relevance = list(relevance)

    def compute(self) -> Tensor:
        """The error, 0 to 1; NaN if a score is not a number."""
        return torch.tensor(1 - evaluate(super().compute(), self.relevance)["MRR"] / 100)


class QuestionRanker(Learner):
    """A network that ranks questions by their cosine with a query."""

    UNSAVED = ("relevance",)
    net: QuestionNet

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        optimizer: dict[str, Any] | None = None,
        relevance: Sequence[Tensor] = (),
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(ignore=self.UNSAVED, logger=False)
        self.net = QuestionNet(QuestionModelConfig(**model))
        self.valid_error = RankingError(relevance)

    def forward(self, batch: QuestionBatch) -> Tensor:
        """The cosine of each pair, ``(P,)``, on the CPU."""
        return self.net(batch).squeeze(1).float().cpu()

    def epoch_measures(self) -> dict[str, float]:
        """The mean reciprocal rank in percent.

        In training (with dropout) it ranks a similar question among its random ones.
        """
        return {
            "train_MRR": 100 * (1 - self.train_error.compute().item()),
            "valid_MRR": 100 * (1 - self.valid_error.compute().item()),
        }

    def training_step(self, batch: QuestionBatch, batch_idx: int) -> Tensor:
        scores = self.net(batch).float()
        rank = 1 + (scores[:, 1:] >= scores[:, :1]).sum(dim=1)
        self.train_error.update(1 - 1 / rank)
        return hinge_losses(scores, self.net.config.margin).mean()

    def validation_step(self, batch: QuestionBatch, batch_idx: int) -> None:
        self.valid_error.update(self(batch))


class TitleWriter(Learner):
    """An encoder-decoder, trained on the likelihood of titles."""

    UNSAVED = ("relevance",)

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        title_words: list[int],
        optimizer: dict[str, Any] | None = None,
        relevance: Sequence[Tensor] = (),
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(ignore=self.UNSAVED, logger=False)
        self.net: TitleGenerator = TitleGenerator(QuestionModelConfig(**model), title_words)
        self.ranking_error = RankingError(relevance)

    def epoch_measures(self) -> dict[str, float]:
        """Perplexities, and the mean reciprocal rank of the validation part by titles alone."""
        return {
            "train_perplexity": self.train_error.compute().exp().item(),
            "valid_perplexity": self.valid_error.compute().exp().item(),
            "valid_MRR": 100 * (1 - self.ranking_error.compute().item()),
        }

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self.ranking_error.reset()

    def training_step(self, batch: TitleBatch, batch_idx: int) -> Tensor:
        losses = self.net(batch)
        self.train_error.update(losses.detach())
        return losses.mean()

    def validation_step(
        self, batch: TitleBatch | QuestionBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Adds titles to the validation error, or candidates to the ranking error."""
        if isinstance(batch, TitleBatch):
            self.valid_error.update(self.net(batch))
        else:
            self.ranking_error.update(self.net.question(batch).squeeze(1))

    def predict_step(self, batch: TitleBatch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """For each title, ``(B, 2)``: minus its log-probability; its words, with the end."""
        losses = self.net(batch).double()
        totals = losses.new_zeros(batch.before.num_texts).index_add(0, batch.before.text, losses)
        return torch.stack([totals, batch.before.lengths.to(totals)], dim=1).cpu()


class RetrievalTask(Task):
    """The ranking of candidates for questions, measured by the mean reciprocal rank in percent."""

    measure = Measure("MRR", "MRR", ".1f")

    def __init__(self, data: QuestionData, pretraining: Path | None = None) -> None:
        self.data, self.dataset, self.split = data, data.choice.dataset, data.corpus.split
        self.pretraining = pretraining
        self.relevance = {part: relevance_of(data.rankings[part]) for part in PARTS}
        self.parts = {part: torch.arange(sum(map(len, self.relevance[part]))) for part in PARTS}

    def learner(self, model: QuestionModelConfig, optimizer: OptimizerConfig) -> QuestionRanker:
        words = self.data.vocabulary.words[2:]
        ranker = QuestionRanker(asdict(model), words, asdict(optimizer), self.relevance["valid"])
        self.data.start(ranker.net.embedding)
        return ranker

    def start_from(self, learner: QuestionRanker, model: QuestionModelConfig, seed: int) -> None:
        """Copies the encoder that was pre-trained with the same seed into a network."""
        if not model.pretrained:
            return
        assert self.pretraining is not None
        path = self.pretraining / RUNS / f"{model.encoder}-seed{seed}" / BEST
        learner.net.load_state_dict(load_finished(path, TitleWriter).net.question.state_dict())

    def batches(self, learner: QuestionRanker, batch_size: int, seed: int) -> Batches:
        config = learner.net.config
        return question_batches(self.data, config.fields, config.num_negatives, batch_size, seed)

    def scores(
        self, predictions: Mapping[str, Tensor], first: str = measure.key
    ) -> dict[str, float]:
        """The `first` measure of each part, and all others of the parts to rank."""
        found = {part: evaluate(predictions[part], self.relevance[part]) for part in PARTS}
        others = [(part, key) for part in RANKED for key in METRICS if key != first]
        measured = {part: found[part][first] for part in PARTS}
        return measured | {f"{part}_{key}": found[part][key] for part, key in others}

    def details(self, model: QuestionModelConfig, learner: QuestionRanker) -> dict[str, Any]:
        kept = ("encoder", "pretrained", "pooling", "fields")
        sizes = {"hidden_size": model.hidden, "encoder_parameters": model.encoder_parameters()}
        return {name: getattr(model, name) for name in kept} | sizes

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each pair of a query and a candidate, whether they are similar, and their cosine."""
        rankings = self.data.rankings[part]
        return {
            "query": self.data.ids(r.query for r in rankings for _ in r.candidates),
            "candidate": self.data.ids(place for r in rankings for place in r.candidates),
            "relevant": [int(relevant) for r in rankings for relevant in r.relevant],
            "score": predictions.tolist(),
        }


class PretrainingTask(Task):
    """Titles of questions, measured by the perplexity of held-out titles.

    Half of the held-out questions choose the epoch, the other half test it.
    """

    measure = Measure("perplexity", "perplexity", ".2f")

    def __init__(self, data: QuestionData) -> None:
        self.data, self.dataset = data, data.choice.dataset
        self.split = "titles held out of all questions"
        generator = torch.Generator().manual_seed(data.choice.split_seed)
        held_out = held_out_pairs(data.corpus, data.corpus.held_out)
        self.written = written_pairs(data.corpus)
        if len(held_out) < 2 or not len(self.written):
            raise InputError(
                f"pre-training needs at least two questions held out and others to learn from, got "
                f"{len(held_out)} held out of {len(data.corpus)}"
            )
        held_out = held_out[torch.randperm(len(held_out), generator=generator)]
        valid, test = held_out.split([len(held_out) // 2, -(-len(held_out) // 2)])
        sample = torch.randperm(len(self.written), generator=generator)[:TRAIN_SAMPLE]
        self.pairs = {"train": self.written[sample], "valid": valid, "test": test}
        self.parts = {part: torch.arange(len(self.pairs[part])) for part in PARTS}
        titles, unknown = data.texts.batch(self.written[:, 1].unique()), data.vocabulary.unknown
        words, counts = titles.ids.unique(return_counts=True)
        common = words[(counts >= MIN_COUNT) & (words != unknown)]
        self.title_words = sorted({*common.tolist(), data.vocabulary[END]})

    def learner(self, model: QuestionModelConfig, optimizer: OptimizerConfig) -> TitleWriter:
        words, relevance = self.data.vocabulary.words[2:], relevance_of(self.data.rankings["valid"])
        writer = TitleWriter(asdict(model), words, self.title_words, asdict(optimizer), relevance)
        self.data.start(writer.net.question.embedding)
        return writer

    def batches(self, learner: TitleWriter, batch_size: int, seed: int) -> Batches:
        """Titles and their contexts; after each epoch also dev's candidates, by titles alone."""
        shuffled = {"shuffle": True, "seed": 10_000 * seed, "bucket": BUCKET}
        training = TitleLoader(self.data, self.written, batch_size, **shuffled)
        parts = {part: TitleLoader(self.data, self.pairs[part], batch_size) for part in PARTS}
        also = [CandidateLoader(self.data, "valid", batch_size, bodies=False)]
        return Batches(training, parts, also)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The perplexity of each part: of a sample of the training titles, and of held-out ones."""
        totals = {part: predictions[part].sum(dim=0) for part in PARTS}
        return {part: (total[0] / total[1]).exp().item() for part, total in totals.items()}

    def details(self, model: QuestionModelConfig, learner: TitleWriter) -> dict[str, Any]:
        return {"hidden_size": model.hidden, "title_words": len(self.title_words)}

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each title, its context, its number of words, and minus its log-probability."""
        number, (contexts, titles) = len(self.data.corpus), self.pairs[part].T.tolist()
        return {
            "query": self.data.ids(place % number for place in contexts),
            "field": ["title" if place < number else "body" for place in contexts],
            "candidate": self.data.ids(titles),
            "words": predictions[:, 1].long().tolist(),
            "nats": predictions[:, 0].tolist(),
        }

    def run_name(self, model: str, seed: int) -> str:
        return f"{model} (pre-training, seed {seed})"


def question_model_configs(
    options: Networks, data: QuestionData, pretrained: Iterable[bool] = (False,)
) -> list[QuestionModelConfig]:
    """The configurations of the requested networks, for some questions."""
    sizes = data.sizes(options.embedding) | {"dropout": options.dropout, "margin": options.margin}
    sizes["num_negatives"] = options.negatives
    if options.fields and not data.has_bodies():
        raise InputError(
            f"--fields goes with questions that have bodies, not {data.choice.dataset}"
        )
    usual = ASKUBUNTU_PARAMETERS if data.choice.dataset == "askubuntu" else PARAMETERS
    configs = []
    for encoder in options.models:
        config = QuestionModelConfig(
            encoder, encoder, POOLING[encoder], "title", False, hidden=options.hidden or 1, **sizes
        )
        with as_input_error():
            if not options.hidden:
                budget, count = options.parameters or usual, QuestionModelConfig.encoder_parameters
                sized = lambda hidden, one=config: replace(one, hidden=hidden)  # noqa: E731
                config = fit_hidden_size(encoder, sized, budget, count)
            number = count_parameters(partial(QuestionNet, config))
            check_parameters(encoder, config.hidden, number, "--hidden, --parameters, --embedding")
        poolings = options.pooling or (config.pooling,)
        for pt, pooling, field in product(pretrained, poolings, options.fields or FIELDS[1:]):
            name = f"{encoder}{'-pt' * pt}-{pooling}{'-title' * (field == 'title')}"
            configs.append(replace(config, name=name, pretrained=pt, pooling=pooling, fields=field))
    return configs


def pretraining_configs(models: Iterable[QuestionModelConfig]) -> list[QuestionModelConfig]:
    """One configuration for the pre-training of each encoder that needs it, named after it."""
    needed = {model.encoder: model for model in models if model.pretrained}
    poolings = {name: "mean" if name == "cnn" else "last" for name in needed}
    return [
        replace(model, name=name, pretrained=False, pooling=poolings[name], fields="title")
        for name, model in needed.items()
    ]
