"""``python -m benchmarks``: the commands, what each is for and how long it typically takes."""

import sys

COMMANDS = {
    "molecules": ("networks, kernels, processes for molecules compared", "minutes a network"),
    "text_classification": ("classify texts by every encoder", "minutes to hours"),
    "language_model": ("language models and their presets", "an hour an epoch"),
    "question_retrieval": ("find similar questions", "minutes quick, hours in full"),
    "rationales": ("texts and molecules whose predictions name their reasons", "minutes"),
    "kernels": (
        "exact kernels beside GraKeL, random features beside them",
        "minutes; cep: an hour",
    ),
    "papers.activations": ("parity, charging, long memory by learned activations", "minutes"),
    "papers.lfp": ("states of subjects by recordings of many channels", "3 minutes; full: an hour"),
    "papers.explanations": ("how faithful explanations are", "minutes; cep: an hour"),
    "speed": ("time of layers and training; compare two results", "10 minutes"),
}


def main() -> int:
    """Prints the list."""
    print("python -m benchmarks.NAME --help\n")
    for name, (purpose, duration) in COMMANDS.items():
        print(f"  {name:20} {purpose} ({duration})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
