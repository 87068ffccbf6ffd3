#!/usr/bin/env python3
"""Steps (forward and backward) of single PyTorch layers, of the shapes that `cargo bench -p sottovoce-neural` measures.

    python3 crates/neural/benches/torch_layers.py [--batch N]

Needs PyTorch (CPU). Prints one line of JSON a layer: CPU microseconds a step on one thread, the median of nine runs. The
model of the reference step is not here: `sottovoce bench neural-step` has it.
"""
import argparse
import json
import time

import torch


def step_of(layer, x, wants_input_gradient, causal_steps=None):
    """A function that makes one step; the gradient of the output is fixed."""
    x.requires_grad_(wants_input_gradient)
    parameters = list(layer.parameters())
    mask = None
    if causal_steps:
        mask = torch.triu(torch.ones(causal_steps, causal_steps, dtype=torch.bool), 1)

    def forward():
        if causal_steps:
            return layer(x, x, x, attn_mask=mask, need_weights=False)[0]
        y = layer(x)
        return y[0] if isinstance(y, tuple) else y

    dy = torch.randn_like(forward())

    def step():
        for parameter in parameters:
            parameter.grad = None
        x.grad = None
        forward().backward(dy)

    return step


def layers(batch):
    gru = torch.nn.GRU(64, 64, batch_first=True)
    yield "gru-64x64-20-steps", step_of(gru, torch.randn(batch, 20, 64), False)
    attention = torch.nn.MultiheadAttention(32, 2, batch_first=True)
    yield "attention-32-2-heads-50-steps", step_of(attention, torch.randn(batch, 50, 32), False, 50)
    conv = torch.nn.Conv2d(32, 64, 5, padding=2)
    yield "conv-32x14x14-64-5x5", step_of(conv, torch.randn(batch, 32, 14, 14), True)


def median_us(step):
    for _ in range(20):
        step()
    begun, steps = time.process_time(), 0
    while time.process_time() - begun < 0.05:
        step()
        steps += 1
    runs = []
    for _ in range(9):
        before = time.process_time()
        for _ in range(steps):
            step()
        runs.append((time.process_time() - before) / steps)
    return 1e6 * sorted(runs)[4]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--batch", type=int, default=1)
    batch = arguments.parse_args().batch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for name, step in layers(batch):
        print(json.dumps({"layer": name, "batch": batch, "cpu_us_per_step": round(median_us(step), 1)}))


main()
