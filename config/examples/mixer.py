"""An MLP-Mixer (Tolstikhin et al. 2021, arXiv:2105.01601): patches of an image, mixed over places and over channels in turn."""

import keras


def build(inputs, settings):
    (image,) = inputs.images.values()
    patches = keras.layers.Conv2D(settings["channels"], settings["patch"], strides=settings["patch"])(image)
    deep = keras.layers.Reshape((-1, settings["channels"]))(patches)
    for _ in range(settings["blocks"]):
        deep = keras.layers.Add()([deep, _over_places(deep, settings["hidden"])])
        deep = keras.layers.Add()([deep, _mixed(deep, settings["hidden"])])
    deep = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(deep))
    return keras.layers.Dense(inputs.outputs)(deep)


def _over_places(deep, hidden):
    turned = keras.layers.Permute((2, 1))(keras.layers.LayerNormalization()(deep))
    return keras.layers.Permute((2, 1))(_dense(turned, hidden))


def _mixed(deep, hidden):
    return _dense(keras.layers.LayerNormalization()(deep), hidden)


def _dense(deep, hidden):
    return keras.layers.Dense(deep.shape[-1])(keras.layers.Dense(hidden, "gelu")(deep))
