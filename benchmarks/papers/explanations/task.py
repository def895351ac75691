"""Reading, training and explaining, each training and each explanation as a cell of a study; and
the table, the pictures and the page of the findings.
"""

import base64
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.explain import Explainer

from benchmarks.corpora.planted_substructure import planted_substructure
from benchmarks.harness.checkpoint import load_finished, naming_damage
from benchmarks.harness.devices import torch_device
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.figures import picture_grid
from benchmarks.harness.files import write_text
from benchmarks.harness.study import RUNS, Record, Report
from benchmarks.harness.table import Table, one_line
from benchmarks.harness.text.data import load_texts
from benchmarks.harness.text.options import Texts
from benchmarks.harness.text.task import TextClassifier
from benchmarks.harness.training import BEST
from benchmarks.molecules.data import MoleculeSet, Split, load_set
from benchmarks.molecules.models import models_of
from benchmarks.molecules.options import Options as Comparison
from benchmarks.molecules.runs import Cell as Fitting
from benchmarks.papers.explanations import measures
from benchmarks.papers.explanations.options import METHODS, SMARTS, Explanations
from pyg_kernels.explain import draw_molecule, draw_text, text_html
from pyg_kernels.molecules import MoleculeExplanation, load
from pyg_kernels.molecules.runs import Run

MODEL, PLANTED, MEASURED, TEXTS = "model", "planted", "measured", "texts"
BEST_WALKS = 8
LEARNING_RATE = 0.005
EPOCHS, CEP_EPOCHS = 30, 8
PAGE = "explanations.html"
SENTENCE_FILES = "sentence-*.png"
FILES = ("planted.png", "molecules.png", PAGE, SENTENCE_FILES)
HEADER = ("method", "precision", "fid+", "fid-", "without", "alone", "s/molecule")
COLUMNS = 3  # of the picture of measured targets
PNG: dict[str, Any] = {"size": (420, 280), "file_format": "png"}
MEANS = ("precision", "fid+", "fid-", "change_without", "change_alone")


@dataclass(frozen=True)
class Cell:
    """A network to train, or a molecule to explain."""

    name: str  # of its folder
    title: str  # what is shown of it
    compute: Callable[[Path], Record]  # returns its record, and may leave files in the folder


@dataclass(frozen=True)
class Drawn:
    """Molecules that a picture shows."""

    title: str  # what is predicted
    found: MoleculeExplanation  # their attributions
    values: Sequence[float]  # the true values


