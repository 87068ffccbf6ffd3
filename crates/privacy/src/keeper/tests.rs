//! Keepers against servers and devices that lie.

use super::*;
use crate::SecureRng;
use crate::secagg::{Header, Identity, Message as _, Roster, add_keystream};
use std::sync::Arc;

const VALUES: u32 = 50;

fn config(round: u64) -> Config {
    let (federation, opener) = (FederationId(7), opener(&[1; 32]));
    Config { federation, round: RoundId(round), opener, binding: [2; 32], length: VALUES, least: 4, signed: false }
}

fn keeper() -> Keeper {
    Keeper::new([3; 32], 0, None)
}

fn input(client: u32) -> Vec<u32> {
    let mut source = SecureRng::new([5; 32]).stream("input", client.into());
    (0..VALUES).map(|_| source.next_u32()).collect()
}

fn secret(client: u32, round: u64) -> [u8; 32] {
    SecureRng::new([6; 32]).stream("device", client.into()).stream("round", round).seed()
}

fn upload(config: &Config, client: u32) -> Upload {
    seal(config, &keeper().public(), (client, secret(client, config.round.0)), 0, None, input(client)).unwrap()
}

fn opening(config: &Config, uploads: &[Upload]) -> Opening {
    let entries = uploads.iter().cloned().map(Entry::from).collect();
    Opening { config: config.clone(), secret: [1; 32].into(), entries }
}

fn sum(inputs: impl Iterator<Item = Vec<u32>>) -> Vec<u32> {
    inputs.fold(Vec::new(), |mut sum: Vec<u32>, words| {
        sum.resize(words.len(), 0);
        sum.iter_mut().zip(words).for_each(|(total, word)| *total = total.wrapping_add(word));
        sum
    })
}

/// What the server reads of these uploads with the keeper's help.
fn opened(masks: &Masks, uploads: &[Upload]) -> Option<Vec<u32>> {
    unmask(sum(uploads.iter().map(|upload| upload.words.clone())), &masks.sum(), uploads.len() as u32)
}

fn faults(error: OpenError) -> Vec<(u32, Fault)> {
    let OpenError::Faults(faults) = error else { panic!("{error}") };
    faults
}

fn error(keeper: &Keeper, opening: &Opening, record: &mut MemoryRecord) -> OpenError {
    keeper.admit(opening, record).err().expect("it is refused")
}

#[test]
fn one_upload_each_gives_the_sum_whoever_drops_out() {
    let config = config(0);
    for came in [vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9], vec![1, 3, 4, 8]] {
        let uploads: Vec<Upload> = came.iter().map(|&client| upload(&config, client)).collect();
        for upload in &uploads {
            let bytes = upload.encode();
            assert_eq!(Upload::check(&config, upload.header.client, &bytes).as_ref(), Ok(upload));
            assert_eq!(bytes.len() as u64, 4 * u64::from(VALUES) + Upload::overhead_bytes(false));
            assert_ne!(upload.words[1..], input(upload.header.client));
        }
        let request = Opening::decode(&opening(&config, &uploads).encode()).unwrap();
        let masks = keeper().admit(&request, &mut MemoryRecord::default()).unwrap();
        assert_eq!(opened(&masks, &uploads), Some(sum(came.into_iter().map(input))));
    }
}

/// What a mask hides is uniform, and the sum of masks says nothing of an input: any input fits some mask.
#[test]
fn the_server_alone_reads_no_update() {
    let config = config(0);
    let (one, other) = (upload(&config, 1), upload(&config, 2));
    let mut difference = one.words.clone();
    difference.iter_mut().zip(&other.words).for_each(|(word, other)| *word = word.wrapping_sub(*other));
    let known = input(1).iter().zip(input(2)).map(|(word, other)| word.wrapping_sub(other)).collect::<Vec<_>>();
    assert_ne!(difference[1..], known);
    // The seed that the server passes on opens with the keeper's key only.
    let stranger = Keeper::new([4; 32], 0, None);
    let uploads: Vec<Upload> = (0..4).map(|client| upload(&config, client)).collect();
    let refused = error(&stranger, &opening(&config, &uploads), &mut MemoryRecord::default());
    assert_eq!(faults(refused), (0..4).map(|client| (client, Fault::Unopened)).collect::<Vec<_>>());
}

