"""Neural networks over the rows of a design, as TensorFlow trains them: Keras layers and optimizers, tf.data, tf.distribute.

`rows` (what a network reads), `pipeline` (batches), `layers` (the network), `strategies` (the devices), `training`, `predict`.
It may import what a fit may: design and engine give it the rows, and `results` judges its predictions.
"""
