"""The registry: shapes, sizes, bond features, and outputs that training can start from."""

import pytest
import torch
from torch import nn

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness import arguments, command_line, learner
from benchmarks.harness.baselines import BASELINES
from benchmarks.harness.models import (
    DEFAULT_PARAMETERS,
    MODELS,
    ModelConfig,
    build_model,
    count_parameters,
    fit_hidden_size,
)
from benchmarks.harness.sizes import num_parameters
from pyg_kernels.datasets import ChEMBLSulfonamides
from pyg_kernels.nn import KernelActivation

TRAINED = [name for name, kind in MODELS.items() if kind.trained]
ACTIVATIONS = {"gin-relu": nn.ReLU, "gin-prelu": nn.PReLU, "gin-kernel": KernelActivation}


@pytest.fixture(scope="module")
def molecules():
    return ChEMBLSulfonamides()


def config(name, **sizes):
    return ModelConfig(**{"name": name, "node_dim": 65, "edge_dim": 7, "num_targets": 2} | sizes)


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


def test_too_small_a_budget():
    with pytest.raises(ValueError, match="'gine' has at most 5 parameters"):
        fit_hidden_size(config("gine", hidden=1), budget=5)


@pytest.mark.parametrize("name", MODELS)
def test_training_starts_near_the_mean_predictor(molecules, name):
    torch.manual_seed(0)
    fitted = fit_hidden_size(config(name, hidden=1, num_targets=1))
    y = molecules.targets[::8]
    standardised = (y - y.mean()) / y.std()
    prediction = build_model(fitted)(molecules.batch(torch.arange(0, 1017, 8)))
    assert (prediction - standardised).square().mean() < 4