#[test]
fn a_round_is_opened_once_and_the_same_request_repeated() {
    let (config, mut record) = (config(0), MemoryRecord::default());
    let uploads: Vec<Upload> = (0..8).map(|client| upload(&config, client)).collect();
    let request = opening(&config, &uploads);
    let first = keeper().admit(&request, &mut record).unwrap().sum();
    assert_eq!(keeper().admit(&request, &mut record).unwrap().sum(), first);
    // All but one of them: the difference would be the victim's mask.
    let again = error(&keeper(), &opening(&config, &uploads[1..]), &mut record);
    assert_eq!(again, OpenError::AlreadyOpened);
    // Nor with other parameters of the same round.
    let other = Config { binding: [9; 32], ..config.clone() };
    let replaced: Vec<Upload> = (0..8).map(|client| upload(&other, client)).collect();
    assert_eq!(error(&keeper(), &opening(&other, &replaced), &mut record), OpenError::AlreadyOpened);
    // A refusal spends nothing.
    let next = Config { round: RoundId(1), ..config };
    let uploads: Vec<Upload> = (0..8).map(|client| upload(&next, client)).collect();
    assert!(matches!(error(&keeper(), &opening(&next, &uploads[..2]), &mut record), OpenError::TooFew(2, 4)));
    keeper().admit(&opening(&next, &uploads), &mut record).unwrap();
}

#[test]
fn no_small_set_is_opened() {
    let config = config(0);
    let uploads: Vec<Upload> = (0..8).map(|client| upload(&config, client)).collect();
    let few = |keeper: &Keeper, config: &Config, count| {
        let uploads: Vec<Upload> = (0..count).map(|client| upload(config, client)).collect();
        error(keeper, &opening(config, &uploads), &mut MemoryRecord::default())
    };
    assert_eq!(few(&keeper(), &config, 3), OpenError::TooFew(3, 4));
    // Terms that ask for less than the protocol's least, and a keeper that asks for more than the terms.
    let low = Config { least: 0, ..config.clone() };
    assert_eq!(few(&keeper(), &low, 2), OpenError::TooFew(2, LEAST));
    assert_eq!(few(&Keeper::new([3; 32], 6, None), &config, 5), OpenError::TooFew(5, 6));
    // The server cannot lower what devices were told.
    let lowered = opening(&Config { least: 3, ..config }, &uploads);
    assert_eq!(faults(error(&keeper(), &lowered, &mut MemoryRecord::default())).len(), 8);
}

/// What an owner demands travels sealed with the seed. Whoever demands more than came is left out, and so is whoever
/// demands more than what is left then.
#[test]
fn owners_least_cohorts_are_kept() {
    let config = config(0);
    let demanding = |client: u32, least| {
        seal(&config, &keeper().public(), (client, secret(client, 0)), least, None, input(client)).unwrap()
    };
    let mut uploads: Vec<Upload> = (0..6).map(|client| demanding(client, 0)).collect();
    uploads.extend([demanding(6, 8), demanding(7, 9)]);
    let mut record = MemoryRecord::default();
    let found = faults(error(&keeper(), &opening(&config, &uploads), &mut record));
    assert_eq!(found, [(6, Fault::LeastCohort), (7, Fault::LeastCohort)]);
    assert!(!Fault::LeastCohort.is_offence() && Fault::Unopened.is_offence());
    let masks = keeper().admit(&opening(&config, &uploads[..6]), &mut record).unwrap();
    assert_eq!(opened(&masks, &uploads[..6]), Some(sum((0..6).map(input))));
}

