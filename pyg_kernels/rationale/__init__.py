"""Rationales: the few tokens or atoms that suffice for a prediction, learned with it."""

from pyg_kernels.rationale.encoder import SequenceEncoder
from pyg_kernels.rationale.generator import Generator
from pyg_kernels.rationale.rationalizer import Rationale, Rationalizer
from pyg_kernels.rationale.wl_states import WLStates

__all__ = ["Generator", "Rationale", "Rationalizer", "SequenceEncoder", "WLStates"]
