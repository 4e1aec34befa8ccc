"""Another revision of the model, made and asked for as a user does."""

from __future__ import annotations

import shutil

from tests.node.harness import MODEL, Onenode

NAME = f"{MODEL}-next"
REVISION = "5eed" * 10
"""A commit as the manifest wants it; the hub of the node has folders only."""
REPOSITORY = "tokenworks/tiny-llama"


def ask_for_another_revision(onenode: Onenode) -> None:
    """Files of the same shape with other weights, their manifest, and an environment that names it.

    Older revisions are not kept.
    """
    checkout = onenode.checkout
    weights = checkout.path / "stacks" / "weights"
    shutil.copytree(weights / MODEL, weights / NAME)
    with (weights / NAME / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")
    manifest = ("--folder", str(weights / NAME), "--out", str(weights / f"{NAME}.json"))
    checkout.tokenworks("lock", "weights", REPOSITORY, REVISION, *manifest)
    file_of_environment = "stacks/onenode.yaml"
    for old, new in (
        ("revision: 624c0a766b16ef95147bad2be7ceafbfa6393c30", f"revision: {REVISION}"),
        (f"manifest: weights/{MODEL}.json", f"manifest: weights/{NAME}.json"),
        (f"config: weights/{MODEL}/config.json", f"config: weights/{NAME}/config.json"),
        (f"http://192.0.2.3/{MODEL},", f"http://192.0.2.3/{NAME},"),
        ("weights_storage:\n", "weights_storage:\n  previous_revisions: 0\n"),
    ):
        checkout.edit(file_of_environment, old, new)