#[test]
fn one_devices_seed_twice_is_refused() {
    let config = config(0);
    let mut uploads: Vec<Upload> = (0..6).map(|client| upload(&config, client)).collect();
    // Twice in one request.
    let mut doubled = opening(&config, &uploads);
    doubled.entries.push(uploads[5].clone().into());
    assert!(Opening::decode(&doubled.encode()).is_err());
    // Under another device's index.
    uploads[4].sealed = uploads[5].sealed.clone();
    let mut record = MemoryRecord::default();
    assert_eq!(faults(error(&keeper(), &opening(&config, &uploads), &mut record)), [(4, Fault::Unopened)]);
    // Two devices that collude.
    uploads[4] = seal(&config, &keeper().public(), (4, secret(5, 0)), 0, None, input(4)).unwrap();
    let found = faults(error(&keeper(), &opening(&config, &uploads), &mut record));
    assert_eq!(found, [(4, Fault::Repeated), (5, Fault::Repeated)]);
}

#[test]
fn seeds_of_other_rounds_terms_and_federations_are_refused() {
    let config = config(1);
    let others = [
        Config { round: RoundId(0), ..config.clone() },
        Config { federation: FederationId(8), ..config.clone() },
        Config { binding: [9; 32], ..config.clone() },
        Config { opener: opener(&[8; 32]), ..config.clone() },
        Config { length: VALUES, least: 5, ..config.clone() },
    ];
    for other in others {
        let mut uploads: Vec<Upload> = (0..6).map(|client| upload(&config, client)).collect();
        uploads[2] = upload(&other, 2);
        let mut record = MemoryRecord::default();
        assert_eq!(faults(error(&keeper(), &opening(&config, &uploads), &mut record)), [(2, Fault::Unopened)]);
        // Should the server add its update all the same, the sum is noise and is not used.
        let honest: Vec<Upload> = uploads.iter().filter(|upload| upload.header.client != 2).cloned().collect();
        let masks = keeper().admit(&opening(&config, &honest), &mut record).unwrap();
        assert_eq!(opened(&masks, &uploads), None);
        assert_eq!(opened(&masks, &honest), Some(sum([0, 1, 3, 4, 5].into_iter().map(input))));
    }
}

/// A device that masks with something else than its seed would leave noise in the sum for all: the keeper sees it by
/// the check word, before anything is spent.
#[test]
fn masks_that_are_not_the_seeds_are_named() {
    let config = config(0);
    let mut uploads: Vec<Upload> = (0..6).map(|client| upload(&config, client)).collect();
    uploads[1].words.iter_mut().for_each(|word| *word = word.wrapping_add(77));
    let mut record = MemoryRecord::default();
    assert_eq!(faults(error(&keeper(), &opening(&config, &uploads), &mut record)), [(1, Fault::Mask)]);
    uploads.remove(1);
    let masks = keeper().admit(&opening(&config, &uploads), &mut record).unwrap();
    assert_eq!(opened(&masks, &uploads), Some(sum([0, 2, 3, 4, 5].into_iter().map(input))));
}

/// A device restored from a back-up, or with a broken generator: its seed of an earlier round.
#[test]
fn a_seed_of_an_opened_round_is_not_used_again() {
    let (first, second, mut record) = (config(0), config(1), MemoryRecord::default());
    let uploads: Vec<Upload> = (0..6).map(|client| upload(&first, client)).collect();
    keeper().admit(&opening(&first, &uploads), &mut record).unwrap();
    let mut uploads: Vec<Upload> = (0..6).map(|client| upload(&second, client)).collect();
    uploads[3] = seal(&second, &keeper().public(), (3, secret(3, 0)), 0, None, input(3)).unwrap();
    assert_eq!(faults(error(&keeper(), &opening(&second, &uploads), &mut record)), [(3, Fault::Spent)]);
}

