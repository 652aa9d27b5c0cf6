"""A residual network for tables with batch normalisation."""

import keras


def build(inputs, settings):
    embedded = [
        keras.layers.Embedding(inputs.sizes[name], settings["dimensions"])(levels)
        for name, levels in inputs.levels.items()
    ]
    deep = keras.layers.Concatenate()([*inputs.numbers.values(), *embedded])
    deep = keras.layers.Dense(settings["units"])(deep)
    for _ in range(settings["blocks"]):
        block = keras.layers.BatchNormalization()(deep)
        block = keras.layers.Dense(2 * settings["units"], "relu")(block)
        block = keras.layers.Dropout(settings["dropout"])(block)
        block = keras.layers.Dense(settings["units"])(block)
        deep = keras.layers.Add()([deep, block])
    deep = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(deep))
    return keras.layers.Dense(inputs.outputs)(deep)
