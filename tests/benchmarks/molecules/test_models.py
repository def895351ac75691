"""The networks that are compared: what they read, their sizes, their activations."""

import pytest
import torch
from torch import nn

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from rdkit import Chem

from benchmarks.molecules.data import MoleculeSet
from benchmarks.molecules.models import NAMES, WITHOUT_BONDS, Model, models_of
from benchmarks.molecules.options import Options
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.molecules import NETWORKS
from pyg_kernels.molecules.networks import MoleculeNet, Sizes, build_network
from pyg_kernels.nn import KernelActivation

SMILES = ["CC(=O)Nc1ccc(O)cc1", "c1ccc2c(c1)[nH]c1ccsc12", "C", "C#CC1CC1[Si](C)C", "[Na+].[Cl-]"]
GIN = ("gin-relu", "gin-prelu", "gin-kernel")


def network(name: str, hidden: int = 8, **options: object) -> MoleculeNet:
    torch.manual_seed(0)
    kind = NAMES[name].model if name in NAMES else name
    sizes = Sizes(65, 2, 7, hidden, 2, options=dict(options))
    return MoleculeNet(build_network(kind, sizes), 0, name)


def permuted(smiles: str) -> str:
    """The same molecule with its atoms in another order."""
    molecule = Chem.MolFromSmiles(smiles)
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(molecule.GetNumAtoms(), generator=generator).tolist()
    return Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)


@pytest.mark.parametrize("name", [*NETWORKS, *GIN])
def test_rows_are_molecules_whatever_the_batch_and_the_order_of_atoms(name):
    net = network(name).eval()
    molecules = MoleculeDataset.from_smiles(SMILES)
    again = MoleculeDataset.from_smiles([permuted(smiles) for smiles in SMILES])
    assert again.smiles != molecules.smiles
    batch = molecules.batch(range(5))
    with torch.no_grad():
        whole = net(batch)
        single = torch.cat([net(molecules.batch([k])) for k in range(5)])
        other = net(again.batch(range(5)))
        # Bond features are read as the table says.
        batch.edge_attr = 1 - batch.edge_attr
        assert torch.equal(net(batch), whole) == (name in WITHOUT_BONDS)
    assert whole.shape == (5, 2)
    torch.testing.assert_close(single, whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["wl", "gated-walk", "graph-kernel", "gine", "neural-fingerprint"])
def test_normalization_is_the_one_asked_for(name):
    assert "BatchNorm" in {type(module).__name__ for module in network(name).modules()}
    for norm in ("layer", "head", None):
        kinds = [type(module).__name__ for module in network(name, norm=norm).modules()]
        assert ("LayerNorm" in kinds) == (norm == "layer")
        assert sum("BatchNorm1d" in kind for kind in kinds) == (norm == "head")


def chosen(*names: str, **options: object) -> list[Model]:
    """Models as they are for ten molecules."""
    source = MoleculeDataset.from_smiles(["C" * k for k in range(1, 11)], torch.arange(10.0))
    split = MoleculeSet("small", source, "rmse").split("random", None)
    return models_of(Options(model=names, **options), split, "chembl")


def test_networks_are_of_one_size():
    for model in chosen(*NETWORKS):
        assert 230_000 < model.num_parameters <= 260_000, model.name
    found = chosen(*GIN, parameters=20_000)
    assert len({model.arguments["hidden_channels"] for model in found}) == 1
    relu, prelu, learned = (model.num_parameters for model in found)
    assert relu <= 20_000 and relu < prelu < learned


def test_processes_alone_have_a_number_of_molecules():
    names = ("gp", "pooled", "random-walk-gp", "wl-ridge")
    assert [model.most for model in chosen(*names)] == [None, None, 2000, None]
    assert [model.most for model in chosen(*names, gp_molecules=20)] == [20, 20, 20, None]


@pytest.mark.parametrize(
    ("name", "kind"), [("gin-prelu", nn.PReLU), ("gin-kernel", KernelActivation)]
)
def test_each_place_has_an_activation_of_its_own(name, kind):
    net, batch = network(name), MoleculeDataset.from_smiles(SMILES).batch(range(5))
    acts = [module for module in net.modules() if isinstance(module, kind)]
    assert len(acts) == 2 * 2 + 1
    weights = [weight for act in acts for weight in act.parameters()]
    assert len({id(weight) for weight in weights}) == len(weights)
    net(batch).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in weights)
