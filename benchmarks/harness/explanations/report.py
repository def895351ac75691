"""The table, the pictures and the page of a study."""

import base64
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness.explanations.sentences import Sentence
from benchmarks.harness.figures import picture_grid
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.summary import png
from benchmarks.harness.table import Table, one_line
from pyg_kernels.explain import draw_molecule, draw_text, text_html
from pyg_kernels.molecules import MoleculeExplanation

FILES = ("metrics.json", "table.md", "planted.png", "molecules.png", "explanations.html")
SENTENCE_FILES = "sentence-*.png"
HEADER = ("method", "precision", "fid+", "fid-", "without", "alone", "s/molecule")
COLUMNS = 3  # of the picture of measured targets
PIXELS = (420, 280)
MEANS = ("precision", "fid+", "fid-", "change without", "change alone")
Record = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """All that a study found.

    Args:
        about: The molecules and the planted target.
        records: Of each method, one a molecule.
        evidence: ``(N,)`` bool of each drawn molecule of the planted target.
        chance: The precision of atoms drawn at random, in expectation.
        planted: Attributions of these molecules.
        counts: Their planted targets.
        measured: Attributions of molecules with measured targets.
        values: These targets.
        sentences: Attributions of texts.
        runs: Records of what was trained.
        target: The measured target.
    """

    about: str
    records: Mapping[str, Sequence[Record]]
    evidence: Sequence[Tensor]
    chance: float
    planted: MoleculeExplanation
    counts: Sequence[float]
    measured: MoleculeExplanation
    values: Sequence[float]
    sentences: Sequence[Sentence]
    runs: Mapping[str, Record]
    target: str

    def metrics(self) -> Record:
        """What ``metrics.json`` holds."""
        methods = [
            {"method": name, "molecules": len(records), **means(records)}
            for name, records in self.records.items()
        ]
        return {
            "methods": methods,
            "chance": self.chance,
            "runs": dict(self.runs),
            "sentences": [sentence.record() for sentence in self.sentences],
        }


def means(records: Sequence[Record]) -> dict[str, float]:
    """The mean of each measure over molecules, of seconds the median."""
    found = {key: statistics.fmean(record[key] for record in records) for key in MEANS}
    return {**found, "seconds": statistics.median(record["seconds"] for record in records)}


def table(results: Results) -> Table:
    """A row a method: precision, fidelity and time on the planted target."""
    run = results.runs["planted"]
    number = len(next(iter(results.records.values())))
    rows = []
    for name, records in results.records.items():
        mean = means(records)
        shares = [f"{mean[key]:.2f}" for key in MEANS[1:]]
        rows.append([name, f"{mean['precision']:.3f}", *shares, f"{mean['seconds']:.4f}"])
    caption = (
        f"{results.about} in a molecule, predicted by {run['model']} "
        f"({run['num_parameters']:,} parameters, test RMSE {run['test']:.3f}, seed {run['seed']})\n"
        f"{number} test molecules that have the group; of each, as many atoms are selected as "
        "belong to it, those that raise the number most, or are the most important to methods "
        f"without a sign. precision: the share of these that do ({results.chance:.3f} by chance); "
        "fid+ and fid-: of PyG, how often the number nearest to the prediction changes without "
        "these atoms, and with them alone; without, alone: the mean change of the predicted "
        "number; s/molecule: the median"
    )
    return Table(caption, HEADER, rows)


def write_report(out: Path, results: Results) -> None:
    """Writes `FILES` and ``sentence-N.png``; pictures of other sentences are removed."""
    for path in out.glob(SENTENCE_FILES):
        path.unlink()
    write_text(out / "metrics.json", json.dumps(results.metrics(), indent=1))
    write_text(out / "table.md", f"{table(results).markdown()}\n")
    with matplotlib.rc_context({"text.parse_math": False}):
        write_bytes(out / "planted.png", png(planted_figure(results)))
        write_bytes(out / "molecules.png", png(measured_figure(results)))
        pictures = [png(sentence_figure(sentence)) for sentence in results.sentences]
    for number, picture in enumerate(pictures, start=1):
        write_bytes(out / f"sentence-{number}.png", picture)
    write_text(out / "explanations.html", page(results, pictures))


def planted_figure(results: Results) -> Figure:
    """A row a molecule: the planted atoms, then what each method says; colours are each picture's
    own.
    """
    rows, found = [], results.planted
    for i, (smiles, evidence) in enumerate(zip(found.smiles, results.evidence, strict=True)):
        title = f"predicted {found.output[i]:.2f}, true {results.counts[i]:g}"
        row = [(title, drawn(smiles, evidence.double()))]
        for name, records in results.records.items():
            walks = name == "walks"
            nodes = torch.tensor(records[i]["nodes"])
            options = {"size": PIXELS, "file_format": "png"}
            row.append((name, found.draw(i, **options) if walks else drawn(smiles, nodes)))
        rows.append(row)
    return picture_grid(rows)


def measured_figure(results: Results) -> Figure:
    """Molecules with a measured target, atoms and bonds coloured on one scale."""
    found = results.measured
    options = {"scale": common_scale(found), "size": PIXELS, "file_format": "png"}
    cells = [
        (
            f"{one_line(results.target)}: predicted {found.output[i]:.2f}, measured "
            f"{results.values[i]:.2f}",
            found.draw(i, **options),
        )
        for i in range(len(found))
    ]
    return picture_grid([cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)])


def sentence_figure(sentence: Sentence) -> Figure:
    """Words, best n-grams and gates of a text."""
    return draw_text(
        sentence.words, sentence.tokens, sentence.ngrams, sentence.gates, sentence.title()
    )


def common_scale(found: MoleculeExplanation) -> float | None:
    """The largest share of all atoms and bonds; None where there is none."""
    sizes = [abs(parts).max() for parts in (*found.atoms, *found.bonds) if len(parts)]
    return (float(max(sizes)) or None) if sizes else None


def drawn(smiles: str, nodes: Tensor) -> bytes:
    """A molecule with coloured atoms as the content of a PNG file."""
    return draw_molecule(smiles, nodes, size=PIXELS, file_format="png")


def page(results: Results, pictures: Sequence[bytes]) -> str:
    """One HTML page that needs nothing besides itself.

    Args:
        results: What a study found.
        pictures: PNG files of its sentences.
    """
    sentences = [
        {
            "title": sentence.title(),
            "html": text_html(sentence.words, sentence.tokens, sentence.ngrams),
            "picture": base64.b64encode(picture).decode(),
        }
        for sentence, picture in zip(results.sentences, pictures, strict=True)
    ]
    kinds = [
        (results.about, _molecules(results.planted, results.counts)),
        (one_line(results.target), _molecules(results.measured, results.values)),
    ]
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    made = jinja2.Environment(autoescape=True).from_string(template)
    return made.render(table=table(results), kinds=kinds, sentences=sentences)


def _molecules(found: MoleculeExplanation, values: Sequence[float]) -> list[Record]:
    scale = common_scale(found)
    shown = []
    for i in range(len(found)):
        svg = found.draw(i, scale=scale, size=PIXELS).decode()
        walks = [f"{'-'.join(map(str, atoms))}: {value:+.3f}" for atoms, value in found.walks[i]]
        shown.append(
            {
                "svg": svg[svg.index("<svg") :],
                "smiles": found.smiles[i],
                "sums": f"predicted {found.output[i]:.3f}, true {values[i]:g}: atoms "
                f"{found.atoms[i].sum():+.3f}, the rest {found.constant[i]:+.3f}",
                "walks": "; ".join(walks),
            }
        )
    return shown
