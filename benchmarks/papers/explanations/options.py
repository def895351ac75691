"""What is trained and explained; nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, MOST_LAYERS, Device, Results, setting

MethodName = Literal["walks", "gnn-explainer", "integrated-gradients", "random"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
SMARTS = {"chembl": "cF", "cep": "c1ccsc1"}


@dataclass(frozen=True, kw_only=True)
class Explanations(Device, Results):
    """Networks and what is explained of them.

    Args:
        data: molecules: chembl, cep, or a CSV with a header
        root: folder of cep (data/cep)
        smiles_column: column of a CSV with the SMILES
        target_columns: targets in a CSV; the first is explained (every other column of numbers)
        skip_invalid: leave out SMILES of a CSV that cannot be read, instead of stopping
        smarts: SMARTS of the group whose number is the planted target (chembl cF, cep c1ccsc1)
        run: folder of a run of benchmarks.molecules or of pyg-kernels train, whose network of the
            measured target is explained; without it, such a network is trained
        model: network to train, whose layers are sums over walks
        hidden: width of the networks
        layers: number of iterations
        norm: batch normalisation of labels and the head's input (batch), or of the latter (head)
        epochs: largest number of epochs (30; cep 8)
        seed: random seed of networks and of methods that draw
        methods: methods that explain the planted target
        molecules: largest number of molecules of the test part to explain
        drawn: number of molecules of each kind, and of sentences, in the pictures
        text_root: folder of the Stanford Sentiment Treebank, with word vectors as in
            benchmarks.text_classification; without it, only molecules are explained
        sentences: texts to explain, each in quotes (some of the test part)
    """

    data: str = setting("chembl", free=True)
    root: str | None = setting(None, free=True)
    smiles_column: str = setting("smiles")
    target_columns: tuple[str, ...] = setting(())
    skip_invalid: bool = setting(False)
    smarts: str | None = setting(None)
    run: str | None = setting(None, free=True)
    model: Literal["wl-gated", "wl"] = setting("wl-gated")
    hidden: int = setting(32, least=1, most=LARGEST_WIDTH)
    layers: int = setting(3, least=1, most=MOST_LAYERS)
    norm: Literal["batch", "head", "none"] = setting("none")
    epochs: int | None = setting(None, least=1)
    seed: int = setting(0, least=0)
    methods: tuple[MethodName, ...] = setting(METHODS, free=True)
    molecules: int = setting(30, least=1)
    drawn: int = setting(6, least=1, free=True)
    text_root: str | None = setting(None, free=True)
    sentences: tuple[str, ...] = setting((), free=True, repeats=True)

    def check(self) -> None:
        if self.data not in SMARTS and not self.smarts:
            raise InputError(f"--data {self.data} needs --smarts PATTERN")
        if self.sentences and not self.text_root:
            raise InputError("--sentences goes with --text-root DIR")
