"""β chosen for a network of your own, by held-out rows.

``tune_last_layer`` tries all values on cached features in seconds; ``tune`` trains the whole
network once per value and seed, here or on a cluster. Both set β beside a temperature.
"""

from softmargin.tuning.last_layer import tune_last_layer
from softmargin.tuning.result import Tuned, TuningResult
from softmargin.tuning.search import tune

__all__ = ["Tuned", "TuningResult", "tune", "tune_last_layer"]
