"""Adam for weights that several workers change at the same time."""

from typing import Any

import keras
import tensorflow as tf


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