#[test]
fn only_the_federations_server_may_ask() {
    let config = config(0);
    let uploads: Vec<Upload> = (0..6).map(|client| upload(&config, client)).collect();
    let thief = Opening { secret: [7; 32].into(), ..opening(&config, &uploads) };
    assert_eq!(error(&keeper(), &thief, &mut MemoryRecord::default()), OpenError::Opener);
    // A secret of its own is of another federation.
    let own = Config { opener: opener(&[7; 32]), ..config };
    let thief = Opening { config: own, ..thief };
    assert_eq!(faults(error(&keeper(), &thief, &mut MemoryRecord::default())).len(), 6);
}

fn identity(client: u32) -> Identity {
    Identity::new(&[client as u8 + 1; 32], Roster::new())
}

#[test]
fn a_keeper_with_a_roster_opens_only_for_whom_it_knows() {
    let config = Config { signed: true, ..config(0) };
    let roster: Roster = (0..6).map(|client| identity(client).public()).collect();
    let knowing = Keeper::new([3; 32], 0, Some(Arc::new(roster)));
    let signed = |client: u32, by: u32| {
        seal(&config, &knowing.public(), (client, secret(client, 0)), 0, Some(&identity(by)), input(client)).unwrap()
    };
    let uploads: Vec<Upload> = (0..6).map(|client| signed(client, client)).collect();
    let bytes = uploads[0].encode();
    assert_eq!(bytes.len() as u64, 4 * u64::from(VALUES) + Upload::overhead_bytes(true));
    assert!(Upload::check(&config, 0, &bytes).is_ok());
    let mut record = MemoryRecord::default();
    let changed = |change: &dyn Fn(&mut Vec<Upload>)| {
        let mut uploads = uploads.clone();
        change(&mut uploads);
        faults(error(&knowing, &opening(&config, &uploads), &mut MemoryRecord::default()))
    };
    // An invented device, one that appears twice, a signature moved from another, none.
    assert_eq!(changed(&|uploads| uploads[5] = signed(5, 40)), [(5, Fault::Unknown)]);
    assert_eq!(changed(&|uploads| uploads[5] = signed(5, 4)), [(5, Fault::DuplicateIdentity)]);
    let moved = |uploads: &mut Vec<Upload>| uploads[5].sealed.signed = uploads[4].sealed.signed;
    assert_eq!(changed(&moved), [(5, Fault::Signature)]);
    assert_eq!(changed(&|uploads| uploads[5].sealed.signed = None), [(5, Fault::Signature)]);
    let masks = knowing.admit(&opening(&config, &uploads), &mut record).unwrap();
    assert_eq!(opened(&masks, &uploads), Some(sum((0..6).map(input))));
    // Neither passes for the other.
    assert_eq!(error(&keeper(), &opening(&config, &uploads), &mut record), OpenError::NoRoster);
    let unsigned = Config { signed: false, ..config.clone() };
    let uploads: Vec<Upload> = (0..6).map(|client| upload(&unsigned, client)).collect();
    assert_eq!(error(&knowing, &opening(&unsigned, &uploads), &mut record), OpenError::Unsigned);
}

/// Without identities the server is believed that its devices are devices: five of its own, and one that it wants to
/// read.
#[test]
fn invented_devices_pass_without_identities() {
    let config = config(0);
    let uploads: Vec<Upload> = (0..6).map(|client| upload(&config, client)).collect();
    let masks = keeper().admit(&opening(&config, &uploads), &mut MemoryRecord::default()).unwrap();
    let others = sum((1..6).map(input));
    let mut victim = opened(&masks, &uploads).unwrap();
    victim.iter_mut().zip(others).for_each(|(word, other)| *word = word.wrapping_sub(other));
    assert_eq!(victim, input(0));
}

