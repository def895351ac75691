"""The data from which rationales are selected: texts or molecules in three parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from benchmarks.corpora.annotated_texts import AnnotatedTexts
from benchmarks.corpora.beer_advocate import BeerAdvocate
from benchmarks.corpora.planted_evidence import PlantedEvidence
from benchmarks.corpora.published_text import fingerprint as fingerprint_of
from benchmarks.harness.errors import as_input_error, naming_extras
from benchmarks.harness.task import PARTS
from benchmarks.harness.words import Words, read_words, vector_file
from benchmarks.rationales.learner import ClassGoal, NumberGoal
from benchmarks.rationales.options import ASPECTS, MOLECULES, Rationales
from benchmarks.rationales.selections import marked_words
from pyg_kernels.datasets.text import EncodedTexts, TextLoader

THIOPHENE = "c1ccsc1"


@dataclass(frozen=True, kw_only=True)
class Items:
    """M texts or molecules with a class or a number each, in parts."""

    name: str  # of the data set
    kind: str  # texts or molecules
    unit: str  # the unit of selections
    split: str  # how the parts were made, in a few words
    parts: Mapping[str, Tensor]  # of PARTS, the positions of their items
    y: Tensor  # (M,) numbers of classes, or float64 in their own units
    classes: Sequence[str]  # empty if a number is predicted
    evidence: Sequence[Tensor | None]  # for each item (N,) bool, whether a word or atom says y
    lines: Sequence[str]  # each item as text: words with spaces between, or SMILES
    lengths: Tensor  # (M,) int64 words or atoms
    sizes: dict[str, Any]  # the fields of a network's configuration on its inputs
    identity: Callable[[], dict[str, Any]]  # fingerprints of all data that are learned from
    about: str  # a line on the items
    loader: Callable[..., Any]  # batches of positions; bucket: groups items of similar length
    words: Words | None = None  # of texts

    def describe(self) -> str:
        """Lines on items and parts, and on evidence."""
        sizes = ", ".join(f"{len(self.parts[part]):,} {part}" for part in PARTS)
        about = f"{self.name}: {len(self.y):,} {self.kind}, {self.split}: {sizes}"
        evidence, number = f"which {self.unit} say it is not known", self.num_annotated("test")
        if number:
            marks, known = self.evidence_of("test")
            share, all_known = marks[known].double().mean(), bool(known.all())
            some = "" if all_known else f"{number:,} {self.kind} with evidence of the "
            evidence = f"{100 * share:.1f}% of the {self.unit} of the {some}test part say it"
        mean = f"{self.lengths.double().mean():.1f} {self.unit} each"
        return f"{about}\n{mean}; {evidence}\n{self.about}"

    def texts(self, part: str) -> list[list[str]]:
        return [self.lines[place].split(" ") for place in self.parts[part].tolist()]

    def marked(self, place: int, chosen: Tensor) -> Markup:
        """One item as HTML, with the selection in colour, and evidence if it is known."""
        known = self.evidence[place]
        if self.words is not None:
            return marked_words(self.lines[place].split(" "), chosen, known)
        svg = Markup(self.drawn(place, chosen).decode().partition("?>")[2])
        if known is None:
            return svg
        atoms = ", ".join(map(str, known.nonzero().flatten().tolist())) or "none"
        return svg + Markup("<p>Atoms that say it: {}</p>").format(atoms)

    def drawn(self, place: int, chosen: Tensor, **options: Any) -> bytes:
        """The drawing of a molecule, with selected atoms in colour."""
        from pyg_kernels.explain.pictures import draw_molecule

        return draw_molecule(self.lines[place], chosen.double(), scale=1.0, **options)

    def right(self, part: str) -> Tensor:
        return self.y[self.parts[part]]

    def goal(self) -> ClassGoal | NumberGoal:
        """The goal: a class or a number."""
        if self.classes:
            return ClassGoal()
        values = self.right("train").double()
        # Numbers that do not vary need no scale.
        return NumberGoal(float(values.mean()), float(values.std(correction=0)) or 1.0)

    def num_annotated(self, part: str) -> int:
        """The items of a part whose evidence is known."""
        return sum(self.evidence[place] is not None for place in self.parts[part].tolist())

    def evidence_of(self, part: str) -> tuple[Tensor, Tensor]:
        """The evidence of a part, item after item, and whether it is known, both ``(N,)`` bool."""
        places = self.parts[part]
        each = [(self.evidence[k], int(self.lengths[k])) for k in places.tolist()]
        found = [torch.zeros(n, dtype=torch.bool) if marks is None else marks for marks, n in each]
        known = [torch.full((n,), marks is not None) for marks, n in each]
        return torch.cat(found), torch.cat(known)


def load_items(options: Rationales) -> Items:
    """Reads texts or molecules."""
    is_molecules = options.dataset in MOLECULES
    with naming_extras("bench,mol" if is_molecules else "bench"), as_input_error():
        return _molecules(options) if is_molecules else _texts(options)


def _texts(options: Rationales) -> Items:
    corpus = _corpus(options)
    words = read_words(corpus, vector_file(options.folder, options.vectors))
    encoded = EncodedTexts(*words.vocabulary.encode(corpus.texts), corpus.y)
    return Items(
        name=options.dataset,
        kind="texts",
        unit="words",
        split=corpus.split,
        parts=corpus.parts,
        y=corpus.y,
        classes=corpus.classes,
        evidence=corpus.evidence,
        lengths=encoded.lengths,
        lines=[" ".join(words) for words in corpus.texts],
        sizes=word_sizes(words, options),
        identity=words.identity,
        about=words.describe_vectors(options.vectors),
        loader=partial(TextLoader, encoded),
        words=words,
    )


def word_sizes(words: Words, options: Rationales) -> dict[str, Any]:
    """The fields of a network's configuration on its words."""
    sizes = words.sizes(options.embedding)
    return {"input_size": sizes.pop("embedding_dim"), **sizes}


def _molecules(options: Rationales) -> Items:
    """The molecules of the ChEMBL assay, or of CEP if a folder is named."""
    from benchmarks.corpora.planted_substructure import ARYL_FLUORIDE, planted_substructure
    from pyg_kernels.datasets import CEP, ChEMBLSulfonamides, MoleculeLoader, random_split

    seed = options.split_seed
    molecules: Any = CEP(options.folder) if options.folder else ChEMBLSulfonamides()
    evidence: Sequence[Tensor | None] = [None] * len(molecules)
    if options.dataset == "molecules":
        smarts = options.smarts or (THIOPHENE if options.folder else ARYL_FLUORIDE)
        molecules, evidence = planted_substructure(molecules, smarts)
    parts = dict(zip(PARTS, random_split(len(molecules), seed=seed), strict=True))
    y, one = molecules.targets[:, 0], molecules[0]
    digest = fingerprint_of(molecules.smiles, y, *parts.values())

    def loader(places: Tensor, batch_size: int, bucket: int = 1, **more: Any) -> Any:
        return MoleculeLoader(molecules, places, batch_size, **more)

    return Items(
        name=options.dataset,
        kind="molecules",
        unit="atoms",
        split=f"random split (seed {seed})",
        parts=parts,
        y=y,
        classes=(),
        evidence=evidence,
        lengths=molecules.slices["atom_codes"].diff(),
        lines=molecules.smiles,
        sizes={"input_size": one.x.size(1), "edge_dim": one.edge_attr.size(1)},
        identity=lambda: {"number": len(y), "digest": digest},
        about=f"predicted: {molecules.target_names[0]}",
        loader=loader,
    )


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
