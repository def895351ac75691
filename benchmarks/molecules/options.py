"""The options of the comparison of models on molecules; nothing here imports torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, MOST_LAYERS, Device, Results, flag, setting
from benchmarks.harness.options import Options as Base

# The molecule sets of the Open Graph Benchmark; large ones have 41,127 molecules or more.
SMALL = (
    *("ogbg-molesol", "ogbg-molfreesolv", "ogbg-mollipo"),
    *("ogbg-molbace", "ogbg-molbbbp", "ogbg-molclintox"),
    *("ogbg-moltox21", "ogbg-moltoxcast", "ogbg-molsider"),
)
LARGE = ("ogbg-molhiv", "ogbg-molmuv", "ogbg-molpcba", "ogbg-molchembl")
OGB_SETS = (*SMALL, *LARGE)
NAMED = ("chembl", "cep", *OGB_SETS)
CEP_ROOT, OGB_ROOT = "data/cep", "data/ogb"
PARAMETERS = 260_000
GP_MOLECULES = 2000
# By kind of data: chembl and CSV files, cep, small and large sets of OGB.
DEFAULTS: Mapping[str, tuple[Any, Any, Any, Any]] = {
    "epochs": (60, 15, 100, 30),
    "batch_size": (64, 128, 32, 128),
    "lr": (0.001, 0.005, 0.001, 0.001),
    "featurizer": ("duvenaud", "duvenaud", "ogb", "ogb"),
}


def is_process(model: str) -> bool:
    """Whether a model is a Gaussian process, or contains one."""
    return model == "pooled" or model.endswith("gp")


@dataclass(frozen=True, kw_only=True)
class Models(Device, Results):
    """Models and their training.

    Args:
        seeds: random seeds of weights, data order and other draws
        epochs: largest number of epochs (60; cep 15; sets of OGB 100, large ones 30)
        batch_size: molecules per batch (64; cep 128; sets of OGB 32, large ones 128)
        lr: peak learning rate (0.001; cep 0.005)
        patience: stop after N epochs without a lower validation loss (a third of all, at least 10)
        schedule: course of the learning rate: warm-up and cosine, or times 0.9 after every epoch
        resample: width of bins of the target; training molecules are drawn so that all bins are
            equally likely
        model: models to compare: auto, gp, pooled, wl-gp, fingerprint-gp, random-walk-gp, wl-ridge,
            wl-forest, wl, wl-gated, graph-kernel, random-walk, gated-walk, gin, gine, attentive-fp,
            neural-fingerprint, embedded-mean-field, embedded-loopy-bp, mean, wl-subtree-3,
            wl-subtree-6 (wl-ridge with so many iterations), gin-relu, gin-prelu, gin-kernel,
            chemprop, or your own package.module:Net
        ensemble_size: members per model
        featurizer: features of networks: default, duvenaud or ogb (duvenaud; sets of OGB ogb)
        parameters: give networks the largest width with at most this many parameters (260,000)
        hidden: width of networks, in place of --parameters
        layers: number of layers, iterations or nodes in a walk (networks 4, kernel methods 3)
        norm: normalisation of networks' states and their heads' input, over the batch (batch) or
            each row (layer), or of the heads' input alone, over the batch (head)
        dropout: probability of dropping a channel in networks
        distill: for networks and auto: keep one network in place of the members, which learns what
            they predict for so many analogues of each molecule; 0: keep the members
        hurdle: learn a target that often has one value as two targets: whether it has another
            value, and which; pyg-kernels does so by default, and auto always
        gp_molecules: fit Gaussian processes to at most N training molecules, drawn at random
            (random-walk-gp 2,000, others all)
    """

    EXCLUSIVE = (("hidden", "parameters"),)

    seeds: tuple[int, ...] = setting((0,), "seed", least=0, free=True)
    epochs: int | None = setting(None, least=1)
    batch_size: int | None = setting(None, least=2)
    lr: float | None = setting(None, above=0)
    patience: int | None = setting(None, least=1)
    schedule: Literal["cosine", "exponential"] = setting("cosine")
    resample: float | None = setting(None, above=0)
    model: tuple[str, ...] = setting(("wl-gated", "gine", "mean"), "models", free=True)
    ensemble_size: int = setting(1, least=1)
    featurizer: str | None = setting(None)
    parameters: int | None = setting(None, least=1)
    hidden: int | None = setting(None, least=1, most=LARGEST_WIDTH)
    layers: int | None = setting(None, least=1, most=MOST_LAYERS)
    norm: Literal["batch", "layer", "head", "none"] = setting("batch")
    dropout: float = setting(0.0, least=0, below=1)
    distill: float = setting(0.0, least=0)
    hurdle: bool = setting(False)
    gp_molecules: int | None = setting(None, least=2)


@dataclass(frozen=True, kw_only=True)
class Options(Models):
    """Molecules.

    Args:
        data: data sets: chembl (1,017 sulfonamides from inside RDKit), cep (29,978 molecules of the
            Clean Energy Project, downloaded), a molecule set of the Open Graph Benchmark by its
            name, ogbg-molesol to ogbg-molchembl (downloaded), or a CSV with a header
        root: folder of cep (data/cep), or of all sets of OGB (data/ogb)
        smiles_column: column of a CSV with the SMILES
        target_columns: columns of a CSV to predict (every other column of numbers)
        subset_column: column of a CSV, 1 for molecules whose test score is also shown by itself
        task: what a CSV's targets are: numbers, or classes 0 and 1
        skip_invalid: leave out and list SMILES that cannot be read, instead of stopping
        shards: folder that keeps the molecules of a CSV or of cep in place of memory; those that
            are not there yet are written first
        split: 80/10/10 at random or by Bemis-Murcko scaffold, by --split-column, or official, the
            only split of OGB's sets (random; with --split-column column; OGB official)
        split_column: column of a CSV with the words train, valid and test, for --split column
        split_seed: seed of the random split (0), or of the order of scaffolds (largest first)
    """

    data: tuple[str, ...] = setting(("chembl",), free=True)
    root: str | None = setting(None, free=True)
    smiles_column: str = setting("smiles")
    target_columns: tuple[str, ...] = setting(())
    subset_column: str | None = setting(None)
    task: Literal["regression", "classification"] = setting("regression")
    skip_invalid: bool = setting(False)
    shards: str | None = setting(None, free=True)
    split: tuple[Literal["random", "scaffold", "column", "official"], ...] = setting((), free=True)
    split_column: str | None = setting(None)
    split_seed: int | None = setting(None, least=0)

    def check(self) -> None:
        files = [name for name in self.data if name not in NAMED]
        for name in ("target_columns", "subset_column", "split_column", "skip_invalid"):
            if getattr(self, name) and not files:
                raise InputError(f"{flag(name)} goes with a CSV in --data")
        if self.subset_column and not self.target_columns:
            raise InputError("--subset-column goes with --target-columns")
        if self.task == "classification" and not files:
            raise InputError("--task goes with a CSV in --data")
        if self.shards and (len(self.data) > 1 or self.data[0] not in ("cep", *files)):
            raise InputError("--shards goes with one --data, a CSV or cep")
        if self.root and not {"cep", *OGB_SETS} & set(self.data):
            raise InputError("--root goes with cep or a set of OGB in --data")
        if self.gp_molecules and not any(map(is_process, self.model)):
            raise InputError("--gp-molecules goes with Gaussian processes in --model")
        for data in self.data:
            self.splits(data)

    def splits(self, data: str) -> list[str]:
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


@dataclass(frozen=True, kw_only=True)
class Gather(Base):
    """Results.

    Args:
        folder: folder to search, with all folders below it
        out: folder for the report (the folder searched)
    """

    folder: str = setting("", positional=True)
    out: str | None = setting(None)
