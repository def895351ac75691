"""Rationales as tasks of the harness: of texts, of molecules and of similar questions."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from markupsafe import Markup
from torch import Tensor

from benchmarks.corpora.annotated_texts import AnnotatedTexts
from benchmarks.corpora.beer_advocate import BeerAdvocate
from benchmarks.corpora.planted_evidence import PlantedEvidence
from benchmarks.corpora.published_text import fingerprint as fingerprint_of
from benchmarks.harness.errors import as_input_error, naming_extras
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval.data import (
    QuestionData,
    load_questions,
    question_batches,
    ranked_pairs,
)
from benchmarks.harness.retrieval.options import Questions
from benchmarks.harness.retrieval.report import describe
from benchmarks.harness.retrieval.task import RetrievalTask
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Batches, Task
from benchmarks.harness.text.data import text_batches
from benchmarks.harness.words import Words, read_words, vector_file
from benchmarks.rationales.learner import (
    READINGS,
    ClassGoal,
    NumberGoal,
    RankingGoal,
    RationaleLearner,
)
from benchmarks.rationales.networks import SELECTED, ModelConfig, SelectingNet, network
from benchmarks.rationales.options import (
    ASPECTS,
    ATTENTION,
    MOLECULES,
    QUESTIONS,
    READERS,
    SELECTING,
    SVM,
    TITLE,
    Rationales,
)
from benchmarks.rationales.selections import CURVE, marked_words, precision, spans_text, top_share
from benchmarks.rationales.svm import SVMEstimator
from pyg_kernels.datasets.text import EncodedTexts, TextLoader

BODY = "body"
NEGATIVES = 20  # random questions for each similar one, drawn anew each epoch
THIOPHENE = "c1ccsc1"


class RationaleTask(Task):
    """Prediction from a part of the input."""

    about: str  # lines on the data
    longest: int  # words or atoms of the largest item
    fields: dict[str, Any]  # fields of configurations on inputs and outputs
    validation: dict[str, Any]  # arguments of learners: right answers and their evidence
    bodies = True  # whether questions have bodies
    words: Words | None = None  # of texts and questions

    def models(self, options: Rationales) -> list[ModelConfig]:
        chosen = options.chosen()
        common = {name: getattr(chosen, name) for name in ("hidden", "layers", "dropout")}
        selecting = {name: getattr(chosen, name) for name in ("estimator", "coherence", "samples")}
        selecting["warm_up"] = options.warm_up
        found = []
        for name, kind, rate in options.variants():
            reads = BODY if self.bodies and kind != TITLE else TITLE
            # Models that ignore these options are the same for all their values.
            own = dict(selecting) if kind in SELECTING else {}
            if kind not in READERS:
                own["rate"] = rate
            found.append(ModelConfig(name, kind, fields=reads, **common, **self.fields, **own))
        with as_input_error():
            for config in (each for each in found if each.kind != SVM):
                number = count_parameters(partial(network, config))
                flags = "--hidden, --layers, --embedding"
                check_parameters(config.name, config.hidden, number, flags)
        return found

    def learner(self, model: ModelConfig, optimizer: OptimizerConfig) -> RationaleLearner:
        words = [] if self.words is None else self.words.vocabulary.words[2:]
        given = {"optimizer": asdict(optimizer), "longest": self.longest, **self.validation}
        learner = RationaleLearner(asdict(model), words, **given)
        if self.words is not None and learner.net.embedding is not None:
            self.words.start(learner.net.embedding)
        return learner

    def details(self, model: ModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        """The kind of a network, the share that it is to select, and the price of a word."""
        details: dict[str, Any] = {"kind": model.kind}
        if isinstance(learner.net, SelectingNet):
            details |= {name: getattr(model, name) for name in ("estimator", "rate", "coherence")}
            details["sparsity"] = learner.net.rationalizer.sparsity
        return details | ({"rate": model.rate} if model.kind == ATTENTION else {})


def word_sizes(words: Words, options: Rationales) -> dict[str, Any]:
    """The fields of a network's configuration on its words."""
    sizes = words.sizes(options.embedding)
    return {"input_size": sizes.pop("embedding_dim"), **sizes}


