"""What the comparison of models on molecules is told: nothing here imports torch."""

# ruff: noqa: RUF009 (option() makes a field)

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.arguments import LARGEST_WIDTH, MOST_LAYERS, integer, number
from benchmarks.harness.errors import InputError
from benchmarks.harness.flags import flag, option

# The molecule sets of the Open Graph Benchmark; large ones have 41,127 molecules or more.
SMALL = (
    *("ogbg-molesol", "ogbg-molfreesolv", "ogbg-mollipo"),
    *("ogbg-molbace", "ogbg-molbbbp", "ogbg-molclintox"),
    *("ogbg-moltox21", "ogbg-moltoxcast", "ogbg-molsider"),
)
LARGE = ("ogbg-molhiv", "ogbg-molmuv", "ogbg-molpcba", "ogbg-molchembl")
OGB_SETS = (*SMALL, *LARGE)
NAMED = ("chembl", "cep", *OGB_SETS)
SPLITS = ("random", "scaffold", "column", "official")
TASKS = ("regression", "classification")
NORMS = ("batch", "layer", "head", "none")
CEP_ROOT, OGB_ROOT = "data/cep", "data/ogb"
PARAMETERS = 260_000
GP_MOLECULES = 2000
# By data: chembl and CSV files, cep, small and large sets of OGB.
DEFAULTS: Mapping[str, tuple[Any, Any, Any, Any]] = {
    "epochs": (60, 15, 100, 30),
    "batch_size": (64, 128, 32, 128),
    "lr": (0.001, 0.005, 0.001, 0.001),
    "featurizer": ("duvenaud", "duvenaud", "ogb", "ogb"),
}
# These change no result, or add cells to a folder: a continuation may have others.
FREE = ("data", "split", "model", "seeds", "root", "shards", "device", "out", "resume",
        "overwrite", "quiet")  # fmt: skip
MODELS = "gp, wl-gp, wl-ridge, wl-forest, random-walk-gp, wl, wl-gated, graph-kernel, random-walk, \
gated-walk, gin, gine, attentive-fp, neural-fingerprint, embedded-mean-field, embedded-loopy-bp, \
mean, wl-subtree-3, wl-subtree-6 (wl-ridge of so many iterations), gin-relu, gin-prelu, \
gin-kernel, package.module:Net"


def _by_data(name: str) -> str:
    chembl, cep, small, large = DEFAULTS[name]
    return f"({chembl}; cep {cep}; sets of OGB {small}, large ones {large})"


