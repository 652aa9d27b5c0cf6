"""The inputs of a network as Keras tensors, by their names in the formula."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from tfglm.design.design import Design
from tfglm.engine.parts import looked_up_parts
from tfglm.networks.rows import OFFSET, width_of_groups


@dataclass(frozen=True)
class NamedInputs:
    """What the layers of a network read. All tensors have a row for each row of a batch."""

    numbers: dict[str, Any]
    """Standardised numbers, float32 [rows, columns]: `distance` has one column, `bs(hour, 5)` has five."""
    levels: dict[str, Any]
    """The numbers of levels, int32 [rows], from 0 to `sizes` - 1; of an interaction `a:b` those of the joint levels."""
    sizes: dict[str, int]
    """How many levels each of `levels` has: the `input_dim` of an embedding."""
    images: dict[str, Any]
    """Images with pixels from 0 to 1, float32 [rows, height, width, 1]."""
    offset: Any
    """What is added to the output, float32 [rows]."""
    outputs: int
    """The width of the output: 1, or the number of classes."""
    all_numbers: Any
    """All numbers, pixels among them, float32 [rows, numbers]; None if the formula has none."""

    @property
    def by_name(self) -> dict[str, Any]:
        """All tensors by name, as a `keras.Model` gets them."""
        return {**self.numbers, **self.levels, **self.images, "offset": self.offset}


class LevelOf(keras.layers.Layer):
    """The level of one grouping: a column of the groups."""

    def __init__(self, place: int, **options: Any) -> None:
        super().__init__(**options)
        self.place = place

    def call(self, groups: Any) -> Any:
        return groups[:, self.place]


def inputs_of(design: Design, outputs: int) -> tuple[tuple[Any, Any], NamedInputs]:
    """Return the input layers of a network, as `networks.rows.NetworkRows` fills them, and its inputs by name."""
    multipliers = [multiplier.numbers for multiplier in looked_up_parts(design)[0]]
    groups = keras.Input((width_of_groups(design),), dtype="int32", name="groups")
    columns = keras.Input((len(multipliers) + 3,), name="numbers")
    all_numbers = columns[:, :OFFSET]
    images = {factor.name: factor.shape for factor in design.numeric if factor.shape}
    places: dict[str, list[int]] = {}
    for place, numbers in enumerate(multipliers):
        places.setdefault(":".join(name for name, _ in numbers), []).append(place)
    names = {":".join(grouping): place for place, grouping in enumerate(design.groupings)}
    inputs = NamedInputs(
        numbers={name: _taken(all_numbers, of_name) for name, of_name in places.items() if name not in images},
        levels={name: LevelOf(place, name=f"level_{place}")(groups) for name, place in names.items()},
        sizes={":".join(grouping): design.levels_of(grouping) for grouping in design.groupings},
        images={
            name: keras.layers.Reshape((*shape, 1), name=f"image_{number}")(_taken(all_numbers, places[name]))
            for number, (name, shape) in enumerate(images.items())
        },
        offset=columns[:, OFFSET],
        outputs=outputs,
        all_numbers=all_numbers if multipliers else None,
    )
    named = inputs.by_name
    for name in named:
        named[name].name = name
    return (groups, columns), inputs


def _taken(numbers: Any, places: Sequence[int]) -> Any:
    if list(places) == list(range(places[0], places[-1] + 1)):
        return numbers[:, places[0] : places[-1] + 1]
    return keras.ops.take(numbers, list(places), axis=1)