class ItemRationales(RationaleTask):
    """Prediction from some of the N words or atoms of each of M texts or molecules, which a
    subclass reads; a run's measure is its error from these alone.
    """

    kind: ClassVar[str]  # texts or molecules
    unit: ClassVar[str]  # of selections
    y: Tensor  # (M,) numbers of classes, or float64 in their own units
    classes: Sequence[str] = ()  # empty if a number is predicted
    evidence: Sequence[Tensor | None]  # for each item (N,) bool, whether a word or atom says y
    lines: Sequence[str]  # each item as text: words with spaces between, or SMILES
    lengths: Tensor  # (M,) int64 words or atoms
    # batches of positions; bucket: groups items of similar length
    loader: Callable[..., Any]

    def __init__(self, sizes: Mapping[str, Any], about: str) -> None:
        """`sizes`: the fields of a network's configuration on its inputs; `about`: a line."""
        self.longest, self.about = int(self.lengths.max()), f"{self._describe()}\n{about}"
        self.fields = {"inputs": self.kind, "out": max(1, len(self.classes)), **sizes}
        self.goal = ClassGoal()
        if not self.classes:
            values = self.right("train").double()
            # Numbers that do not vary need no scale.
            scale = {"mean": float(values.mean()), "std": float(values.std(correction=0)) or 1.0}
            self.goal = NumberGoal(**scale)
            self.fields |= scale
        self.measure = self.goal.measure
        self.validation = {"right": self.right("valid"), "classes": list(self.classes)}
        self.validation["evidence"] = self.evidence_of("valid")

    @abstractmethod
    def marked(self, place: int, chosen: Tensor) -> Markup:
        """One item as HTML, with the selection in colour, and evidence if it is known."""

    def _describe(self) -> str:
        """Lines on items and parts, and on evidence."""
        sizes = ", ".join(f"{len(self.parts[part]):,} {part}" for part in PARTS)
        about = f"{self.dataset}: {len(self.y):,} {self.kind}, {self.split}: {sizes}"
        evidence, number = f"which {self.unit} say it is not known", self.num_annotated("test")
        if number:
            marks, known = self.evidence_of("test")
            share, all_known = marks[known].double().mean(), bool(known.all())
            some = "" if all_known else f"{number:,} {self.kind} with evidence of the "
            evidence = f"{100 * share:.1f}% of the {self.unit} of the {some}test part say it"
        return f"{about}\n{self.lengths.double().mean():.1f} {self.unit} each; {evidence}"

    def texts(self, part: str) -> list[list[str]]:
        return [self.lines[place].split(" ") for place in self.parts[part].tolist()]

    def right(self, part: str) -> Tensor:
        return self.y[self.parts[part]]

    def num_annotated(self, part: str) -> int:
        """The items of a part whose evidence is known."""
        return sum(self.evidence[place] is not None for place in self.parts[part].tolist())

    def evidence_of(self, part: str) -> tuple[Tensor, Tensor]:
        """The evidence of a part, item after item, and whether it is known, both ``(N,)`` bool."""
        places = self.parts[part].tolist()
        each = [(self.evidence[place], int(self.lengths[place])) for place in places]
        found = [torch.zeros(n, dtype=torch.bool) if marks is None else marks for marks, n in each]
        known = [torch.full((n,), marks is not None) for marks, n in each]
        return torch.cat(found), torch.cat(known)

    def estimator(self, model: ModelConfig) -> SVMEstimator | None:
        return SVMEstimator(self, model.rate) if model.kind == SVM else None

    def batches(self, learner: RationaleLearner, batch_size: int, seed: int) -> Batches:
        return text_batches(self.parts, self.loader, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The errors of each part: from rationales, from everything and from the rest.

        Then, in percent: shares and precisions of the valid and test parts, precisions only if
        evidence is known and something is selected; and, if words have scores, precisions of the
        test part at several shares.
        """
        found: dict[str, float | None] = {}
        for number, reading in enumerate(READINGS):
            for part in PARTS:
                error = self.goal.error(predictions[part][:, number], self.right(part))
                found[part if not number else f"{part}_{reading}"] = error
        for part in ("valid", "test"):
            scores, evidence = self._scores_of(part, predictions[part]), self.evidence_of(part)
            found[f"{part}_share"] = 100 * float((scores >= SELECTED).double().mean())
            found[f"{part}_precision"] = precision(scores >= SELECTED, *evidence)
        if bool(((scores != 0) & (scores != 1)).any()):  # not mere selections
            ptr = F.pad(self.lengths[self.parts["test"]].cumsum(0), (1, 0))
            for key, share in CURVE.items():
                found[key] = precision(top_share(scores, share, ptr), *evidence)
        return {key: value for key, value in found.items() if value is not None}

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each item: the right answer, the answer from each reading, and the selection."""
        places, sizes = self.parts[part].tolist(), self.lengths[self.parts[part]].tolist()
        chosen = (self._scores_of(part, predictions) >= SELECTED).split(sizes)
        columns = [self.right(part).tolist(), *predictions[:, :3].t().tolist()]
        keys = ("y", "prediction", "full", "rest")
        if self.classes:
            keys = ("label", "predicted", "full", "rest")
            columns = [[self.classes[int(k)] for k in column] for column in columns]
        return {
            "row": places,
            "text": [self.lines[place] for place in places],
            **dict(zip(keys, columns, strict=True)),
            "selection": list(map(spans_text, chosen)),
        }

    def _scores_of(self, part: str, predictions: Tensor) -> Tensor:
        """The scores of all items of a part, one item after the other, ``(N,)``."""
        lengths = self.lengths[self.parts[part]]
        return predictions[:, len(READINGS) :][torch.arange(self.longest) < lengths.unsqueeze(1)]


class TextRationales(ItemRationales):
    """Texts, of which some words are selected."""

    kind, unit = "texts", "words"
    words: Words

    def __init__(self, options: Rationales) -> None:
        with as_input_error():
            corpus = _corpus(options)
            self.words = read_words(corpus, vector_file(options.folder, options.vectors))
            encoded = EncodedTexts(*self.words.vocabulary.encode(corpus.texts), corpus.y)
            sizes = word_sizes(self.words, options)
        self.data, self.dataset, self.split = self.words, options.dataset, corpus.split
        self.parts, self.y, self.classes = corpus.parts, corpus.y, corpus.classes
        self.evidence, self.lengths = corpus.evidence, encoded.lengths
        self.lines = [" ".join(words) for words in corpus.texts]
        self.loader = partial(TextLoader, encoded)
        super().__init__(sizes, self.words.describe_vectors(options.vectors))

    def marked(self, place: int, chosen: Tensor) -> Markup:
        return marked_words(self.lines[place].split(" "), chosen, self.evidence[place])


def _corpus(options: Rationales) -> Any:
    """The texts, with the target of each."""
    root, seed = Path(options.folder), options.split_seed
    if options.dataset == "beer":
        return BeerAdvocate(root, ASPECTS.index(options.aspect or ASPECTS[0]))
    if options.dataset == "planted":
        return PlantedEvidence(root / "mr", root / "trec", seed=seed)
    names = ("target_column", "evidence_column", "task", "encoding")
    own: dict[str, Any] = {name: getattr(options, name) for name in names}
    own["text_columns"] = options.text_column or ("text",)
    return AnnotatedTexts(*options.data, seed=seed, **own)


class MoleculeRationales(ItemRationales):
    """Molecules of the ChEMBL assay, or of CEP if a folder is named, of which some atoms are
    selected.
    """

    kind, unit = "molecules", "atoms"

    def __init__(self, options: Rationales) -> None:
        with naming_extras("bench,mol"), as_input_error():
            from benchmarks.corpora.planted_substructure import ARYL_FLUORIDE, planted_substructure
            from pyg_kernels.datasets import CEP, ChEMBLSulfonamides, random_split

            molecules: Any = CEP(options.folder) if options.folder else ChEMBLSulfonamides()
            self.evidence = [None] * len(molecules)
            if options.dataset == "molecules":
                smarts = options.smarts or (THIOPHENE if options.folder else ARYL_FLUORIDE)
                molecules, self.evidence = planted_substructure(molecules, smarts)
            seed = options.split_seed
            parts = random_split(len(molecules), seed=seed)
        self.dataset, self.split = options.dataset, f"random split (seed {seed})"
        self.molecules, self.parts = molecules, dict(zip(PARTS, parts, strict=True))
        self.y, self.lines = molecules.targets[:, 0], molecules.smiles
        self.lengths, one = molecules.slices["atom_codes"].diff(), molecules[0]
        sizes = {"input_size": one.x.size(1), "edge_dim": one.edge_attr.size(1)}
        super().__init__(sizes, f"predicted: {molecules.target_names[0]}")

    def identity(self) -> dict[str, Any]:
        digest = fingerprint_of(self.lines, self.y, *self.parts.values())
        return {"number": len(self.y), "digest": digest}

    def loader(self, places: Tensor, batch_size: int, bucket: int = 1, **more: Any) -> Any:
        from pyg_kernels.datasets import MoleculeLoader

        return MoleculeLoader(self.molecules, places, batch_size, **more)

    def marked(self, place: int, chosen: Tensor) -> Markup:
        svg = Markup(self.drawn(place, chosen).decode().partition("?>")[2])
        known = self.evidence[place]
        if known is None:
            return svg
        atoms = ", ".join(map(str, known.nonzero().flatten().tolist())) or "none"
        return svg + Markup("<p>Atoms that say it: {}</p>").format(atoms)

    def drawn(self, place: int, chosen: Tensor, **options: Any) -> bytes:
        """The drawing of a molecule, with selected atoms in colour."""
        from pyg_kernels.explain.pictures import draw_molecule

        return draw_molecule(self.lines[place], chosen.double(), scale=1.0, **options)


class RankingRationales(RationaleTask):
    """The ranking of candidates by some words of each question, measured by MAP in percent.

    Words are selected from the body, or from the title if questions have no bodies.
    """

    measure = RankingGoal.measure

    def __init__(self, options: Rationales) -> None:
        names = ("data", "vectors", "split_seed", "leave_out")
        given = {name: getattr(options, name) for name in names}
        data: QuestionData = load_questions(Questions(root=options.folder, **given))
        self.data = self.words = data
        self.ranking, self.bodies = RetrievalTask(data), data.has_bodies()
        self.dataset, self.split = self.ranking.dataset, self.ranking.split
        self.parts, self.relevance = self.ranking.parts, self.ranking.relevance
        self.longest, self.about = int(data.texts.lengths.max()), describe(data)
        self.validation = {"right": self.relevance["valid"], "classes": []}
        words = word_sizes(data, options)
        self.fields = {"inputs": "questions", "out": options.chosen().hidden, **words}

    def batches(self, learner: RationaleLearner, batch_size: int, seed: int) -> Batches:
        """Similar questions with random others, and candidates to rank, in the field to read."""
        data = self.data
        if learner.net.config.fields == BODY:  # bodies stand where titles do
            number = len(data.corpus)
            swapped = data.texts.batch(torch.arange(2 * number).roll(number))
            data = replace(data, texts=EncodedTexts(*swapped))
        return question_batches(data, TITLE, NEGATIVES, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """MAP of each part; for the parts to rank, also the other measures and the word share."""
        cosines = {part: found[:, 0] for part, found in predictions.items()}
        shares = {f"{p}_share": 100 * self._share(p, predictions[p]) for p in ("valid", "test")}
        return self.ranking.scores(cosines, self.measure.key) | shares

    def details(self, model: ModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        return {"fields": model.fields, **super().details(model, learner)}

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each pair: whether it is similar, its cosine, and the selections of both texts."""
        query, candidate = (predictions[:, 1:] >= SELECTED).split(self.longest, dim=1)
        return {
            **self.ranking.rows(part, predictions[:, 0]),
            "query_selection": list(map(spans_text, query)),
            "candidate_selection": list(map(spans_text, candidate)),
        }

    def _share(self, part: str, predictions: Tensor) -> float:
        """The selected share of all words in titles and bodies of a part's questions."""
        questions = ranked_pairs(self.data.rankings[part]).flatten()
        sizes = (predictions[:, 1:] >= SELECTED).view(len(questions), -1).sum(dim=1)
        distinct, inverse = questions.unique(return_inverse=True)
        # A question is read in the same way in every pair.
        selected = torch.zeros(len(distinct), dtype=torch.long)
        selected[inverse] = sizes
        lengths = self.data.texts.lengths
        words = lengths[distinct] + lengths[distinct + len(self.data.corpus)]
        return float(selected.sum() / words.sum())


def task_of(options: Rationales) -> ItemRationales | RankingRationales:
    """Reads the requested data; returns their task."""
    if options.dataset in QUESTIONS:
        return RankingRationales(options)
    kind = MoleculeRationales if options.dataset in MOLECULES else TextRationales
    return kind(options)
