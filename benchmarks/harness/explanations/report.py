"""The table, the pictures and the page of a study."""

import base64
import html
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness.explanations.attributions import Attribution
from benchmarks.harness.explanations.comparison import MEASURES
from benchmarks.harness.explanations.sentences import Sentence
from benchmarks.harness.explanations.setting import Setting
from benchmarks.harness.figures import picture_grid
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.summary import png
from benchmarks.harness.table import Table, one_line
from pyg_kernels.explain import draw_molecule, draw_text, text_html

FILES = ("metrics.json", "table.md", "planted.png", "molecules.png", "explanations.html")
SENTENCE_FILES = "sentence-*.png"
HEADER = ("method", "precision", "fid+", "fid-", "without", "alone", "s/molecule")
COLUMNS = 3  # of the picture of measured targets
PIXELS = (420, 280)
Record = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """All that a study found.

    Args:
        setting: What was asked for.
        records: Of each method, one a molecule.
        evidence: ``(N,)`` bool of each drawn molecule of the planted target.
        chance (float): The precision of atoms drawn at random, in expectation.
        planted: Attributions of these molecules.
        measured: Attributions of molecules with measured targets.
        sentences: Attributions of texts.
        runs: Records of what was trained.
        target (str): The measured target.
    """

    setting: Setting
    records: Mapping[str, Sequence[Record]]
    evidence: Sequence[Tensor]
    chance: float
    planted: Sequence[Attribution]
    measured: Sequence[Attribution]
    sentences: Sequence[Sentence]
    runs: Mapping[str, Record | None]
    target: str

    @property
    def gap(self) -> float:
        """The largest difference between a sum of contributions and the prediction."""
        gaps = [one.gap for one in (*self.planted, *self.measured)]
        return max([*gaps, *[one.gap for one in self.sentences]], default=0.0)

    def metrics(self) -> Record:
        """What ``metrics.json`` holds."""
        methods = [
            {"method": name, "molecules": len(records), **means(records)}
            for name, records in self.records.items()
        ]
        return {
            "methods": methods,
            "chance": self.chance,
            "gap": self.gap,
            "runs": {name: run for name, run in self.runs.items() if run is not None},
            "sentences": [sentence.record() for sentence in self.sentences],
        }


def means(records: Sequence[Record]) -> dict[str, float]:
    """The mean of each measure over molecules, of seconds the median."""
    found = {key: statistics.fmean(record[key] for record in records) for key in MEASURES}
    return {**found, "seconds": statistics.median(record["seconds"] for record in records)}


def table(results: Results) -> Table:
    """A row a method: precision, fidelity and time on the planted target."""
    choice, run = results.setting.molecules, results.runs["planted"] or {}
    number = len(next(iter(results.records.values())))
    rows = [
        [
            name,
            f"{mean['precision']:.3f}",
            *[f"{mean[key]:.2f}" for key in ("fid+", "fid-", "change without", "change alone")],
            f"{mean['seconds']:.4f}",
        ]
        for name, mean in ((name, means(records)) for name, records in results.records.items())
    ]
    caption = (
        f"{choice.dataset}: the number of {choice.smarts} in a molecule, predicted by "
        f"{run.get('model')} ({run.get('num_parameters', 0):,} parameters, test RMSE "
        f"{run.get('test', float('nan')):.3f}, seed {results.setting.seed})\n"
        f"{number} test molecules that have the group; of each, as many atoms are selected as "
        "belong to it, those that raise the number most, or are the most important to methods "
        f"without a sign. precision: the share of these that do ({results.chance:.3f} by chance); "
        "fid+ and fid-: of PyG, how often the number nearest to the prediction changes without "
        "these atoms, and with them alone; without, alone: the mean change of the predicted "
        "number; s/molecule: the median\n"
        f"Contributions add up to predictions within {results.gap:.0e}"
    )
    return Table(caption, HEADER, rows)


def write_report(out: Path, results: Results) -> None:
    """Writes ``planted.png``, ``molecules.png``, ``sentence-N.png`` and ``explanations.html``.

    Pictures of sentences that an earlier call explained are removed.
    """
    for path in out.glob(SENTENCE_FILES):
        path.unlink()
    with matplotlib.rc_context({"text.parse_math": False}):
        write_bytes(out / "planted.png", png(planted_figure(results)))
        write_bytes(out / "molecules.png", png(measured_figure(results)))
        sentences = [png(sentence_figure(sentence)) for sentence in results.sentences]
    for number, picture in enumerate(sentences, start=1):
        write_bytes(out / f"sentence-{number}.png", picture)
    write_text(out / "explanations.html", page(results, sentences))


