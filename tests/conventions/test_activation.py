"""What users of PyTorch expect of a learned activation: states, channels, pictures."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN

Build = Callable[..., nn.Module]


def activation(**options: Any) -> nn.Module:
    return KernelActivation(3, **{"num_centers": 7, **options})


def recurrent(**options: Any) -> nn.Module:
    return KBRN(3, 3, **{"num_centers": 7, **options})


def outputs(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        out = module.eval()(x)
    return out[0] if isinstance(out, tuple) else out


of_both = pytest.mark.parametrize("build", [activation, recurrent])


@of_both
def test_a_state_brings_its_function_along(build: Build) -> None:
    for saved, loading in (
        ({"green": "gaussian", "init_range": (-3, 5)}, {"green": "gaussian"}),
        ({"green": "gaussian", "bandwidth": 0.3}, {"green": "gaussian"}),
        ({"green": "gaussian"}, {"green": "gaussian", "bandwidth": 2.0}),
        ({"init_range": (-3, 5)}, {}),
        ({"green": "abs", "init": "relu"}, {"green": "abs"}),
    ):
        module, other = build(**saved), build(**loading)
        other.load_state_dict(module.state_dict())
        x = torch.linspace(-4, 6, 60).view(10, 2, 3)
        assert torch.equal(outputs(other, x), outputs(module, x))


@of_both
def test_a_state_of_another_function_is_refused(build: Build) -> None:
    for saved, loading, message in (
        ({"green": "relu"}, {"green": "abs"}, "green='relu'.*green='abs'"),
        ({"green": "gaussian"}, {"green": "abs"}, "green='gaussian'.*green='abs'"),
        ({"num_centers": 8}, {}, "centers"),
        ({"shared": True}, {}, "centers"),
        ({"affine": True}, {}, "slope"),
        ({}, {"affine": True}, "slope"),
        ({"normalize": True}, {"normalize": False}, "norm"),
    ):
        state = build(**saved).state_dict()
        with pytest.raises((ValueError, RuntimeError), match=f"(?s){message}"):
            build(**loading).load_state_dict(state)
        bare = {k: v for k, v in state.items() if not k.endswith("extra_state")}  # of no function
        with pytest.raises(RuntimeError, match="extra_state"):
            build(**saved).load_state_dict(bare)


SHAPES = [((2, 3, 3), 1), ((2, 3, 5), 1), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), -3), ((3, 7), 0)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_channels_are_where_they_are_said_to_be(
    shape: tuple[int, ...], dim: int, normalize: bool
) -> None:
    """Each channel by its own function, whatever the lengths of the other dimensions."""
    torch.manual_seed(0)
    act = KernelActivation(3, 7, normalize=normalize, dim=dim)
    last = KernelActivation(3, 7, normalize=normalize)
    last.load_state_dict(act.state_dict())
    x = torch.randn(shape)
    found = act(x)
    assert torch.equal(found, last(x.movedim(dim, -1)).movedim(-1, dim))
    assert found.is_contiguous()  # for .view(), as after nn.ReLU
    torch.testing.assert_close(act(x).view(-1), act(x.transpose(-1, -2).mT).reshape(-1))


def test_in_a_recurrent_network() -> None:
    """A step there is of (B, H): its last dimension is dim=1."""
    layer, x = KBRN(3, 3, num_centers=7, normalize=False), torch.randn(5, 2, 3)
    expected = outputs(layer, x)
    layer.cells[0].activation.dim = 1
    assert torch.equal(outputs(layer, x), expected)
    layer.cells[0].activation.dim = 0
    with pytest.raises(ValueError, match="dim=0"):
        layer(x)


@pytest.fixture
def axes() -> Iterator[Any]:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="drawn with the extra 'bench'")
    yield pyplot.subplots()[1]
    pyplot.close("all")


@pytest.mark.parametrize("options", [{"green": "abs"}, {"green": "gaussian"}, {"affine": True}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_picture_shows_the_functions(
    axes: Any, options: dict[str, Any], dtype: torch.dtype
) -> None:
    act = KernelActivation(3, 7, init="tanh", **{"affine": True, **options}).to(dtype)
    act.reset_parameters()
    assert act.plot([0, 2], ax=axes) is axes
    assert len(axes.lines) == 2
    for line, unit in zip(axes.lines, (0, 2), strict=True):
        x, y = (torch.as_tensor(values, dtype=torch.float32) for values in line.get_data())
        assert x.min() <= -2 and x.max() >= 2
        expected = act(x.unsqueeze(1).expand(-1, 3))[:, unit].float()
        torch.testing.assert_close(y, expected)


@pytest.mark.parametrize(
    ("options", "channels", "lines"),
    [({}, None, 3), ({"shared": True}, None, 1), ({}, 1, 1), ({}, range(2), 2)],
)
@pytest.mark.usefixtures("axes")
def test_what_is_drawn(options: dict[str, Any], channels: Any, lines: int) -> None:
    drawn = KernelActivation(3, 7, normalize=True, **options).plot(channels)
    assert len(drawn.lines) == lines
    assert drawn.get_xlabel() == "normalised input"


def test_no_picture_without_channels_or_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for channels in (3, -1, [0, 3], "a", 1.5):
        with pytest.raises(ValueError, match="channels="):
            KernelActivation(3).plot(channels)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        KernelActivation(3).plot()


def test_a_state_without_numbers_loads_on_meta() -> None:
    act = KernelActivation(4)
    state = {name: value.to("meta") for name, value in act.state_dict().items()}
    act.to("meta").load_state_dict(state)
