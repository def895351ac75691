"""The registry: shapes, sizes, bond features, and outputs that training can start from."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness import arguments, learner
from benchmarks.harness.molecules import command_line
from benchmarks.harness.molecules.baselines import BASELINES
from benchmarks.harness.molecules.models import (
    DEFAULT_PARAMETERS,
    MODELS,
    ModelConfig,
    build_model,
    count_parameters,
    fit_hidden_size,
)
from benchmarks.harness.sizes import num_parameters
from pyg_kernels.chem import MolFeaturizer
from pyg_kernels.datasets import ChEMBLSulfonamides
from pyg_kernels.nn import KernelActivation

TRAINED = [name for name, kind in MODELS.items() if kind.trained]
ACTIVATIONS = {"gin-relu": nn.ReLU, "gin-prelu": nn.PReLU, "gin-kernel": KernelActivation}


@pytest.fixture(scope="module")
def molecules():
    return ChEMBLSulfonamides()


def config(name, **sizes):
    return ModelConfig(**{"name": name, "node_dim": 65, "edge_dim": 7, "num_targets": 2} | sizes)


def batch_of(*smiles):
    featurizer = MolFeaturizer()
    return Batch.from_data_list([featurizer(text) for text in smiles])


def test_command_line_repeats_the_registry():
    assert (*MODELS, *BASELINES) == command_line.MODELS
    assert arguments.SCHEDULES == learner.SCHEDULES
    assert command_line.PARAMETERS == DEFAULT_PARAMETERS


def test_unknown_name():
    with pytest.raises(ValueError, match=r"model must be one of wl-gated.*'unknown'"):
        build_model(config("unknown", hidden=8))


@pytest.mark.parametrize("name", MODELS)
def test_output_is_a_row_a_molecule_whatever_the_batch(molecules, name):
    torch.manual_seed(0)
    model = build_model(config(name, hidden=8, num_layers=2)).eval()
    together = model(molecules.batch(range(5)))
    assert together.shape == (5, 2)
    alone = torch.cat([model(molecules.batch([k])) for k in range(5)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_bond_features_are_read_as_the_table_says(molecules, name):
    torch.manual_seed(0)
    model = build_model(config(name, hidden=8, num_layers=2)).eval()
    batch = molecules.batch(range(5))
    before = model(batch)
    batch.edge_attr = batch.edge_attr.flip(1)
    assert torch.equal(before, model(batch)) != MODELS[name].bond_features


@pytest.mark.parametrize("name", [name for name in TRAINED if not MODELS[name].width_of])
def test_default_sizes_are_alike(name):
    fitted = fit_hidden_size(config(name, hidden=1))
    count = num_parameters(build_model(fitted))
    assert 0.97 * DEFAULT_PARAMETERS <= count <= DEFAULT_PARAMETERS


@pytest.mark.parametrize("budget", [20_000, DEFAULT_PARAMETERS])
def test_activations_are_compared_at_one_width(budget):
    fitted = [fit_hidden_size(config(name, hidden=1), budget) for name in ACTIVATIONS]
    assert len({sizes.hidden for sizes in fitted}) == 1
    assert count_parameters(fitted[0]) <= budget


@pytest.mark.parametrize(("name", "kind"), ACTIVATIONS.items())
def test_each_place_has_an_activation_of_its_own(name, kind):
    model = build_model(config(name, hidden=8, num_layers=3))
    found = [
        module for module in model.modules() if isinstance(module, tuple(ACTIVATIONS.values()))
    ]
    assert [type(module) for module in found] == [kind] * 7  # two a layer, one in the head
    weights = [p.data_ptr() for module in found for p in module.parameters()]
    assert len(set(weights)) == len(weights)
    rest = count_parameters(config("gin", hidden=8, num_layers=3))
    assert num_parameters(model) == rest + sum(map(num_parameters, found))


@pytest.mark.parametrize("name", ["gin-prelu", "gin-kernel"])
def test_activations_are_learned(molecules, name):
    torch.manual_seed(0)
    model = build_model(config(name, hidden=8, num_layers=2))
    model(molecules.batch(range(20))).square().sum().backward()
    for module in model.modules():
        if isinstance(module, ACTIVATIONS[name]):
            for parameter in module.parameters():
                assert parameter.size(0) == 8  # each unit has its own
                assert parameter.grad.any()


def test_kernel_activation_starts_as_relu(molecules):
    torch.manual_seed(0)
    sizes = {"hidden": 8, "num_layers": 2}
    relu, kernel = (build_model(config(name, **sizes)) for name in ("gin-relu", "gin-kernel"))
    kernel.load_state_dict(relu.state_dict(), strict=False)
    batch = molecules.batch(range(20))
    expected = relu(batch)
    assert (kernel(batch) - expected).std() < 0.1 * expected.std()


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted_without_building(name):
    sizes = config(name, hidden=8, num_layers=2)
    assert count_parameters(sizes) == num_parameters(build_model(sizes))


@pytest.mark.parametrize("name", MODELS)
def test_molecules_without_bonds(name):
    torch.manual_seed(0)
    model = build_model(config(name, hidden=8, num_layers=2)).eval()
    together = model(batch_of("C", "CCO", "O"))
    alone = torch.cat([model(batch_of(text)) for text in ("C", "CCO", "O")])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    if MODELS[name].trained:
        model.train()(batch_of("C", "O", "N")).square().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert gradients
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("name", TRAINED)
def test_training_under_autocast(molecules, name):
    torch.manual_seed(0)
    model = build_model(config(name, hidden=8, num_layers=2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(molecules.batch(range(5)))
    out.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


NORMALIZATIONS = {
    "batch": (nn.BatchNorm1d,),
    "layer": (nn.LayerNorm,),
    "head": (nn.BatchNorm1d,),
    None: (),
}
# Normalisations of two layers; each of the walk networks has one, before its head.
PLACES = {
    "wl-gated": 2,
    "wl": 2,
    "graph-kernel": 3,
    "gated-walk": 1,
    "random-walk": 1,
    "embedded-mean-field": 4,
    "embedded-loopy-bp": 5,
    "neural-fingerprint": 1,
    "attentive-fp": 0,
} | dict.fromkeys(["gine", "gin", *ACTIVATIONS], 5)


@pytest.mark.parametrize(
    ("name", "norm"), [(name, norm) for name in TRAINED for norm in MODELS[name].norms]
)
def test_normalization_is_the_one_asked_for(name, norm):
    model = build_model(config(name, hidden=8, num_layers=2, norm=norm))
    found = [
        module for module in model.modules() if isinstance(module, (nn.BatchNorm1d, nn.LayerNorm))
    ]
    places = {None: 0, "head": min(1, PLACES[name])}.get(norm, PLACES[name])
    assert len(found) == places
    assert all(isinstance(module, NORMALIZATIONS[norm]) for module in found)


@pytest.mark.parametrize("name", [name for name in TRAINED if MODELS[name].dropout])
def test_dropout_acts_in_training_alone(molecules, name):
    torch.manual_seed(0)
    model = build_model(config(name, hidden=8, num_layers=2, dropout=0.5))
    batch = molecules.batch(range(5))
    assert not torch.equal(model(batch), model(batch))
    model.eval()
    assert torch.equal(model(batch), model(batch))


@pytest.mark.parametrize("name", ["wl", "wl-gated"])
def test_readout(molecules, name):
    rows = {
        readout: build_model(config(name, hidden=8, num_layers=3, readout=readout))
        for readout in ("sum", "last", "concat")
    }
    counts = {readout: num_parameters(model) for readout, model in rows.items()}
    assert counts["sum"] == counts["last"]
    # two more iterations' sums: their normalisation, and their columns of the head's matrix
    assert counts["concat"] == counts["sum"] + 2 * (16 + 64)
    assert all(model(molecules.batch(range(5))).shape == (5, 2) for model in rows.values())


REFUSED = {
    "unknown-norm": ({"name": "gine", "norm": "graph"}, "gine with norm='graph'"),
    "no-norm-to-choose": ({"name": "attentive-fp", "norm": "layer"}, "attentive-fp with norm="),
    "unknown-readout": ({"name": "wl", "readout": "mean"}, "wl with readout='mean'.*'concat'"),
    "one-layer": ({"name": "gated-walk", "dropout": 0.1}, "gated-walk with dropout=0.1: it has no"),
    "too-much": ({"name": "gin", "dropout": 1.0}, "gin with dropout=1.0: expected a probability"),
    "negative": ({"name": "wl", "dropout": -0.1}, "wl with dropout=-0.1: expected a probability"),
} | {
    f"readout-of-{name}": (
        {"name": name, "readout": "concat"},
        f"{name} with readout='concat': expected 'sum'",
    )
    for name in TRAINED
    if not name.startswith("wl")
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=list(REFUSED))
def test_choices_without_effect_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        build_model(config(**fields, hidden=8))
    with pytest.raises(ValueError, match=message):
        fit_hidden_size(config(**fields, hidden=1))


def test_mean_has_nothing_to_choose(molecules):
    model = build_model(config("mean", hidden=1, norm="layer", dropout=0.5, readout="concat"))
    assert not model(molecules.batch(range(5))).any()


def test_a_configuration_of_before_the_choices():
    before = {"name": "wl", "node_dim": 65, "edge_dim": 7, "num_targets": 1, "hidden": 8}
    assert ModelConfig(**before) == ModelConfig(**before, norm="batch", dropout=0.0, readout="sum")


def test_too_small_a_budget():
    with pytest.raises(ValueError, match="'gine' has at most 5 parameters"):
        fit_hidden_size(config("gine", hidden=1), budget=5)


@pytest.mark.parametrize("name", MODELS)
def test_training_starts_near_the_mean_predictor(molecules, name):
    torch.manual_seed(0)
    fitted = fit_hidden_size(config(name, hidden=1, num_targets=1))
    y = molecules.targets[::8]
    standardized = (y - y.mean()) / y.std()
    prediction = build_model(fitted)(molecules.batch(torch.arange(0, 1017, 8)))
    assert (prediction - standardized).square().mean() < 4