#[test]
fn devices_refuse_keys_that_are_none() {
    let seal = |key: [u8; 32], signed, words: usize| {
        seal(&Config { signed, ..config(0) }, &key, (0, [1; 32]), 0, None, vec![0; words]).err()
    };
    let values = VALUES as usize;
    assert_eq!(seal([0; 32], false, values), Some(SealError::Key));
    assert_eq!(seal(keeper().public(), true, values), Some(SealError::Identity));
    assert_eq!(seal(keeper().public(), false, values + 1), Some(SealError::Length(values + 1, VALUES)));
    assert_eq!(seal(keeper().public(), false, values), None);
}

#[test]
fn uploads_are_checked_at_the_door() {
    let config = config(0);
    let upload = upload(&config, 3);
    let check = |upload: &Upload| Upload::check(&config, 3, &upload.encode()).unwrap_err();
    let mut bytes = upload.encode();
    bytes.pop();
    assert!(matches!(Upload::check(&config, 3, &bytes), Err(RejectedUpload::Malformed(_))));
    let header = Header { round: RoundId(9), ..upload.header };
    assert_eq!(check(&Upload { header, ..upload.clone() }), RejectedUpload::WrongRound);
    assert_eq!(check(&Upload { words: vec![0; 3], ..upload.clone() }), RejectedUpload::Length(3, 51));
    let mut low = upload.clone();
    low.sealed.ephemeral = [0; 32];
    assert_eq!(check(&low), RejectedUpload::Key);
    let mut signed = upload;
    signed.sealed.signed = Some((identity(3).public(), [0; 64]));
    assert_eq!(check(&signed), RejectedUpload::Signature);
}

#[test]
fn answers_and_requests_survive_the_wire_and_nothing_else_does() {
    let config = config(0);
    let uploads: Vec<Upload> = (0..5).map(|client| upload(&config, client)).collect();
    let request = opening(&config, &uploads);
    assert!(request.encode().len() as u64 <= Opening::most_bytes(5));
    assert!(!format!("{request:?}").contains("secret"));
    let refused = Refused { why: "no".to_owned(), faults: vec![(2, Fault::Spent), (4, Fault::LeastCohort)] };
    for answer in [Answer::Opened(vec![1, 2, u32::MAX]), Answer::Refused(refused)] {
        let bytes = answer.encode();
        assert_eq!(Answer::decode(&bytes), Ok(answer));
        for cut in 0..bytes.len() {
            assert!(Answer::decode(&bytes[..cut]).is_err());
        }
    }
    let bytes = request.encode();
    assert_eq!(Opening::decode(&bytes), Ok(request.clone()));
    // Whatever is changed on the way: another request, or none; never the same one.
    let mut source = SecureRng::new([8; 32]);
    for _ in 0..500 {
        let (at, bit) = (source.next_u64() as usize % bytes.len(), source.next_u32() % 8);
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        if let Ok(other) = Opening::decode(&changed) {
            assert!(other != request);
            assert!(keeper().admit(&other, &mut MemoryRecord::default()).is_err(), "byte {at}");
        }
    }
}

/// A mask is a keystream of its own for each device and round.
#[test]
fn masks_differ_by_device_round_and_binding() {
    let mask = |config: &Config, client| {
        let mut words = upload(config, client).words;
        words[1..].iter_mut().zip(input(client)).for_each(|(word, input)| *word = word.wrapping_sub(input));
        words.split_off(1)
    };
    let all = [
        mask(&config(0), 0),
        mask(&config(0), 1),
        mask(&config(1), 0),
        mask(&Config { binding: [9; 32], ..config(0) }, 0),
    ];
    for (position, one) in all.iter().enumerate() {
        assert!(all[position + 1..].iter().all(|other| one[0] != other[0] || one[1] != other[1]));
    }
    let mut stream = vec![0; 3];
    add_keystream(&[0; 32], false, &mut stream);
    assert_ne!(all[0][..3], stream);
}
