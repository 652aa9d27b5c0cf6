"""Two towers, one for the route and one for the time, whose outputs are multiplied. Both read the same embedding of carriers."""

import keras


def build(inputs, settings):
    carriers = keras.layers.Embedding(inputs.sizes["carrier"], settings["dimensions"])(inputs.levels["carrier"])
    route = [carriers, *_embedded(inputs, ["origin", "dest"], settings), inputs.numbers["distance"]]
    time = [carriers, *_embedded(inputs, ["C(month)", "C(weekday)"], settings), inputs.numbers["dep_hour"]]
    towers = [_tower(parts, settings["units"]) for parts in (route, time)]
    product = keras.layers.Dot(axes=1)(towers)
    return keras.layers.Add()([product, keras.layers.Dense(1)(keras.layers.Concatenate()(towers))])


def _embedded(inputs, names, settings):
    return [keras.layers.Embedding(inputs.sizes[name], settings["dimensions"])(inputs.levels[name]) for name in names]


def _tower(parts, units):
    deep = keras.layers.Dense(units, "relu")(keras.layers.Concatenate()(parts))
    return keras.layers.Dense(units)(deep)
