"""The texts or molecules that the command line names."""

from benchmarks.harness.rationale.items import Items, RationaleChoice
from benchmarks.harness.rationale.names import MOLECULES


def load_items(choice: RationaleChoice) -> Items:
    """Reads texts or molecules; RDKit is needed for the latter alone.

    Raises:
        InputError: If a file is neither at hand nor to be downloaded, or cannot be read.
    """
    if choice.dataset in MOLECULES:
        from benchmarks.harness.rationale.molecules import load_molecules

        return load_molecules(choice)
    from benchmarks.harness.rationale.texts import load_texts

    return load_texts(choice)
