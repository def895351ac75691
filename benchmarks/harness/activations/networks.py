"""The recurrent networks that read bits or numbers, one a step."""

import torch
from torch import Tensor, nn

from benchmarks.harness.activations.setting import KBRN, LSTM, Units
from pyg_kernels import sequence
from pyg_kernels.nn import KernelActivation


class SequenceNetwork(nn.Module):
    """A recurrent layer on one number a step, and an affine read-out of its state to a logit.

    Args:
        recurrent: A layer called as ``nn.RNN``.
        hidden_size (int): Its units.
        every_step (bool): Read out every step, not only the last one.

    Shapes:
        - input: (steps, sequences)
        - output: (steps, sequences), or (sequences,)
    """

    def __init__(self, recurrent: nn.Module, hidden_size: int, every_step: bool) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.readout = nn.Linear(hidden_size, 1)
        self.every_step = every_step

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.recurrent(x.unsqueeze(-1))
        return self.readout(output if self.every_step else output[-1]).squeeze(-1)

    def activation(self) -> KernelActivation:
        """That of a KBRN."""
        assert isinstance(self.recurrent, sequence.KBRN)
        activation = self.recurrent.cells[0].activation
        assert isinstance(activation, KernelActivation)
        return activation

    def l1(self) -> Tensor:
        """The sum of the absolute coefficients of a KBRN; 0 of other layers."""
        if isinstance(self.recurrent, sequence.KBRN):
            return self.recurrent.l1()
        return torch.zeros(())


class SigmoidRNN(nn.Module):
    """``h_t = sigmoid(W h_{t-1} + U x_t + b)``, called as ``nn.RNN`` without a state.

    Args:
        input_size (int): Numbers a step.
        hidden_size (int): Units.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lin_input = nn.Linear(input_size, hidden_size)
        self.lin_recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inputs = self.lin_input(x)
        h = inputs.new_zeros(inputs.shape[1:])
        states = []
        for step in inputs.unbind():
            h = torch.sigmoid(step + self.lin_recurrent(h))
            states.append(h)
        return torch.stack(states), h


def sequence_network(
    model: str, hidden_size: int, units: Units, forget_bias: float, every_step: bool
) -> SequenceNetwork:
    """A network with fresh weights.

    Args:
        model (str): ``'kbrn'``, ``'lstm'`` or ``'rnn'``, the sigmoid one.
        hidden_size (int): Units.
        units: The activations of the KBRN.
        forget_bias (float): Added to the bias of the LSTM's forget gates.
        every_step (bool): Read out every step, not only the last one.

    Raises:
        ValueError: If there are no such units.
    """
    if model == KBRN:
        recurrent: nn.Module = sequence.KBRN(
            1,
            hidden_size,
            num_centers=units.centers,
            green=units.green,
            normalize=units.normalize,
            init=units.init,
            init_range=units.init_range,
            affine=units.affine,
        )
    elif model == LSTM:
        recurrent = nn.LSTM(1, hidden_size)
        with torch.no_grad():  # gates: input, forget, cell, output
            bias = recurrent.get_parameter("bias_ih_l0")
            bias[hidden_size : 2 * hidden_size] += forget_bias
    else:
        recurrent = SigmoidRNN(1, hidden_size)
    return SequenceNetwork(recurrent, hidden_size, every_step)