class Task:
    """All that is read before anything is trained, and the steps that follow."""

    def __init__(self, options: Explanations, out: Path) -> None:
        self.options, self.runs, self.device = options, out / RUNS, torch_device(options.device)
        names = ("smiles_column", "target_columns", "skip_invalid")
        read = self._comparison(**{name: getattr(options, name) for name in names})
        self.measured = load_set(options.data, read).split("random", None)
        self.target: str = self.measured.data.source.target_names[0]
        self.given = None if options.run is None else given_run(options.run, self.target)
        if self.given is not None:
            places = spread_places(self.measured, 1)
            _drawn(self.target, self.given.estimator, self.measured, places)
        self.texts, self.words = None, []
        if options.text_root is not None:
            self.texts = load_texts(Texts(data=("sst-binary",), root=options.text_root))
            self.words = measures.chosen_texts(options.sentences, self.texts, options.drawn)
        self.smarts = options.smarts or SMARTS[options.data]
        self.planted, self.evidence = planted(self.measured, self.smarts)
        most, seed = options.molecules, options.seed
        self.places = places_with_evidence(self.planted, self.evidence, most, seed)

    def identity(self) -> dict[str, str | None]:
        """Fingerprints of molecules, texts and the network of ``--run``."""
        return {
            "molecules": self.measured.digest,
            "planted target": self.planted.digest,
            "texts": None if self.texts is None else self.texts.identity()["digest"],
            "network of --run": None if self.given is None else self.given.digest()[:16],
        }

    def cells(self) -> list[Cell]:
        found = [Cell(PLANTED, "training on the planted target", self._train)]
        for method, place in product(self.options.methods, self.places):
            title, explain = f"{method}, molecule {place}", partial(self._explain, method, place)
            found.append(Cell(f"{method}-{place}", title, explain))
        if self.given is None:
            found.append(Cell(MEASURED, "training on the measured target", self._train))
        if self.texts is not None:
            found.append(Cell(TEXTS, "training on texts", self._train_texts))
        return found

    def results(self, records: Sequence[Record]) -> tuple[Report, list[Record]]:
        """What shows all records in the folder, without those of unfinished methods: a report, and
        one record for each method, each trained network and each sentence.
        """
        by_name = {record["cell"]: record for record in records}
        if not by_name.keys() >= {cell.name for cell in self.cells()}:
            raise InputError("the study is not finished; continue with --resume")
        names = {method: [f"{method}-{place}" for place in self.places] for method in METHODS}
        done = [method for method in METHODS if by_name.keys() >= set(names[method])]
        methods: dict[str, list[Record]]
        methods = {method: [by_name[cell] for cell in names[method]] for method in done}
        runs = [by_name[name] for name in (PLANTED, MEASURED, TEXTS) if name in by_name]
        chance = float(np.mean([self.evidence[i].double().mean() for i in self.places]))
        places = self.places[: self.options.drawn]
        about = f"{self.options.data}: the number of {self.smarts}"
        planted = _drawn(about, self._estimator, self.planted, places)
        evidence = [self.evidence[place] for place in places]
        estimator = self.given.estimator if self.given else _trained(self.runs / MEASURED)
        chosen = spread_places(self.measured, self.options.drawn)
        measured = _drawn(self.target, estimator, self.measured, chosen)
        sentences = []
        if self.texts is not None:
            classifier = load_finished(self.runs / TEXTS / BEST, TextClassifier)
            sentences = [measures.attributed(classifier, words) for words in self.words]

        compared = table(about, methods, chance, runs[0])
        drawn: dict[str, Callable[[], Figure]] = {
            "planted.png": partial(planted_figure, planted, evidence, methods),
            "molecules.png": partial(measured_figure, measured),
        }
        for number, one in enumerate(sentences, start=1):
            shown = one.words, one.tokens, one.ngrams, one.gates, one.title
            drawn[f"sentence-{number}.png"] = partial(draw_text, *shown)
        page = partial(write_page, table=compared, kinds=[planted, measured], sentences=sentences)
        metrics = [
            {"method": name, "molecules": len(own), **means(own), "chance": chance}
            for name, own in methods.items()
        ]
        metrics += [*runs, *(sentence.record() for sentence in sentences)]
        return Report([compared], drawn, page), metrics

    @cached_property
    def _estimator(self) -> Any:
        return _trained(self.runs / PLANTED)

    @cached_property
    def _number_net(self) -> measures.NumberNet:
        (member,) = self._estimator.members_
        net = member.net.net.to(self.device)
        return measures.NumberNet(net, float(member.mean[0]), float(member.std[0]))

    @cached_property
    def _explainers(self) -> dict[str, Explainer]:
        """The explainers, each after a first molecule, so that no time counts one-time work."""
        found: dict[str, Explainer] = {
            name: measures.explainer_of(name, self._number_net.net) for name in self.options.methods
        }
        first = self.planted.data.source[self.places[0]].to(self.device)
        for explainer in found.values():
            measures.explain(explainer, first, self.options.seed)
        return found

    def _comparison(self, **options: Any) -> Comparison:
        given = self.options
        return Comparison(data=(given.data,), root=given.root, device=given.device, **options)

    def _train(self, folder: Path) -> Record:
        options, name = self.options, folder.name
        split = self.planted if name == PLANTED else self.measured
        epochs = options.epochs or (CEP_EPOCHS if options.data == "cep" else EPOCHS)
        sizes = {name: getattr(options, name) for name in ("hidden", "layers", "norm")}
        sizes |= {"model": (options.model,), "epochs": epochs, "lr": LEARNING_RATE}
        (model,) = models_of(self._comparison(**sizes), split, options.data)
        run = Fitting(split, model, options.seed)
        estimator, seconds = run.fit(options.show() == "bar")
        estimator.save(folder / MODEL, overwrite=True)
        return {"cell": name, **run.record(estimator, run.predictions(estimator), seconds)}

    def _train_texts(self, folder: Path) -> Record:
        assert self.texts is not None
        options = self.options
        shown = {"device": options.device, "show": options.show()}
        found = measures.train_classifier(self.texts, options.seed, folder, **shown)
        return {"cell": TEXTS, **found}

    def _explain(self, method: str, place: int, folder: Path) -> Record:
        molecule, evidence = self.planted.data.source[place].to(self.device), self.evidence[place]
        explainer, seed = self._explainers[method], self.options.seed + place
        nodes, seconds = measures.explain(explainer, molecule, seed)
        selected = measures.selected_atoms(nodes, int(evidence.sum()))
        most = int(self.planted.data.targets.max())
        return {
            "cell": f"{method}-{place}",
            "smiles": molecule.smiles,
            "precision": evidence[selected].double().mean().item(),
            **measures.fidelities(self._number_net, most, molecule, selected),
            "seconds": seconds,
            "nodes": nodes.tolist(),
        }


def _trained(run: Path) -> Any:
    """The estimator that a finished training left."""
    with naming_damage(run / MODEL, run):
        return load(run / MODEL)


def planted(measured: Split, smarts: str) -> tuple[Split, list[Tensor]]:
    """The same molecules with the number of a group as their target, split at random; and for each
    molecule, ``(N,)`` bool, which atoms belong to the group.
    """
    with as_input_error():
        source, evidence = planted_substructure(measured.data.source, smarts)
    return MoleculeSet(PLANTED, source, "rmse").split("random", None), evidence


