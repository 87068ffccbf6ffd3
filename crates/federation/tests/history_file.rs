//! Histories in a file: the same training, and damage is detected.

mod common;

use common::{people, tensor_bits, word};
use sottovoce_core::Histories;
use sottovoce_federation::{HistoryFile, HistoryFileError, HistoryWriter, Page, registry};
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet};
use std::path::Path;

fn write(path: &Path, histories: &Histories) -> u64 {
    let mut writer = HistoryWriter::create(path, histories.catalog_size()).unwrap();
    histories.iter().for_each(|history| writer.push(history).unwrap());
    writer.finish().unwrap()
}

#[test]
fn training_from_a_file_gives_the_bits_of_training_in_memory() {
    let histories = people(700, 60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.histories");
    assert_eq!(write(&path, &histories), histories.interactions() as u64);
    let cases = [
        ("fpl", vec![("epochs", Value::Integer(3))]),
        (
            "fpl",
            vec![
                ("epochs", Value::Integer(2)),
                ("cohort", Value::Integer(40)),
                ("selection", word("history")),
            ],
        ),
        ("fpl", vec![("epochs", Value::Integer(1)), ("configuration", word("sfpl+"))]),
        ("fcf", vec![("epochs", Value::Integer(2))]),
    ];
    for (name, settings) in cases {
        let model = registry::find(name).unwrap();
        let chosen = model.settings(settings).unwrap();
        let mut in_memory = model.build(&chosen);
        let summary = in_memory.fit(&histories, &mut Fit::new(4, &mut Quiet)).unwrap();
        let mut streamed = registry::simulation(name, &chosen).unwrap();
        let file = HistoryFile::open(&path).unwrap();
        let streamed_summary = streamed.fit_file(file, &mut Fit::new(4, &mut Quiet)).unwrap();
        assert_eq!(summary, streamed_summary);
        assert!(tensor_bits(&*in_memory) == tensor_bits(&streamed), "{name}");
    }
}

#[test]
fn reads_users_in_any_order_and_creates_the_file_when_complete() {
    let histories = people(1000, 90);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.histories");
    drop(HistoryWriter::create(&path, 90).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "an unfinished file stays");
    write(&path, &histories);
    assert!(HistoryFile::is_one(&path) && !HistoryFile::is_one(folder.path()));
    let file = HistoryFile::open(&path).unwrap();
    assert_eq!((file.users(), file.catalog_size()), (1000, 90));
    let mut page = Page::default();
    for user in (0..1000).map(|step| step * 377 % 1000) {
        assert_eq!(file.of(user, &mut page).unwrap(), histories.of(user));
    }
    assert_eq!(file.read_all().unwrap(), histories);
}

#[test]
fn detects_every_damaged_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.histories");
    write(&path, &people(300, 40));
    let whole = std::fs::read(&path).unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        HistoryFile::open(&path).and_then(|file| file.read_all())
    };
    assert!(read(&whole).is_ok());
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(matches!(read(&bytes), Err(HistoryFileError::Damaged { .. })), "byte {at}");
    }
    for length in [0, 7, 47, 48, whole.len() - 1] {
        assert!(matches!(read(&whole[..length]), Err(HistoryFileError::Damaged { .. })), "{length} bytes");
    }
    let mut newer = whole.clone();
    newer[8] = 2;
    let message = read(&newer).unwrap_err().to_string();
    assert!(message.ends_with("is of version 2; this program reads version 1"), "{message}");
}

#[test]
fn rejects_histories_that_do_not_ascend() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.histories");
    let mut writer = HistoryWriter::create(&path, 5).unwrap();
    writer.push(&[0, 4]).unwrap();
    for wrong in [&[1, 1][..], &[3, 2], &[5]] {
        let message = writer.push(wrong).unwrap_err().to_string();
        assert!(message.starts_with("person 1: items are not ascending"), "{message}");
    }
}
