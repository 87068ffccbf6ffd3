//! Damaged inputs never panic; cases that once did are kept in `tests/cases`.

use sottovoce_testing::mutation::{Case, SealedRounds, check, run};
use std::path::Path;

#[test]
fn a_few_thousand_damaged_inputs_load_or_are_refused() {
    let tally = run(6_000, 20_261_115).unwrap_or_else(|found| panic!("{found:?}"));
    assert!(tally.loaded > 300 && tally.refused > 300, "{tally:?}");
}

#[test]
fn damaged_messages_of_sealed_rounds_are_taken_or_refused() {
    let rounds = SealedRounds::new();
    // Two honest rounds of four and three, every message of theirs.
    assert!(rounds.messages().iter().all(|message| rounds.check(message)));
    let taken = rounds.run(1_500, 20_261_119);
    assert!((150..1_490).contains(&taken), "{taken}");
    for (choice, message) in (0..=255).zip(rounds.messages()) {
        assert_eq!(rounds.message_from(&[&[choice], &message[22..]].concat()).as_ref(), Some(message));
    }
}

#[test]
fn cases_that_once_panicked_do_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut cases = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let case = Case { files: vec![(name, std::fs::read(&path).unwrap())] };
        check(&case, false);
        check(&case, true);
        cases += 1;
    }
    assert!(cases > 0);
}
