"""Trains a small network to read handwritten digits, or to tell clothes apart.

    python docs/examples/mnist.py IMAGES LABELS [--epochs N] [--seed N]

IMAGES and LABELS are IDX files of MNIST or Fashion-MNIST (http://yann.lecun.com/exdb/mnist; Debian's package
dataset-fashion-mnist), packed by gzip or not. Four fifths of them train the network, the last fifth tests it.
"""

import argparse
import sys
import time

import kael
from kael import nn

BATCH = 100


def load(images_path, labels_path):
    """Pixels [N, rows * columns] between 0 and 1, and labels [N]."""
    images = kael.data.read_idx_images(images_path)
    labels = kael.data.read_idx_labels(labels_path)
    if images.shape[0] != labels.shape[0]:
        sys.exit(f"{images_path} has {images.shape[0]} images, {labels_path} {labels.shape[0]} labels")
    return images.reshape(images.shape[0], -1).float() / 255.0, labels.long()


def accuracy(network, pixels, labels):
    """The share of images whose likeliest label is the right one."""
    with kael.no_grad():
        return (network(pixels).argmax(1) == labels).float().mean().item()


def train(network, pixels, labels, epochs, report):
    """Shows every image once per epoch, in another order each time."""
    count = pixels.shape[0]
    optimizer = kael.optim.AdamW(network.parameters(), lr=1e-3)
    for epoch in range(epochs):
        order = kael.tensor(kael.rand(count).numpy().argsort())
        total = 0.0
        for start in range(0, count, BATCH):
            batch = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = kael.cross_entropy(network(pixels.index_select(0, batch)), labels.index_select(0, batch))
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.shape[0]
        report(epoch + 1, total / count)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)

    kael.manual_seed(options.seed)
    try:
        pixels, labels = load(options.images, options.labels)
    except kael.Error as error:
        sys.exit(error.message)
    split = pixels.shape[0] * 4 // 5
    network = nn.Sequential(nn.Linear(pixels.shape[1], 128), nn.ReLU(), nn.Linear(128, 10))
    started = time.monotonic()

    def report(epoch, loss):
        seconds = time.monotonic() - started
        right = accuracy(network, pixels[split:], labels[split:])
        print(
            f"epoch {epoch}: loss {loss:.3f}, {right:.1%} of the test images right, {seconds:.1f} s",
            flush=True,
        )

    train(network, pixels[:split], labels[:split], options.epochs, report)
    return accuracy(network, pixels[split:], labels[split:])


if __name__ == "__main__":
    main()
