"""Keras' optimizers and learning rates. Gradients are added up, by level and over the devices, before they are clipped."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.config import OptimizerConfig

Gradient = Any
"""A tensor, or tf.IndexedSlices."""


LARGE = 2**16
"""Size of an embedding from which on a step reads and changes only the rows of its batch."""


class VariableRows:
    """Some rows of a variable, which an optimizer of Keras reads and changes as if they were a variable. Each read is a
    `tf.gather`, and each change a scatter, so no step touches the other rows."""

    def __init__(self, variable: Any, places: tf.Tensor) -> None:
        # The copy on the device that is being changed, if there are several.
        self._variable = variable._get() if isinstance(variable, tf.distribute.DistributedValues) else variable
        self._places = places
        self.dtype = variable.dtype

    @property
    def value(self) -> "VariableRows":
        """The same, as a variable of Keras has it."""
        return self

    def read_value(self) -> tf.Tensor:
        return tf.gather(self._variable, self._places)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> tf.Tensor:
        return tf.convert_to_tensor(self.read_value(), dtype, name=name)

    def __sub__(self, other: Any) -> tf.Tensor:
        return self.read_value() - other

    def __mul__(self, other: Any) -> tf.Tensor:
        return self.read_value() * other

    __rmul__ = __mul__

    def assign(self, value: Any, read_value: bool = True) -> Any:
        return self._changed("scatter_update", value)

    def assign_add(self, value: Any, read_value: bool = True) -> Any:
        return self._changed("scatter_add", value)

    def assign_sub(self, value: Any, read_value: bool = True) -> Any:
        return self._changed("scatter_sub", value)

    def _changed(self, change: str, value: Any) -> Any:
        """Return the operation, for the order of later ones: the variable itself would be read as a whole."""
        return getattr(getattr(self._variable, change)(tf.IndexedSlices(value, self._places)), "op", None)


class SummedFirst:
    """To be put before an optimizer of Keras.

    The gradient of an embedding comes as one row for each row of the batch, several of the same level. Keras 3.15 squares these
    rows and then adds them, where all formulas but that of sgd square the sum: a level of many rows took steps far too small.
    Keras also clips the gradient of each device before it adds them, so that the steps would depend on the number of devices.

    Keras changes all rows of an embedding in each step, because momentum and decay move rows without a gradient. Here a step
    changes only the rows of its batch, if the embedding has `by_rows_from` numbers or more.

    The moving averages of `use_ema` are those of Keras: after step s, average = m average + (1 - m) weight, with m = 0 in the
    first step and `ema_momentum` later. The weight w of a row does not change between its steps, so k of these changes are one,
    average = w + m^k (average - w). It is made when a batch has the row again, and in `averages`.
    """

    by_rows_from: float = LARGE
    weight_decay: float | None
    use_ema: bool
    ema_momentum: float
    iterations: Any
    learning_rate: Any
    apply_gradients: Callable[..., None]
    _trainable_variables: list[Any]
    _model_variables_moving_average: list[Any]
    _get_variable_index: Callable[[Any], int]
    _use_weight_decay: Callable[[Any], bool]
    _averaged_steps: list[keras.Variable | None]
    """Of each embedding that may change by rows, [levels]: how many steps the average of a row contains. Otherwise None."""
    _averaged_by_rows: set[int]
    """The numbers of the variables that change by rows. All steps of a variable do, or none."""

    def build(self, variables: Sequence[keras.Variable]) -> None:
        super().build(variables)  # type: ignore[misc]
        if not self.use_ema or "_averaged_steps" in vars(self):
            return
        # Past Keras' tracking of attributes: `add_variable` tracks the variables.
        vars(self)["_averaged_by_rows"] = set()
        vars(self)["_averaged_steps"] = [None] * len(variables)
        for place, (variable, average) in enumerate(zip(variables, self._model_variables_moving_average, strict=True)):
            if len(variable.shape) > 1 and math.prod(variable.shape) >= self.by_rows_from:
                average.assign(variable)
                with self._distribution_strategy.extended.colocate_vars_with(variable.value):  # type: ignore[attr-defined]
                    self._averaged_steps[place] = self.add_variable(  # type: ignore[attr-defined]
                        variable.shape[:1],
                        dtype="int64",
                        aggregation="only_first_replica",
                        name=f"averaged_steps_{place}",
                    )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        gradient = by_level(gradient)
        place = self._get_variable_index(variable)
        by_rows = isinstance(gradient, tf.IndexedSlices) and math.prod(variable.shape) >= self.by_rows_from
        if by_rows:
            rows = VariableRows(variable, gradient.indices)
            is_averaged = self.use_ema and self._averaged_steps[place] is not None
            before = rows.read_value() if is_averaged else None
            self._restricted(variable, gradient.indices)._step(gradient.values, rows, learning_rate)
            if is_averaged:
                self._averaged_by_rows.add(place)
                self._average_rows(place, gradient.indices, before, rows.read_value())
        else:
            self._step(gradient, variable, learning_rate)

    def _average_rows(self, place: int, places: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> None:
        """Take a step of the averages of some rows, which had the weights `before` since their last one."""
        average = VariableRows(self._model_variables_moving_average[place].value, places)
        contained = VariableRows(self._averaged_steps[place].value, places)  # type: ignore[union-attr]
        step = tf.cast(self.iterations, tf.int64)
        missed = tf.cast(step - contained.read_value(), tf.float64)
        momentum = tf.cast(self.ema_momentum, tf.float64)
        left = tf.reshape(tf.cast(momentum**missed, after.dtype), [-1, *[1] * (len(after.shape) - 1)])
        now = before + left * (average.read_value() - before)
        momentum = tf.cast(tf.where(step > 0, momentum, 0), after.dtype)
        average.assign(momentum * now + (1 - momentum) * after)
        contained.assign(tf.fill(tf.shape(places), step + 1))

    def _update_model_variables_moving_average(self, variables: Sequence[keras.Variable]) -> None:
        step = tf.cast(self.iterations, tf.int64)
        for place, (variable, average) in enumerate(zip(variables, self._model_variables_moving_average, strict=True)):
            if place in self._averaged_by_rows:
                continue
            momentum = tf.cast(tf.where(step > 0, self.ema_momentum, 0.0), average.dtype)
            average.assign(momentum * average + (1 - momentum) * variable)
            if (contained := self._averaged_steps[place]) is not None:
                contained.assign(tf.fill(contained.shape, step + 1))

    def averages(self) -> list[np.ndarray]:
        """The moving averages of all variables, with all steps."""
        found = []
        for variable, average, contained in zip(
            self._trainable_variables, self._model_variables_moving_average, self._averaged_steps, strict=True
        ):
            values = np.asarray(average)
            if contained is not None:
                missed = int(np.asarray(self.iterations)) - np.asarray(contained)
                left = np.power(self.ema_momentum, missed).astype(values.dtype)
                left = left.reshape(-1, *[1] * (values.ndim - 1))
                weights = np.asarray(variable)
                values = weights + left * (values - weights)
            found.append(values)
        return found

    def _step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if self._decays(variable):
            rate, decay = (tf.cast(value, variable.dtype) for value in (learning_rate, self.weight_decay))
            variable.assign_sub(variable * decay * rate)
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]

    def _restricted(self, variable: Any, places: tf.Tensor) -> "SummedFirst":
        """The same optimizer, for these rows of a variable alone: it has the same rows of momentum and the like."""
        alone = object.__new__(type(self))
        number = self._get_variable_index(variable)
        state = {
            name: [VariableRows(each[number].value, places)]
            for name, each in vars(self).items()
            if isinstance(each, list) and len(each) == len(self._trainable_variables)
            if isinstance(each[number], keras.Variable) and each[number].shape == variable.shape
        }
        of_rows = {"_get_variable_index": lambda _: 0, "_decays": lambda _: self._decays(variable)}
        alone.__dict__.update(vars(self) | state | of_rows)
        return alone

    def _decays(self, variable: Any) -> bool:
        return bool(self.weight_decay) and self._use_weight_decay(variable)

    def _apply_weight_decay(self, variables: Any) -> None:
        """Do nothing: `update_step` knows which rows of a variable decay."""

    def _clip_gradients(self, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
        return gradients

    def _all_reduce_sum_gradients(self, pairs: Any) -> list[tuple[Gradient, Any]]:
        summed = list(super()._all_reduce_sum_gradients(pairs))  # type: ignore[misc]
        gradients = self._clipped([gradient for gradient, _ in summed])
        return [(gradient, variable) for gradient, (_, variable) in zip(gradients, summed, strict=True)]

    def _clipped(self, gradients: list[Gradient]) -> list[Gradient]:
        norm, of_all, value = (getattr(self, name) for name in ("clipnorm", "global_clipnorm", "clipvalue"))
        if not (norm or of_all or value):
            return gradients
        gradients = [by_level(gradient) for gradient in gradients]
        if norm:
            return [tf.clip_by_norm(gradient, norm) for gradient in gradients]
        if of_all:
            return list(tf.clip_by_global_norm(gradients, of_all)[0])
        return [tf.clip_by_value(gradient, -value, value) for gradient in gradients]


def by_level(gradient: Gradient) -> Gradient:
    """The gradient with one row for each level."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    levels, places = tf.unique(gradient.indices)
    summed = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(levels))
    return tf.IndexedSlices(summed, levels, gradient.dense_shape)


