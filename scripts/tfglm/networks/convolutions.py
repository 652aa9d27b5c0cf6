"""The convolutions of an image: filters of a few pixels that find the same pattern anywhere in the image."""

from typing import Any

import keras
import numpy as np

from tfglm.config import LayersConfig
from tfglm.design.design import Design
from tfglm.design.factors import Numeric
from tfglm.engine.parts import looked_up_parts
from tfglm.errors import UserError
from tfglm.networks.inputs import NamedInputs


def convolved(design: Design, settings: LayersConfig, inputs: NamedInputs, seed: int) -> Any:
    """Return the numbers of rows that the hidden layers read: without convolutions all; otherwise the output of the filters,
    the largest value of each square of `pooling` pixels, replaces the pixels of the image. `seed` is that of the initial
    weights. Raises UserError if the formula has no image, several images, or an image that is too small."""
    if not settings.convolutions:
        return inputs.all_numbers
    image = image_of(design)
    check_size(design, settings, image)
    multipliers = [multiplier.numbers for multiplier in looked_up_parts(design)[0]]
    pixels = [multipliers.index(((image.name, pixel),)) for pixel in range(image.width)]
    others = sorted(set(range(len(multipliers))) - set(pixels))
    deep = inputs.images[image.name]
    seeds = np.random.default_rng([seed, 1]).integers(2**31, size=len(settings.convolutions)).tolist()
    for number, (filters, of_layer) in enumerate(zip(settings.convolutions, seeds, strict=True)):
        deep = keras.layers.Conv2D(
            filters,
            settings.kernel,
            activation=settings.activation,
            kernel_initializer=keras.initializers.GlorotUniform(of_layer),
            kernel_regularizer=penalty_of(settings),
            name=f"convolution_{number}",
        )(deep)
    deep = keras.layers.Flatten(name="features")(keras.layers.MaxPooling2D(settings.pooling, name="pooling")(deep))
    if not others:
        return deep
    return keras.layers.Concatenate(name="numbers_and_features")(
        [deep, keras.ops.take(inputs.all_numbers, others, axis=1)]
    )


def penalty_of(settings: LayersConfig) -> keras.Regularizer | None:
    """The penalty on the weights of a layer."""
    return keras.regularizers.L1L2(settings.l1, settings.l2) if settings.l1 or settings.l2 else None


def image_of(design: Design) -> Numeric:
    """The image of the formula. Raises UserError if there is none, or several."""
    images = [factor for factor in design.numeric if factor.shape]
    if len(images) != 1:
        raise UserError(
            f"networks.{design.model}.convolutions: the formula `{design.formula}` has {len(images) or 'no'} "
            f"image{'s' if images else ''}; convolutions need exactly one; correct the formula, or remove the key"
        )
    return images[0]


def check_size(design: Design, settings: LayersConfig, image: Numeric) -> None:
    """Raise UserError if nothing of an image would be left."""
    left = min(image.shape) - len(settings.convolutions) * (settings.kernel - 1)
    if left < settings.pooling:
        height, width = image.shape
        raise UserError(
            f"networks.{design.model}.convolutions: images of {height} x {width} pixels are too small: "
            f"{len(settings.convolutions)} convolutions with filters of {settings.kernel} x {settings.kernel} leave "
            f"{max(left, 0)} pixels of a side, and pooling takes {settings.pooling}; use fewer, or a smaller "
            "`kernel` or `pooling`"
        )
