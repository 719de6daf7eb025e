"""What is said of every experiment on images: where its scales differ from the paper's recipe."""

from __future__ import annotations

from collections.abc import Sequence

from softmargin.papers.images.methods import CHOICES

SMOKE = "8×8 digits, tiny networks and a few epochs: this proves that the path works, nothing else."
DESK = (
    "Small networks on a stated part of the images (see the setup), sized for two cores and chosen "
    "so that they fit their training images; without augmentation unless said otherwise. The "
    "verdict is about directions at this scale, not about the paper's values. The part of the "
    "images is the same for all seeds; methods of a seed share initial weights and batches."
)
CONNECTED = (
    "Networks are fully connected, which the paper's are not: five seeds of all methods are "
    "trained together."
)
RESIDUAL = "A small residual network on 2,000 images, three seeds, stands for convolutional ones."
OTHER_STEPS = "Batch, learning rate and epochs are others than the paper's (see the setup)."
CLIPPED = (
    'The recipe for Tiny-ImageNet asks for "weight clipping": this is read as clipping the '
    "gradient to a norm of 3, as in the recipes for the other data."
)
OPEN = "The paper prints one run and no spread; here there are three seeds."


def chosen(*names: str) -> str:
    """Return what was chosen where a paper leaves it open."""
    told = "; ".join(f"{name}: {CHOICES[name]}" for name in names)
    return f"Chosen where the paper leaves it open: {told}."


def deviations(paper: Sequence[str], desk: Sequence[str] = (CONNECTED,)) -> dict[str, str]:
    """Return the deviations of an experiment by scale; what paper scale says, desk says too."""
    return {
        "smoke": SMOKE,
        "desk": " ".join((DESK, *desk, *paper)),
        "paper": " ".join(paper),
    }
