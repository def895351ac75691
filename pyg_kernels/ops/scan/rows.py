"""What the steps of cells on CPU do with the rows of a token."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from pyg_kernels.ops.compiled import inlined, sigmoid, tanh

ACTIVATIONS = ("none", "tanh", "relu", "sigmoid")
NONE, TANH, RELU, SIGMOID = range(4)


@inlined
def copy(row, out):
    """Copies the first entries of a row: as many as the other has, or the other way round."""
    for k in range(min(row.size, out.size)):
        out[k] = row[k]


@inlined
def add(row, out):
    """Adds a row to another, which may be longer; of arrays that are empty rows are, too."""
    for k in range(row.size):
        out[k] += row[k]


@inlined
def arrive(g_out, later, g):
    """The gradient of an output: that from later tokens, which is cleared, and its own."""
    zero = g.dtype.type(0)
    for k in range(g.size):
        g[k] = later[k]
        later[k] = zero
    for k in range(g_out.size):
        g[k] += g_out[k]


@inlined
def gather(table, rows, out):
    """The rows of a table, one after the other; where it has fewer columns, the first ones."""
    for m in range(rows.size):
        copy(table[rows[m]], out[m])


@inlined
def scatter(values, rows, table):
    """Puts rows into a table; where it has fewer columns, their first ones."""
    for m in range(rows.size):
        copy(values[m], table[rows[m]])


@inlined
def activate(act, values):
    """An activation in place."""
    zero = values.dtype.type(0)
    for m in range(values.shape[0]):
        now = values[m]
        if act == TANH:
            for k in range(now.size):
                now[k] = tanh(now[k])
        elif act == SIGMOID:
            for k in range(now.size):
                now[k] = sigmoid(now[k])
        elif act == RELU:
            for k in range(now.size):
                now[k] = zero if now[k] < zero else now[k]


@inlined
def activate_back(act, values, grad):
    """The gradient before an activation, in place, from the values after it."""
    zero, one = values.dtype.type(0), values.dtype.type(1)
    for m in range(values.shape[0]):
        value, now = values[m], grad[m]
        if act == TANH:
            for k in range(now.size):
                now[k] *= one - value[k] * value[k]
        elif act == SIGMOID:
            for k in range(now.size):
                now[k] *= value[k] * (one - value[k])
        elif act == RELU:
            for k in range(now.size):
                now[k] = zero if value[k] <= zero else now[k]