@dataclass(frozen=True)
class Options:
    """The options of ``python -m benchmarks.molecules``."""

    data: list[str] = option(
        ["chembl"],
        "chembl: 1,017 sulfonamides from inside RDKit; cep: 29,978 molecules of the Clean Energy "
        "Project, downloaded; a set of the Open Graph Benchmark, downloaded: "
        f"{', '.join(OGB_SETS)}; or a CSV with a header (chembl)",
        "molecules",
        several=True,
    )
    root: str | None = option(
        None, f"folder of cep ({CEP_ROOT}), or of all sets of OGB ({OGB_ROOT})", "molecules"
    )
    smiles_column: str = option("smiles", "of a CSV (smiles)", "molecules")
    target_columns: list[str] | None = option(
        None, "of a CSV (every other column of numbers)", "molecules", several=True
    )
    task: str = option(
        "regression", "of a CSV: numbers, or classes 0 and 1 (regression)", "molecules",
        choices=TASKS,
    )  # fmt: skip
    skip_invalid: bool = option(
        False, "leave out SMILES that do not parse, and list them, instead of stopping", "molecules"
    )
    shards: str | None = option(
        None,
        "keep the molecules of a CSV, or of cep, in this folder and not in memory; written there "
        "first as far as they are not there",
        "molecules",
    )
    split: list[str] | None = option(
        None,
        "80/10/10 at random or by Bemis-Murcko scaffold, or as a column says (random); official: "
        "that of the sets of OGB, which have no other",
        "molecules",
        choices=SPLITS,
        several=True,
    )
    split_column: str | None = option(
        None, "column of train, valid, test in a CSV, for --split column", "molecules"
    )
    split_seed: int | None = option(
        None, "of the random split (0), or of the order of scaffolds (largest first)", "molecules",
        integer(0),
    )  # fmt: skip
    model: list[str] = option(
        ["wl-gated", "gine", "mean"], f"{MODELS} (wl-gated gine mean)", "models", several=True
    )
    ensemble_size: int = option(1, "members of each model (1)", "models", integer(1))
    featurizer: str | None = option(
        None, f"features of networks: default, duvenaud or ogb {_by_data('featurizer')}", "models"
    )
    parameters: int | None = option(
        None,
        f"networks get the largest width within this number of parameters ({PARAMETERS:,})",
        "models",
        integer(1),
    )
    hidden: int | None = option(None, "this width instead", "models", integer(1, LARGEST_WIDTH))
    layers: int | None = option(
        None,
        "layers, iterations or nodes in a walk (networks 4, kernel methods 3)",
        "models",
        integer(1, MOST_LAYERS),
    )
    norm: str = option(
        "batch",
        "normalization of networks' states and of their heads' input, over the batch or each row; "
        "head: of the latter alone, over the batch (batch)",
        "models",
        choices=NORMS,
    )
    dropout: float = option(
        0.0, "probability of dropping a channel (0)", "models", number(least=0, below=1)
    )
    gp_molecules: int | None = option(
        None,
        "Gaussian processes see at most so many molecules of the training part, drawn at random "
        f"(random-walk-gp {GP_MOLECULES:,}, others all)",
        "models",
        integer(2),
    )
    seeds: list[int] = option([0], "(0)", "training", integer(0), several=True)
    epochs: int | None = option(None, f"at most {_by_data('epochs')}", "training", integer(1))
    batch_size: int | None = option(None, _by_data("batch_size"), "training", integer(2))
    lr: float | None = option(None, f"learning rate {_by_data('lr')}", "training", number(above=0))
    patience: int | None = option(
        None, "epochs without a lower validation loss that end training (a third, at least 10)",
        "training", integer(1),
    )  # fmt: skip
    schedule: str = option(
        "cosine",
        "of the learning rate: warm-up and cosine, or times 0.9 every epoch (cosine)",
        "training",
        choices=("cosine", "exponential"),
    )
    resample: float | None = option(
        None,
        "draw training molecules so that all bins of this width of the target are equally likely",
        "training",
        number(above=0),
    )
    device: str | None = option(None, "cpu, cuda, cuda:N (CUDA where there is one)", "training")
    out: str = option("runs/molecules", "results folder (runs/molecules)", "results")
    resume: bool = option(False, "go on in --out: finished runs are kept", "results")
    overwrite: bool = option(False, "replace the results in --out", "results")
    quiet: bool = option(False, "print the final table only", "results")

    def __post_init__(self) -> None:
        files = [name for name in self.data if name not in NAMED]
        for name in ("target_columns", "split_column", "skip_invalid"):
            if getattr(self, name) and not files:
                raise InputError(f"{flag(name)} goes with a CSV in --data")
        if self.task == "classification" and not files:
            raise InputError("--task goes with a CSV in --data")
        for one, other in (("resume", "overwrite"), ("hidden", "parameters")):
            if getattr(self, one) and getattr(self, other):
                raise InputError(f"--{one} and --{other} exclude each other")
        if self.shards and (len(self.data) > 1 or self.data[0] not in ("cep", *files)):
            raise InputError("--shards goes with one --data, a CSV or cep")
        if self.root and not {"cep", *OGB_SETS} & set(self.data):
            raise InputError("--root goes with cep or a set of OGB in --data")
        if self.gp_molecules and not any(name.endswith("gp") for name in self.model):
            raise InputError("--gp-molecules goes with Gaussian processes in --model")
        for data in self.data:
            self.splits(data)

    def splits(self, data: str) -> list[str]:
        """The splits of a data set.

        Raises:
            InputError: If it has no such split.
        """
        official = data in OGB_SETS
        usual = "official" if official else "column" if self.split_column else "random"
        splits = list(dict.fromkeys(self.split or [usual]))
        for split in splits:
            if official != (split == "official"):
                raise InputError(f"--split {split} is none of {data}, see --help")
            if (split == "column") != bool(self.split_column):
                raise InputError("--split column and --split-column NAME go together")
            if split in ("column", "official") and self.split_seed is not None:
                raise InputError(f"--split-seed goes with random and scaffold, not {split}")
        return splits

    def chosen(self, name: str, data: str) -> Any:
        """The value of an option whose default depends on the data set."""
        given = getattr(self, name)
        place = 3 if data in LARGE else 2 if data in SMALL else 1 if data == "cep" else 0
        return DEFAULTS[name][place] if given is None else given