def planted_figure(results: Results) -> Figure:
    """A row a molecule: the planted atoms, then what each method says; colours are each picture's
    own.
    """
    names = ["planted", *results.records]
    rows = []
    for number, attribution in enumerate(results.planted):
        evidence = results.evidence[number].double()
        parts = [(evidence, torch.zeros(attribution.edge_index.size(1)))]
        for records in results.records.values():
            record = records[number]
            parts.append((torch.tensor(record["nodes"]), torch.tensor(record["edges"])))
        bonds = ["planted", "walks"]
        pictures = [
            drawn(attribution, nodes, edges if name in bonds else None)
            for name, (nodes, edges) in zip(names, parts, strict=True)
        ]
        titles = [
            f"predicted {attribution.prediction:.2f}, true {attribution.measured:g}",
            *names[1:],
        ]
        rows.append(list(zip(titles, pictures, strict=True)))
    return picture_grid(rows)


def measured_figure(results: Results) -> Figure:
    """Molecules with a measured target, atoms and bonds coloured on one scale."""
    scale = common_scale(results.measured)
    cells = [
        (
            f"{one_line(results.target)}: predicted {attribution.prediction:.2f}, measured "
            f"{attribution.measured:.2f}",
            drawn(attribution, attribution.nodes, attribution.edges, scale),
        )
        for attribution in results.measured
    ]
    return picture_grid([cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)])


def sentence_figure(sentence: Sentence) -> Figure:
    """Words, best n-grams and gates of a text."""
    return draw_text(
        sentence.words, sentence.tokens, sentence.ngrams, sentence.gates, sentence.title()
    )


def common_scale(attributions: Sequence[Attribution]) -> float | None:
    """The largest contribution of all; ``None`` where there is none."""
    parts = [
        part.abs().max() for one in attributions for part in (one.nodes, one.edges) if len(part)
    ]
    return (float(max(parts)) or None) if parts else None


def drawn(
    attribution: Attribution, nodes: Tensor, edges: Tensor | None, scale: float | None = None
) -> bytes:
    """A molecule as the content of a PNG file."""
    index = None if edges is None else attribution.edge_index
    return draw_molecule(
        attribution.smiles, nodes, edges, index, scale=scale, size=PIXELS, file_format="png"
    )


def page(results: Results, pictures: Sequence[bytes]) -> str:
    """One HTML page that needs nothing besides itself.

    Args:
        results: What a study found.
        pictures: PNG files of its sentences.
    """
    found = table(results)
    rows = [f"<tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in found.header)}</tr>"]
    rows += [
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in found.rows
    ]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Exact explanations</title>',
        "<style>body{font-family:sans-serif;max-width:70em;margin:2em auto}"
        "td,th{padding:2px 10px;text-align:right}td:first-child,th:first-child{text-align:left}"
        "figure{display:inline-block;margin:6px}figcaption{font-size:small;max-width:420px}"
        "</style></head><body>",
        "<h1>Exact explanations</h1>",
        *[f"<p>{html.escape(line)}</p>" for line in found.caption.splitlines()],
        f"<table>{''.join(rows)}</table>",
        "<p>Red raises the prediction, blue lowers it. Atoms add up to it, and bonds once more."
        "</p>",
        f"<h2>The number of {html.escape(results.setting.molecules.smarts)}</h2>",
        *_molecule_figures(results.planted),
        f"<h2>{html.escape(one_line(results.target))}</h2>",
        *_molecule_figures(results.measured),
    ]
    if results.sentences:
        parts.append("<h2>Texts</h2>")
    for sentence, picture in zip(results.sentences, pictures, strict=True):
        encoded = base64.b64encode(picture).decode()
        parts += [
            f"<h3>{html.escape(sentence.title())}</h3>",
            text_html(sentence.words, sentence.tokens, sentence.ngrams),
            f'<img alt="" style="max-width:100%" src="data:image/png;base64,{encoded}">',
        ]
    return "\n".join([*parts, "</body></html>", ""])


def _molecule_figures(attributions: Sequence[Attribution]) -> list[str]:
    scale = common_scale(attributions)
    figures = []
    for attribution in attributions:
        svg = draw_molecule(
            attribution.smiles,
            attribution.nodes,
            attribution.edges,
            attribution.edge_index,
            scale=scale,
            size=PIXELS,
        ).decode()
        walks = "; ".join(
            f"{'-'.join(map(str, atoms))}: {value:+.3f}" for atoms, value in attribution.walks
        )
        figures.append(
            f"<figure>{svg[svg.index('<svg') :]}<figcaption>{html.escape(attribution.smiles)}<br>"
            f"predicted {attribution.prediction:.3f}, true {attribution.measured:g}: atoms "
            f"{float(attribution.nodes.sum()):+.3f}, the rest {attribution.offset:+.3f}<br>"
            f"best walks, by atoms from 0: {walks}</figcaption></figure>"
        )
    return figures
