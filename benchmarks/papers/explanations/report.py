"""The table, the pictures and the page of a study."""

import base64
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness.figures import picture_grid
from benchmarks.harness.files import write_text
from benchmarks.harness.study import Record
from benchmarks.harness.table import Table, one_line
from benchmarks.papers.explanations.sentences import Sentence
from pyg_kernels.explain import draw_molecule, draw_text, text_html
from pyg_kernels.molecules import MoleculeExplanation

PAGE = "explanations.html"
SENTENCE_FILES = "sentence-*.png"
FILES = ("planted.png", "molecules.png", PAGE, SENTENCE_FILES)
HEADER = ("method", "precision", "fid+", "fid-", "without", "alone", "s/molecule")
COLUMNS = 3  # of the picture of measured targets
PNG: dict[str, Any] = {"size": (420, 280), "file_format": "png"}
MEANS = ("precision", "fid+", "fid-", "change_without", "change_alone")


@dataclass(frozen=True)
class Drawn:
    """Molecules that are drawn."""

    title: str  # what is predicted
    found: MoleculeExplanation  # their attributions
    values: Sequence[float]  # what would be right


@dataclass(frozen=True)
class Findings:
    """All that a study found."""

    methods: Mapping[str, Sequence[Record]]  # the records of each method, one a molecule
    chance: float  # the precision of atoms drawn at random, in expectation
    evidence: Sequence[Tensor]  # (N,) bool of each drawn molecule of the planted target
    planted: Drawn  # these molecules
    measured: Drawn  # molecules with measured targets
    sentences: Sequence[Sentence]  # attributions of texts
    runs: Sequence[Record]  # records of what was trained, that of the planted target first


def means(records: Sequence[Record]) -> dict[str, float]:
    """The mean of each measure over molecules, of seconds the median."""
    found = {key: statistics.fmean(record[key] for record in records) for key in MEANS}
    return {**found, "seconds": statistics.median(record["seconds"] for record in records)}


def metrics(found: Findings) -> list[Record]:
    """One record a method, one of each trained network, one of each sentence."""
    methods = [
        {"method": name, "molecules": len(records), **means(records), "chance": found.chance}
        for name, records in found.methods.items()
    ]
    return [*methods, *found.runs, *(sentence.record() for sentence in found.sentences)]


def table(found: Findings) -> Table:
    """A row a method: precision, fidelity and time on the planted target."""
    run = found.runs[0]
    number = len(next(iter(found.methods.values())))
    rows = []
    for name, records in found.methods.items():
        precision, *shares, seconds = means(records).values()
        rows.append([name, f"{precision:.3f}", *(f"{x:.2f}" for x in shares), f"{seconds:.4f}"])
    caption = (
        f"{found.planted.title} in a molecule, predicted by {run['model']} "
        f"({run['num_parameters']:,} parameters, test RMSE {run['test']:.3f}, seed {run['seed']})\n"
        f"{number} test molecules that have the group; of each, as many atoms are selected as "
        "belong to it, those that raise the number most, or are the most important to methods "
        f"without a sign. precision: the share of these that do ({found.chance:.3f} by chance); "
        "fid+ and fid-: of PyG, how often the number nearest to the prediction changes without "
        "these atoms, and with them alone; without, alone: the mean change of the predicted "
        "number; s/molecule: the median"
    )
    return Table(caption, HEADER, rows)


def pictures(found: Findings) -> dict[str, Callable[[], Figure]]:
    """By the name of their file."""
    drawn: dict[str, Callable[[], Figure]] = {
        "planted.png": partial(planted_figure, found),
        "molecules.png": partial(measured_figure, found.measured),
    }
    for number, one in enumerate(found.sentences, start=1):
        shown = one.words, one.tokens, one.ngrams, one.gates, one.title
        drawn[f"sentence-{number}.png"] = partial(draw_text, *shown)
    return drawn


def planted_figure(results: Findings) -> Figure:
    """A row a molecule: the planted atoms, then what each method says; colours are each picture's
    own.
    """
    rows, found = [], results.planted.found
    for i, (smiles, evidence) in enumerate(zip(found.smiles, results.evidence, strict=True)):
        title = f"predicted {found.output[i]:.2f}, true {results.planted.values[i]:g}"
        row = [(title, draw_molecule(smiles, evidence.double(), **PNG))]
        for name, records in results.methods.items():
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


def write_page(out: Path, found: Findings) -> None:
    """Writes one HTML page that needs nothing besides itself, beside the pictures; those of
    sentences that are no longer shown are removed.
    """
    names = [f"sentence-{number}.png" for number in range(1, len(found.sentences) + 1)]
    for path in out.glob(SENTENCE_FILES):
        if path.name not in names:
            path.unlink()
    images = [base64.b64encode((out / name).read_bytes()).decode() for name in names]
    texts = [text_html(one.words, one.tokens, one.ngrams) for one in found.sentences]
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    sentences = list(zip(found.sentences, texts, images, strict=True))
    page = jinja2.Environment(autoescape=True).from_string(template)
    kinds = [found.planted, found.measured]
    write_text(out / PAGE, page.render(table=table(found), kinds=kinds, sentences=sentences))