def places_with_evidence(
    split: Split, evidence: Sequence[Tensor], number: int, seed: int
) -> list[int]:
    """Positions of test molecules that have the group, drawn at random if there are more."""
    places = [int(i) for i in split.parts["test"] if evidence[i].any()]
    if not places:
        raise InputError("no molecule of the test part has the group of --smarts")
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
    return sorted(places[i] for i in order[:number].tolist())


def spread_places(split: Split, number: int) -> list[int]:
    """Positions of test molecules spread from the smallest to the largest first target."""
    y = split.targets("test")[:, 0]
    order = split.parts["test"][~np.isnan(y)][y[~np.isnan(y)].argsort()]
    chosen = np.linspace(0, len(order) - 1, min(number, len(order))).round().astype(int)
    return [int(place) for place in order[chosen]]


def given_run(path: str, target: str) -> Run:
    """The finished run that ``--run`` names."""
    try:
        run = Run(path, trust=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"--run {path} is no finished run: {error}") from error
    found = run.names[0]
    if found != target:
        raise InputError(f"--run {path} was trained on the target {found!r}, not on {target!r}")
    if run.classes:
        raise InputError(f"--run {path} classifies, but {target!r} is a number here")
    return run


def _drawn(title: str, estimator: Any, split: Split, places: Sequence[int]) -> Drawn:
    """The exact shares of atoms, bonds and walks of some molecules."""
    with as_input_error():
        found = estimator.explain([split.data.source.smiles[i] for i in places], k=BEST_WALKS)
    return Drawn(title, found, [float(split.data.targets[i, 0]) for i in places])


def means(records: Sequence[Record]) -> dict[str, float]:
    """The mean of each measure over molecules; for seconds, the median."""
    found = {key: statistics.fmean(record[key] for record in records) for key in MEANS}
    return {**found, "seconds": statistics.median(record["seconds"] for record in records)}


def table(about: str, methods: Mapping[str, Sequence[Record]], chance: float, run: Record) -> Table:
    """One row per method: precision, fidelity and time on the planted target."""
    number = len(next(iter(methods.values())))
    rows = []
    for name, records in methods.items():
        precision, *shares, seconds = means(records).values()
        rows.append([name, f"{precision:.3f}", *(f"{x:.2f}" for x in shares), f"{seconds:.4f}"])
    caption = (
        f"{about} in a molecule, predicted by {run['model']} "
        f"({run['num_parameters']:,} parameters, test RMSE {run['test']:.3f}, seed {run['seed']})\n"
        f"{number} test molecules that have the group; of each, as many atoms are selected as "
        "belong to it, those that raise the number most, or are the most important to methods "
        f"without a sign. precision: the share of these that do ({chance:.3f} by chance); "
        "fid+ and fid-: of PyG, how often the number nearest to the prediction changes without "
        "these atoms, and with them alone; without, alone: the mean change of the predicted "
        "number; s/molecule: the median"
    )
    return Table(caption, HEADER, rows)


def planted_figure(
    molecules: Drawn, planted: Sequence[Tensor], methods: Mapping[str, Sequence[Record]]
) -> Figure:
    """One row per molecule: the planted atoms, then the values of each method. Each picture has its
    own scale of colours.
    """
    rows, found = [], molecules.found
    for i, (smiles, evidence) in enumerate(zip(found.smiles, planted, strict=True)):
        title = f"predicted {found.output[i]:.2f}, true {molecules.values[i]:g}"
        row = [(title, draw_molecule(smiles, evidence.double(), **PNG))]
        for name, records in methods.items():
            if name == "walks":  # with bonds
                row.append((name, found.draw(i, **PNG)))
            else:
                row.append((name, draw_molecule(smiles, records[i]["nodes"], **PNG)))
        rows.append(row)
    return picture_grid(rows)


def measured_figure(molecules: Drawn) -> Figure:
    """Molecules with a measured target, atoms and bonds coloured on one scale."""
    found, title, cells = molecules.found, one_line(molecules.title), []
    shares = [abs(part).max() for part in (*found.atoms, *found.bonds) if len(part)]
    scale = float(max(shares, default=0)) or None
    for i, value in enumerate(molecules.values):
        said = f"{title}: predicted {found.output[i]:.2f}, measured {value:.2f}"
        cells.append((said, found.draw(i, scale=scale, **PNG)))
    return picture_grid([cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)])


def write_page(
    out: Path, table: Table, kinds: Sequence[Drawn], sentences: Sequence[measures.Sentence]
) -> None:
    """Writes one self-contained HTML page beside the pictures, and removes the pictures of
    sentences that are no longer shown.
    """
    names = [f"sentence-{number}.png" for number in range(1, len(sentences) + 1)]
    for path in out.glob(SENTENCE_FILES):
        if path.name not in names:
            path.unlink()
    images = [base64.b64encode((out / name).read_bytes()).decode() for name in names]
    texts = [text_html(one.words, one.tokens, one.ngrams) for one in sentences]
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    shown = list(zip(sentences, texts, images, strict=True))
    page = jinja2.Environment(autoescape=True).from_string(template)
    write_text(out / PAGE, page.render(table=table, kinds=kinds, sentences=shown))
