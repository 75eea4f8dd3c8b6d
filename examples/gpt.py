"""A small GPT that learns to write, letter by letter, the sentences of a made-up grammar.

`--bfloat16` is for mixed precision, `--compile` for torch.compile. Runs by itself, under torchrun, and in a
Grus job.
"""

import argparse
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

import grus

GRAMMAR = {
    "sentence": ["noun verb .", "noun verb noun .", "noun verb noun place ."],
    "noun": ["the crane", "a heron", "the old fisherman", "a child", "the river"],
    "verb": ["sees", "follows", "remembers", "greets"],
    "place": ["by the lake", "under the bridge", "in the morning"],
}


def text(length: int, seed: int) -> str:
    chance = random.Random(seed)
    words: list[str] = []
    while sum(map(len, words)) < length:
        parts = chance.choice(GRAMMAR["sentence"]).split()
        words.append(" ".join(chance.choice(GRAMMAR.get(part, [part])) for part in parts))
    return " ".join(words)


class Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pieces of a text; each letter's answer is the letter after it."""

    def __init__(self, content: str, size: int) -> None:
        self.letters = sorted(set(content))
        self.numbers = torch.tensor([self.letters.index(letter) for letter in content])
        self.size = size

    def __len__(self) -> int:
        return (len(self.numbers) - 1) // self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        piece = self.numbers[index * self.size : (index + 1) * self.size + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask, self.answer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.ask(self.before(x)).chunk(3, dim=-1)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.answer(seen.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.think(self.between(x)))


class GPT(nn.Module):
    def __init__(self, letters: int, size: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(size, width)
        for embedding in (self.letter, self.place):
            nn.init.normal_(embedding.weight, std=0.1)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
        self.head.weight = self.letter.weight  # tied: what reads letters also writes them

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        places = torch.arange(numbers.shape[1], device=numbers.device)
        return self.head(self.norm(self.blocks(self.letter(numbers) + self.place(places))))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--letters", type=int, default=60_000, help="length of the text")
    options.add_argument("--size", type=int, default=64, help="letters that the model sees at once")
    options.add_argument("--bfloat16", action="store_true")
    options.add_argument("--compile", action="store_true")
    chosen = options.parse_args()

    torch.manual_seed(0)
    data = Windows(text(chosen.letters, seed=1), chosen.size)
    model = GPT(len(data.letters), chosen.size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    total = chosen.epochs * math.ceil(len(data) / 32)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=total)
    run = grus.train(
        model,
        optimizer,
        data,
        global_batch=32,
        micro_batch=8,
        epochs=chosen.epochs,
        scheduler=scheduler,
        clip_norm=1.0,
    )
    # Compiled once: Grus never wraps the model, so that no resize compiles it again.
    forward = torch.compile(run.model) if chosen.compile else run.model
    for letters, answers in run:
        with torch.autocast(run.device.type, torch.bfloat16, enabled=chosen.bfloat16):
            loss = F.cross_entropy(forward(letters).flatten(0, 1), answers.flatten())
        mean = run.step(loss)
        if mean is not None and run.rank == 0 and run.steps % 16 == 0:
            print(f"step {run.steps} of {total}, {run.world} workers: loss {mean:.4f}", flush=True)
    if run.rank == 0:
        print(f"it writes: {written(run.model, data, 'the ')}", flush=True)


@torch.no_grad()
def written(model: nn.Module, data: Windows, start: str, length: int = 100) -> str:
    """The likeliest continuation."""
    model.eval()
    device = next(model.parameters()).device
    numbers = [data.letters.index(letter) for letter in start]
    while len(numbers) < length:
        seen = torch.tensor([numbers[-data.size :]], device=device)
        numbers.append(int(model(seen)[0, -1].argmax()))
    return "".join(data.letters[number] for number in numbers)


if __name__ == "__main__":
    main()
