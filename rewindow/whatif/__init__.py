"""What would have come of another algorithm: the path is fitted to a capture, and connections are run on it again."""

from rewindow.whatif.answers import WhatIf, answers
from rewindow.whatif.fitting import Fit, fit
from rewindow.whatif.observation import Observation, ObservedConnection, observe
from rewindow.whatif.prediction import Harm, Neighbour, Prediction, Spread

__all__ = [
    "Fit", "Harm", "Neighbour", "Observation", "ObservedConnection", "Prediction", "Spread", "WhatIf", "answers", "fit",
    "observe",
]  # fmt: skip