class SharedAdam(keras.optimizers.Adam):
    """Keras' Adam with its operations in an order that makes it safe without a lock.

    A step divides the mean of the gradients by the root of the mean of their squares. Suppose that a step sees another
    worker's addition to the first mean, but not yet its addition to the second, which may be 0. Then a weight could change
    by any amount. So the mean of squares is updated before the mean, and read after it. A single worker takes the same
    steps as with Keras' Adam.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        gradient = tf.convert_to_tensor(gradient)
        rate, step = tf.cast(learning_rate, gradient.dtype), tf.cast(self.iterations + 1, gradient.dtype)
        place = self._get_variable_index(variable)
        mean, squares = self._momentums[place].value, self._velocities[place].value
        changed = squares.assign_add((tf.square(gradient) - squares.read_value()) * (1 - self.beta_2), read_value=False)
        with tf.control_dependencies([changed]):
            changed = mean.assign_add((gradient - mean.read_value()) * (1 - self.beta_1), read_value=False)
        with tf.control_dependencies([changed]):
            mean_now = mean.read_value()
        with tf.control_dependencies([mean_now]):
            squares_now = squares.read_value()
        if self.amsgrad:
            largest = self._velocity_hats[place].value
            squares_now = tf.maximum(largest.read_value(), squares_now)
            largest.assign(squares_now, read_value=False)
        alpha = rate * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        self.assign_sub(variable, mean_now * alpha / (tf.sqrt(squares_now) + self.epsilon))


@functools.cache
def kind(of_keras: Any) -> type[keras.Optimizer]:
    """Return an optimizer of Keras that adds gradients up first."""
    return type(of_keras.__name__, (SummedFirst, of_keras), {})


def optimizer(
    settings: OptimizerConfig, steps: int, adam: type[keras.Optimizer] | None = None, large: int = LARGE
) -> keras.Optimizer:
    """The optimizer of these settings, for a training of so many steps. `adam` takes the place of Keras' Adam and AdamW.
    Embeddings of `large` numbers or more are changed by rows, unless the settings say otherwise."""
    of_keras: Any = type(keras.optimizers.get(settings.name))
    given = settings.given
    if adam and settings.name in ("adam", "adamw"):
        # AdamW is Adam with another default.
        given = {"weight_decay": of_keras().weight_decay} | given
        of_keras = adam
    made = kind(of_keras)(learning_rate=learning_rate(settings, steps), **given)
    made.by_rows_from = {None: large, True: 0, False: math.inf}[settings.lazy]
    return made


def learning_rate(settings: OptimizerConfig, steps: int) -> Any:
    """The learning rate of a training of so many steps: a number, or a schedule of Keras."""
    schedule = settings.schedule
    if not schedule or schedule.schedule == "plateau":
        return settings.first_rate
    options = schedule.model_dump(exclude={"schedule", "warmup_steps", "initial_learning_rate"}, exclude_none=True)
    warmup, rate = schedule.warmup_steps or 0, keras.optimizers.schedules
    if schedule.schedule == "cosine":
        after: Any = rate.CosineDecay(schedule.first, **({"decay_steps": max(steps - warmup, 1)} | options))
    elif schedule.schedule == "exponential":
        after = rate.ExponentialDecay(schedule.first, **options)
    elif schedule.schedule == "piecewise":
        after = rate.PiecewiseConstantDecay(**options)
    else:
        after = rate.PiecewiseConstantDecay([1], [schedule.first] * 2)
    return WarmUp(after, schedule.first, warmup) if warmup else after


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises from 0 to `first` in so many steps, and then follows a schedule."""

    def __init__(self, after: Any, first: float, steps: int) -> None:
        super().__init__()
        self._after, self._first, self._steps = after, first, steps

    def __call__(self, step: Any) -> tf.Tensor:
        taken = tf.cast(step, tf.float32)
        rising = self._first * taken / self._steps
        return tf.where(taken < self._steps, rising, self._after(tf.maximum(taken - self._steps, 0.0)))
