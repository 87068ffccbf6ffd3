#!/usr/bin/env python3
"""Trains CBOW with gensim on the corpus of `sottovoce bench word2vec`, which calls this as its peer:

    sottovoce bench word2vec --peers 'python3 crates/text/benches/gensim_word2vec.py'
    python3 crates/text/benches/gensim_word2vec.py gensim-word2vec CORPUS --window 5 --epochs 3 [--out FILE]

Needs gensim 4. A window of 0 is the whole sentence. Prints one line of JSON with words per CPU-second of the training
alone, without building the vocabulary.
"""
import argparse
import json
import time

import gensim

parser = argparse.ArgumentParser()
parser.add_argument("peer", choices=["gensim-word2vec"])
parser.add_argument("corpus")
parser.add_argument("--window", type=int, default=5)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", help="write the vectors as word2vec text")
asked = parser.parse_args()

with open(asked.corpus, encoding="utf-8") as file:
    sentences = [line.split() for line in file]
model = gensim.models.Word2Vec(
    sg=0,
    vector_size=100,
    min_count=5,
    negative=5,
    window=asked.window or max(map(len, sentences)),
    shrink_windows=asked.window > 0,
    epochs=asked.epochs,
    workers=asked.threads,
    seed=asked.seed,
)
model.build_vocab(sentences)
words = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)
wall, cpu = time.perf_counter(), time.process_time()
model.train(sentences, total_examples=model.corpus_count, epochs=asked.epochs)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
if asked.out:
    model.wv.save_word2vec_format(asked.out)
answer = {
    "peer": f"gensim {gensim.__version__}",
    "cpu_s_per_epoch": cpu / asked.epochs,
    "wall_s_per_epoch": wall / asked.epochs,
    "words_per_cpu_s": float(words) * asked.epochs / cpu,
}
print(json.dumps(answer))
