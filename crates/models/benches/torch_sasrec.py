"""A plain PyTorch SASRec of the same shape as ours: seconds of an epoch.

Run as: python torch_sasrec.py SEQUENCES --threads 1 --epochs 3
SEQUENCES has a user a line: the user's id, then items in time order. The last two items of each are held out. Sequences
are padded in front to 50 items, as the authors' and most other programs do.
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LENGTH, WIDTH, HEADS, LAYERS, DROPOUT, BATCH = 50, 64, 2, 2, 0.5, 256


class SasRec(nn.Module):
    def __init__(self, items):
        super().__init__()
        self.items = nn.Embedding(items + 1, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, DROPOUT, activation=nn.GELU(approximate="tanh"), batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        # Padding in front, with a causal mask: the first rows of a sequence see padding only. They look at themselves.
        self.causal = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, items):
        x = self.dropout(self.norm(self.items(items) + self.positions.weight))
        padding = torch.zeros(items.shape).masked_fill(items == 0, -1e4)
        return self.encoder(x, mask=self.causal, src_key_padding_mask=padding)


def batches(histories, items, rng):
    order = rng.permutation(len(histories))
    for start in range(0, len(order), BATCH):
        users = [histories[user] for user in order[start : start + BATCH]]
        inputs, targets, negatives = np.zeros((3, len(users), LENGTH), dtype=np.int64)
        for row, history in enumerate(users):
            last = history[-LENGTH - 1 :]
            inputs[row, LENGTH - len(last) + 1 :] = last[:-1]
            targets[row, LENGTH - len(last) + 1 :] = last[1:]
            negatives[row, LENGTH - len(last) + 1 :] = rng.integers(1, items + 1, len(last) - 1)
        yield map(torch.from_numpy, (inputs, targets, negatives))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sequences")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    with open(args.sequences) as file:
        histories = [[int(item) for item in line.split()[1:]] for line in file]
    items = max(max(history) for history in histories)
    histories = [history[:-2] for history in histories if len(history) > 3]
    model, rng = SasRec(items), np.random.default_rng(1)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for _ in range(args.epochs):
        cpu, wall, total = time.process_time(), time.perf_counter(), 0.0
        for inputs, targets, negatives in batches(histories, items, rng):
            h = model(inputs)
            positive = (h * model.items(targets)).sum(-1)
            negative = (h * model.items(negatives)).sum(-1)
            real = targets > 0
            loss = (F.softplus(-positive)[real].sum() + F.softplus(negative)[real].sum()) / real.sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += loss.item()
        times.append((time.process_time() - cpu, time.perf_counter() - wall, total))
    best = min(times)
    print(json.dumps({"threads": args.threads, "cpu_s_per_epoch": best[0], "wall_s_per_epoch": best[1], "all": times}))


main()
