//! Trains word vectors on a text file of one sentence a line, and writes them as word2vec text:
//!
//! ```text
//! cargo run --release -p sottovoce-text --example train_vectors -- corpus.txt vectors.txt [WINDOW] [REPLICAS]
//! ```
//!
//! Without a window, or with 0, the whole sentence is the context of each of its words.

use sottovoce_text::{Corpus, Word2Vec, Word2VecConfig};
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, vectors, numbers @ ..] = &*arguments else {
        return Err("usage: train_vectors CORPUS VECTORS [WINDOW] [REPLICAS]".into());
    };
    let number = |at: usize| numbers.get(at).map_or(Ok(0), |text: &String| text.parse::<usize>());
    let config = Word2VecConfig {
        window: Some(number(0)?).filter(|&window| window > 0),
        replicas: number(1)?.max(1),
        min_count: 5,
        ..Word2VecConfig::default()
    };
    let corpus = Corpus::read(BufReader::new(File::open(corpus)?))?;
    let started = Instant::now();
    let (table, stats) = Word2Vec::new(config)?.train(&corpus)?;
    eprintln!("{stats:?} in {:.1} s", started.elapsed().as_secs_f64());
    table.write(BufWriter::new(File::create(vectors)?))?;
    Ok(())
}
