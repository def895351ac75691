"""What the cells on CPU share: gates, activations, and the products of the outputs before.

Rows are those of one token, in one block of channels; gradients are taken in place.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from pyg_kernels.ops.compiled import inlined, sigmoid, tanh

ACTIVATIONS = ("none", "tanh", "relu", "sigmoid")
NONE, TANH, RELU, SIGMOID = range(4)


@inlined
def activate(act, row):
    """An activation in place."""
    zero = row.dtype.type(0)
    if act == TANH:
        for k in range(row.size):
            row[k] = tanh(row[k])
    elif act == SIGMOID:
        for k in range(row.size):
            row[k] = sigmoid(row[k])
    elif act == RELU:
        for k in range(row.size):
            row[k] = zero if row[k] < zero else row[k]


@inlined
def activate_back(act, value, grad):
    """The gradient before an activation from that after it, and its values."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    if act == TANH:
        for k in range(value.size):
            grad[k] *= one - value[k] * value[k]
    elif act == SIGMOID:
        for k in range(value.size):
            grad[k] *= value[k] * (one - value[k])
    elif act == RELU:
        for k in range(value.size):
            grad[k] = zero if value[k] <= zero else grad[k]


@inlined
def open_gate(act, x, fed, row, at, bias, out):
    """The activation of columns of x, what was fed back to them, and a bias."""
    logits = x[row][at : at + out.size]
    if at < fed.shape[1]:
        more = fed[row][at : at + out.size]
        for k in range(out.size):
            out[k] = logits[k] + bias[k] + more[k]
    else:
        for k in range(out.size):
            out[k] = logits[k] + bias[k]
    activate(act, out)


@inlined
def open_gate_back(act, value, grad, g_x, row, at, g_bias):
    """The gradients of columns of x and the bias from that of the values."""
    activate_back(act, value, grad)
    logits = g_x[row][at : at + grad.size]
    for k in range(grad.size):
        logits[k] = grad[k]
    add(grad, g_bias)


@inlined
def add(row, out):
    """Adds a row to another, which may be longer; of arrays that are empty rows are, too."""
    for k in range(row.size):
        out[k] += row[k]


@inlined
def copy(row, out):
    """Copies the first entries of a row: as many as the other has, or the other way round."""
    for k in range(min(row.size, out.size)):
        out[k] = row[k]


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
def keep_products(tokens, feed, fed):
    """Keeps what the products with the outputs before gave, (tokens, R), for the backward."""
    for m in range(tokens.row.size if feed.size else 0):
        given, kept = feed[m], fed[tokens.row[m]]
        for k in range(given.size):
            kept[k] = given[k]


@inlined
def give_products(tokens, g_x, g_feed):
    """The gradient of these products: that of the first columns of x."""
    for m in range(tokens.row.size if g_feed.size else 0):
        given, found = g_x[tokens.row[m]], g_feed[m]
        for k in range(found.size):
            found[k] = given[k]
