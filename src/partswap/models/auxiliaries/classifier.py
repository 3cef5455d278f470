"""The classifier that is explained, as its own auxiliary."""

from __future__ import annotations

from partswap.cut.layers import default_layer
from partswap.errors import SettingError
from partswap.models.auxiliaries.base import AUXILIARIES, Auxiliary, AuxiliaryChoice, ClassifierContext
from partswap.models.multi_layer import feature_extractor


@AUXILIARIES.register("classifier")
def classifier(choice: AuxiliaryChoice, explained: ClassifierContext | None) -> Auxiliary:
    """Return the classifier's own features, by default at the layer it is cut at."""
    if explained is None:
        raise SettingError(
            'the auxiliary "classifier" needs the classifier that is explained.',
            'Use it in an Explainer, or call load_auxiliary("classifier", classifier=model).',
        )
    if choice.weights is not None:
        raise SettingError('the auxiliary "classifier" has the weights of the classifier.', "Leave its weights out.")
    layer = choice.layer or explained.layer or default_layer(explained.model)
    trunk = feature_extractor(explained.model, layer, size=explained.preprocess.shape)
    return Auxiliary("classifier", trunk, explained.preprocess)
