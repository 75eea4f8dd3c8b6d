"""A real training with TensorFlow: the net and the data of `torch_job`, by Keras.

    python train.py EPOCHS

Runs in an environment of its own; of Grus it needs `grus.report`, which is the standard library alone.
"""

import sys

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]  # it is not installed here, but where this runs

import grus

BATCH = 64
HELD_BACK = 0.1


class Report(tf.keras.callbacks.Callback):  # type: ignore[misc]  # its types are not known here
    """Says how far it is after each step."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total, self._done, self._epoch = total, 0, 0

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:  # noqa: ARG002 - Keras's shape
        self._done += 1
        grus.report(step=self._done, total=self._total, batch=BATCH, epoch=self._epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._epoch = epoch + 1
        self.model.save_weights("model.weights.h5")
        grus.report(accuracy=float((logs or {}).get("val_accuracy", 0.0)))


def main(epochs: int) -> None:
    tf.keras.utils.set_random_seed(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    images = np.load("data/images.npy").transpose(0, 2, 3, 1)
    labels = np.load("data/labels.npy")
    first = int(len(images) * HELD_BACK)
    net = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss=loss, metrics=["accuracy"])
    net.fit(
        images[first:],
        labels[first:],
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
        validation_data=(images[:first], labels[:first]),
        callbacks=[Report(epochs * -(-(len(images) - first) // BATCH))],
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
