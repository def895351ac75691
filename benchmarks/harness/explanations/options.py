"""What is trained and explained: nothing here imports torch."""

# ruff: noqa: RUF009 (option() makes a field)

from dataclasses import dataclass

from benchmarks.harness.arguments import LARGEST_WIDTH, MOST_LAYERS, integer, number
from benchmarks.harness.errors import InputError
from benchmarks.harness.flags import flag, option

MODELS = ("wl-gated", "wl")  # networks whose layers are sums over walks
METHODS = ("walks", "gnn-explainer", "integrated-gradients", "random")
TEXT_DATASETS = ("sst-binary", "sst-fine", "trec", "trec-fine", "mr")
SMARTS = {"chembl": "cF", "cep": "c1ccsc1"}
EPOCHS, BATCH_SIZE = {"chembl": 30, "cep": 8}, {"chembl": 64, "cep": 128}
TEXT_EPOCHS = 12
# These change no number that a folder keeps.
FREE = ("data", "root", "run", "methods", "drawn", "best", "sentences", "device", "out", "resume",
        "overwrite", "quiet", "text_root")  # fmt: skip


@dataclass(frozen=True)
class Options:
    """The options of ``python -m benchmarks.explanations``."""

    data: str = option("chembl", "chembl, cep, or a CSV with a header (chembl)", "molecules")
    root: str | None = option(None, "folder of cep (data/cep)", "molecules")
    smiles_column: str = option("smiles", "of a CSV (smiles)", "molecules")
    target_columns: list[str] | None = option(
        None, "of a CSV; the first is explained (every other column of numbers)", "molecules",
        several=True,
    )  # fmt: skip
    smarts: str | None = option(
        None,
        f"the group whose number is the planted target (chembl {SMARTS['chembl']}, cep "
        f"{SMARTS['cep']})",
        "molecules",
    )
    run: str | None = option(
        None,
        "folder of a run of benchmarks.molecules, or of pyg-kernels train, on the measured target, "
        "in place of the network that would be trained on it",
        "network",
    )
    model: str = option("wl-gated", "(wl-gated)", "network", choices=MODELS)
    hidden: int = option(32, "width (32)", "network", integer(1, LARGEST_WIDTH))
    layers: int = option(3, "iterations (3)", "network", integer(1, MOST_LAYERS))
    norm: str = option(
        "none",
        "normalization over the batch of the labels and of the head's input, of the latter alone, "
        "or none (none)",
        "network",
        choices=("batch", "head", "none"),
    )
    epochs: int | None = option(None, "at most (30; cep 8)", "network", integer(1))
    batch_size: int | None = option(None, "(64; cep 128)", "network", integer(2))
    lr: float = option(0.005, "learning rate (0.005)", "network", number(above=0))
    methods: list[str] = option(
        list(METHODS), f"{', '.join(METHODS)} (all)", "explanations", choices=METHODS, several=True
    )
    molecules: int = option(
        30, "explained ones of the test part, at most (30)", "explanations", integer(1)
    )
    gnn_epochs: int = option(100, "steps of GNNExplainer (100)", "explanations", integer(1))
    ig_steps: int = option(50, "of integrated gradients (50)", "explanations", integer(1))
    drawn: int = option(6, "molecules of each kind, and sentences (6)", "explanations", integer(1))
    best: int = option(8, "walks and n-grams that are listed (8)", "explanations", integer(1))
    text_root: str | None = option(
        None,
        "folder of --text-dataset, with word vectors as in benchmarks.text_classification; without "
        "it molecules alone are explained",
        "sentences",
    )
    text_dataset: str | None = option(None, "(sst-binary)", "sentences", choices=TEXT_DATASETS)
    text_epochs: int | None = option(None, f"at most ({TEXT_EPOCHS})", "sentences", integer(1))
    sentences: list[str] | None = option(
        None, "texts to explain (some of the test part)", "sentences", several=True
    )
    seed: int = option(0, "(0)", "running", integer(0))
    device: str = option("auto", "auto, cpu, cuda, cuda:N (auto)", "running")
    out: str = option("runs/explanations", "results folder (runs/explanations)", "results")
    resume: bool = option(False, "go on where --out was interrupted", "results")
    overwrite: bool = option(False, "replace the results in --out", "results")
    quiet: bool = option(False, "print the final table only", "results")

    def __post_init__(self) -> None:
        if self.data not in SMARTS and not self.smarts:
            raise InputError(f"--data {self.data} needs --smarts PATTERN")
        if self.root and self.data != "cep":
            raise InputError(f"--root goes with --data cep, not {self.data}")
        if self.target_columns and self.data in SMARTS:
            raise InputError(f"--target-columns goes with a CSV in --data, not {self.data}")
        for name in ("text_dataset", "text_epochs", "sentences"):
            if getattr(self, name) and not self.text_root:
                raise InputError(f"{flag(name)} goes with --text-root DIR")
        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite exclude each other")
