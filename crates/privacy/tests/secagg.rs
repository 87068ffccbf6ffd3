//! Rounds of secure aggregation, whole and broken.

use proptest::prelude::*;
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::secagg::*;
use sottovoce_protocol::{FederationId, RoundId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const LENGTH: u32 = 50;

/// Which devices stay away from each step: advertise, share, mask, confirm, unmask.
type Dropped = [BTreeSet<ClientIndex>; 5];

struct Round {
    server: Server,
    devices: Vec<Device>,
    /// What was sent up, by step.
    sent: Vec<BTreeMap<ClientIndex, Vec<u8>>>,
}

fn config(n: u32) -> Config {
    Config::new(FederationId(3), RoundId(8), n, LENGTH)
}

fn seed(label: &str, client: ClientIndex) -> [u8; 32] {
    SecureRng::new([4; 32]).stream(label, client.into()).seed()
}

fn input(client: ClientIndex) -> Vec<u32> {
    let mut source = SecureRng::new(seed("input", client));
    (0..LENGTH).map(|_| source.next_u32()).collect()
}

fn expected(counted: &[ClientIndex]) -> Vec<u32> {
    counted.iter().map(|&client| input(client)).fold(vec![0; LENGTH as usize], |mut sum, words| {
        sum.iter_mut().zip(words).for_each(|(total, word)| *total = total.wrapping_add(word));
        sum
    })
}

/// The most devices of a round with identities here.
const IDENTITIES: u32 = 20;
static KNOWN: LazyLock<Vec<Identity>> = LazyLock::new(|| {
    let secrets: Vec<_> = (0..IDENTITIES).map(|client| seed("identity", client)).collect();
    let roster: Roster = secrets.iter().map(|secret| Identity::new(secret, Roster::new()).public()).collect();
    secrets.iter().map(|secret| Identity::new(secret, roster.clone())).collect()
});

impl Round {
    fn new(config: &Config) -> Self {
        let device = |client: ClientIndex| {
            let secret = seed("device", client);
            let identity = config.signed.then(|| KNOWN[client as usize].clone());
            Device::new(config.clone(), client, secret, identity).unwrap()
        };
        let devices = (0..config.devices).map(device).collect();
        Self { server: Server::new(config.clone(), [6; 32]).unwrap(), devices, sent: Vec::new() }
    }

    /// One step: each device that is not dropped answers what the server has for it.
    fn step(&mut self, dropped: &BTreeSet<ClientIndex>) -> Result<Step, AbortReason> {
        let mut sent = BTreeMap::new();
        for client in self.server.waiting_for() {
            if !dropped.contains(&client) {
                let down = self.server.message_for(client).unwrap_or_default();
                let up = answer(&mut self.devices[client as usize], self.server.step(), &down).unwrap();
                assert_eq!(self.server.receive(client, &up), Ok(Receipt::New));
                sent.insert(client, up);
            }
        }
        self.sent.push(sent);
        self.server.close_step()
    }

    fn run(&mut self, dropped: &Dropped) -> Result<Sum, AbortReason> {
        let places = [Step::Advertise, Step::Share, Step::Mask, Step::Confirm, Step::Unmask];
        let mut gone = BTreeSet::new();
        while self.server.step() != Step::Done {
            let place = places.iter().position(|step| *step == self.server.step()).unwrap();
            gone.extend(dropped[place].iter().copied());
            self.step(&gone)?;
        }
        Ok(self.server.sum().unwrap())
    }
}

fn answer(device: &mut Device, step: Step, down: &[u8]) -> Result<Vec<u8>, DeviceError> {
    let client = device.advertise().header.client;
    // Every answer comes from a device that was put away and taken up again.
    let identity = device.config().signed.then(|| KNOWN[client as usize].clone());
    *device = Device::restore(&device.save(), identity)?;
    Ok(match step {
        Step::Advertise => device.advertise().encode(),
        Step::Share => device.share(&Neighbours::decode(down)?)?.encode(),
        Step::Mask => device.mask(&EncryptedShares::decode(down)?, &input(client))?.encode(),
        Step::Confirm => device.confirm(&Survivors::decode(down)?)?.encode(),
        Step::Unmask if device.config().signed => device.unmask_confirmed(&Confirmations::decode(down)?)?.encode(),
        Step::Unmask => device.unmask(&Survivors::decode(down)?)?.encode(),
        Step::Done => unreachable!("nothing is asked when the round is done"),
    })
}

fn nobody() -> Dropped {
    Default::default()
}

#[test]
fn sum_is_exact() {
    for n in [3, 5, 20] {
        let sum = Round::new(&config(n)).run(&nobody()).unwrap();
        assert_eq!(sum.counted, (0..n).collect::<Vec<_>>());
        assert_eq!(sum.words, expected(&sum.counted));
    }
}

#[test]
fn sum_is_exact_on_a_sparse_graph() {
    let mut config = config(40);
    (config.dropout, config.colluding, config.threat_model) = (0.1, 0.05, Some(ThreatModel::SemiHonest));
    let mut round = Round::new(&config);
    let mut dropped = nobody();
    dropped[2] = (0..4).map(|i| 10 * i).collect();
    let sum = round.run(&dropped).unwrap();
    assert!(!round.server.parameters().unwrap().complete());
    assert_eq!(sum.words, expected(&sum.counted));
    assert_eq!(sum.counted.len(), 36);
}

#[test]
fn tolerates_30_percent_drop_out_at_any_step() {
    // At 100 devices only the dearest step; the next test has all of them.
    for (n, steps) in [(5, &[0, 1, 2, 4][..]), (20, &[0, 1, 2, 4]), (100, &[2])] {
        let lost: Vec<ClientIndex> = (0..n * 3 / 10).map(|i| (i * 7 + 2) % n).collect();
        for &step in steps {
            let mut dropped = nobody();
            dropped[step].extend(&lost);
            let sum = Round::new(&config(n)).run(&dropped).unwrap();
            let whole = if step == 4 { n as usize } else { n as usize - lost.len() };
            assert_eq!((sum.counted.len(), sum.words), (whole, expected(&sum.counted)), "{n} devices, step {step}");
        }
    }
}

#[test]
fn tolerates_drop_outs_at_different_steps() {
    for n in [20, 100] {
        let mut dropped = nobody();
        for i in 0..n * 3 / 10 {
            dropped[[0, 1, 2, 4][i as usize % 4]].insert((i * 7 + 2) % n);
        }
        let sum = Round::new(&config(n)).run(&dropped).unwrap();
        assert_eq!(sum.words, expected(&sum.counted));
    }
}

#[test]
fn aborts_below_the_threshold() {
    for n in [5, 20] {
        for step in [0, 1, 2, 4] {
            let mut dropped = nobody();
            dropped[step] = (0..n / 2 + 1).collect();
            let mut round = Round::new(&config(n));
            let why = round.run(&dropped).unwrap_err();
            let too_few = matches!(why, AbortReason::TooFew(..) | AbortReason::Config(_, ConfigError::Devices(..)));
            assert!(too_few, "{why}");
            assert_eq!(round.server.close_step(), Err(why));
            assert!(round.server.sum().is_none() && round.server.message_for(n - 1).is_none());
        }
    }
}

#[test]
fn identities_tolerate_drop_outs_and_refuse_unknown_keys() {
    let signed = Config { signed: true, ..config(20) };
    for step in 0..5 {
        let mut dropped = nobody();
        dropped[step] = [1, 4, 7, 9, 12, 19].into();
        let sum = Round::new(&signed).run(&dropped).unwrap();
        assert_eq!(sum.words, expected(&sum.counted), "step {step}");
    }
    let mut round = Round::new(&signed);
    round.step(&BTreeSet::new()).unwrap();
    let down = Neighbours::decode(&round.server.message_for(0).unwrap()).unwrap();
    let stranger = down.peers[4].0;
    let few: Roster =
        KNOWN.iter().zip(0..).filter(|(_, client)| *client != stranger).map(|(own, _)| own.public()).collect();
    let mut device = Device::new(signed, 0, seed("device", 0), Some(Identity::new(&seed("identity", 0), few))).unwrap();
    let identity = KNOWN[stranger as usize].public();
    assert_eq!(device.share(&down), Err(DeviceError::Unknown(stranger, identity)));
    assert!(round.devices[0].share(&down).is_ok());
}

#[test]
fn server_rejects_false_signatures() {
    let signed = Config { signed: true, ..config(5) };
    let mut round = Round::new(&signed);
    let own = round.devices[0].advertise();
    let mut forged = own.clone();
    forged.keys.masks[0] ^= 1;
    let false_keys = Err(RejectedMessage::Signature(0, "keys"));
    assert_eq!(round.server.receive(0, &forged.encode()), false_keys);
    // Signed for a round with another threshold.
    let told = Config { dropout: 0.2, ..signed.clone() };
    let misled = Device::new(told, 0, seed("device", 0), Some(KNOWN[0].clone())).unwrap();
    assert_eq!(round.server.receive(0, &misled.advertise().encode()), false_keys);
    let mut bare = own;
    bare.keys.signed = None;
    assert_eq!(round.server.receive(0, &bare.encode()), Err(RejectedMessage::Identity(0)));
    round.server.receive(0, &round.devices[0].advertise().encode()).unwrap();
    let again = Device::new(signed.clone(), 1, seed("device", 1), Some(KNOWN[0].clone())).unwrap();
    assert_eq!(round.server.receive(1, &again.advertise().encode()), Err(RejectedMessage::DuplicateIdentity(1)));

    let mut round = Round::new(&signed);
    for _ in 0..3 {
        round.step(&BTreeSet::new()).unwrap();
    }
    let down = Survivors::decode(&round.server.message_for(2).unwrap()).unwrap();
    let mut confirm = round.devices[2].confirm(&down).unwrap();
    confirm.signatures[1].1[40] ^= 1;
    let false_confirmations = Err(RejectedMessage::Signature(2, "confirmations"));
    assert_eq!(round.server.receive(2, &confirm.encode()), false_confirmations);
}

#[test]
fn devices_with_different_configurations_reject_each_other() {
    let signed = Config { signed: true, ..config(5) };
    let mut round = Round::new(&signed);
    round.step(&BTreeSet::new()).unwrap();
    let down = Neighbours::decode(&round.server.message_for(0).unwrap()).unwrap();
    // A server that tells one device of a round with a lower threshold.
    let told = Config { colluding: 0.0, ..signed };
    let mut misled = Device::new(told, 0, seed("device", 0), Some(KNOWN[0].clone())).unwrap();
    assert_eq!(misled.share(&down), Err(DeviceError::Unsigned(down.peers[0].0)));
}

/// A server that tells all devices but one other terms or another model, to read that one's update off the sum. Without
/// identities nothing in the keys gives it away; the shares do: the one sends no input, and as nobody can read its
/// shares, the masks that the others have in common with it stay on their sum.
#[test]
fn a_device_told_different_terms_sends_no_input_and_no_sum_is_opened() {
    let (victim, others) = (2, config(20).bound_to([1; 32]));
    let mut round = Round::new(&others);
    round.devices[victim as usize] =
        Device::new(config(20).bound_to([2; 32]), victim, seed("device", victim), None).unwrap();
    round.step(&BTreeSet::new()).unwrap();
    round.step(&BTreeSet::new()).unwrap();
    let down = EncryptedShares::decode(&round.server.message_for(victim).unwrap()).unwrap();
    let refused = round.devices[victim as usize].mask(&down, &input(victim)).unwrap_err();
    assert!(matches!(refused, DeviceError::TooFew("sent shares that decrypt", 0, _)), "{refused:?}");
    let gone = BTreeSet::from([victim]);
    round.step(&gone).unwrap();
    let aborted = round.step(&gone).unwrap_err();
    assert!(matches!(aborted, AbortReason::TooFew(Step::Unmask, client, 0, _) if client == victim), "{aborted:?}");
}

#[test]
fn server_notices_masks_that_do_not_cancel() {
    let mut round = brought_to(Step::Mask);
    for client in 0..20 {
        let down = round.server.message_for(client).unwrap();
        let mut up = Masked::decode(&answer(&mut round.devices[client as usize], Step::Mask, &down).unwrap()).unwrap();
        if client == 7 {
            // As from a device whose masks were derived from something else.
            up.words.iter_mut().zip(input(8)).for_each(|(word, other)| *word = word.wrapping_add(other));
            *up.words.last_mut().unwrap() ^= 0x9e37_79b9;
        }
        round.server.receive(client, &up.encode()).unwrap();
    }
    round.server.close_step().unwrap();
    assert_eq!(round.step(&BTreeSet::new()), Err(AbortReason::Residue(20)));
    assert!(round.server.sum().is_none());
}

#[test]
fn unconfirmed_devices_are_not_in_the_last_step() {
    let mut round = Round::new(&Config { signed: true, ..config(20) });
    let mut dropped = BTreeSet::new();
    for step in 0..4 {
        dropped.extend((step == 3).then_some(7));
        round.step(&dropped).unwrap();
    }
    assert_eq!(round.server.step(), Step::Unmask);
    assert!(!round.server.is_participant(7) && round.server.message_for(7).is_none());
    assert_eq!(round.server.waiting_for().len(), 19);
    round.step(&BTreeSet::new()).unwrap();
    let sum = round.server.sum().unwrap();
    assert_eq!((sum.counted.len(), sum.words), (20, expected(&sum.counted)));
}

#[test]
fn overhead_bytes_are_those_sent() {
    for signed in [false, true] {
        let config = Config { signed, ..config(20) };
        let mut round = Round::new(&config);
        round.run(&nobody()).unwrap();
        let all: usize = round.sent.iter().map(|step| step[&3].len()).sum();
        let beside = overhead_bytes(20, config.dropout, config.colluding, signed);
        assert_eq!(beside, (all - 4 * config.length as usize) as u64, "signed: {signed}");
    }
}

#[test]
fn unconfirmed_device_reveals_no_shares() {
    let mut round = Round::new(&Config { signed: true, ..config(20) });
    for _ in 0..4 {
        round.step(&BTreeSet::new()).unwrap();
    }
    let mut confirmed = Confirmations::decode(&round.server.message_for(0).unwrap()).unwrap();
    // A confirmation of another device's, and all but too few of its own.
    let foreign = Confirmations::decode(&round.server.message_for(1).unwrap()).unwrap();
    confirmed.signatures.iter_mut().zip(foreign.signatures).skip(5).for_each(|(own, other)| own.1 = other.1);
    let refusal = round.devices[0].unmask_confirmed(&confirmed).unwrap_err();
    assert!(matches!(refusal, DeviceError::TooFew(_, 5, _)), "{refusal}");
}

#[test]
fn server_is_rebuilt_from_messages() {
    let mut dropped = nobody();
    dropped[1].insert(3);
    dropped[2] = [5, 7].into();
    dropped[4] = [0, 11].into();
    let mut first = Round::new(&config(20));
    let sum = first.run(&dropped).unwrap();
    let mut again = Server::new(config(20), [6; 32]).unwrap();
    for step in &first.sent {
        // In another order than they came.
        for (&client, bytes) in step.iter().rev() {
            assert_eq!(again.receive(client, bytes), Ok(Receipt::New));
            assert_eq!(again.receive(client, bytes), Ok(Receipt::Duplicate));
        }
        again.close_step().unwrap();
    }
    assert_eq!(again.sum(), Some(sum));
}

/// A round of 20 brought to a step, with devices that all answered so far.
fn brought_to(step: Step) -> Round {
    let mut round = Round::new(&config(20));
    while round.server.step() != step {
        round.step(&BTreeSet::new()).unwrap();
    }
    round
}

#[test]
fn device_refuses_invalid_neighbours() {
    let mut round = brought_to(Step::Share);
    let good = Neighbours::decode(&round.server.message_for(2).unwrap()).unwrap();
    let device = &mut round.devices[2];
    let mut refused = |change: &dyn Fn(&mut Neighbours)| {
        let mut bad = good.clone();
        change(&mut bad);
        device.share(&bad).unwrap_err()
    };
    assert!(matches!(refused(&|bad| bad.header.round = RoundId(9)), DeviceError::WrongRecipient(..)));
    assert!(matches!(refused(&|bad| bad.header.client = 3), DeviceError::WrongRecipient(..)));
    assert!(matches!(refused(&|bad| bad.devices = 4), DeviceError::Config(ConfigError::Devices(..))));
    assert!(matches!(refused(&|bad| bad.devices = 19), DeviceError::Neighbours(..)));
    assert!(matches!(refused(&|bad| bad.peers.truncate(18)), DeviceError::Neighbours(..)));
    assert!(matches!(refused(&|bad| bad.peers[1] = bad.peers[0].clone()), DeviceError::Unexpected(..)));
    assert!(matches!(refused(&|bad| bad.peers[1].0 = 2), DeviceError::Unexpected(..)));
    assert_eq!(refused(&|bad| bad.peers[3].1.masks = bad.peers[2].1.masks), DeviceError::Key(good.peers[3].0));
    // A point of small order: the same secret with every key.
    assert_eq!(refused(&|bad| bad.peers[3].1.encryption = [0; 32]), DeviceError::Key(good.peers[3].0));
    assert!(device.share(&good).is_ok());
    let mut other = good.clone();
    other.peers[0].1.masks = [7; 32];
    assert_eq!(device.share(&other), Err(DeviceError::Changed("the list of neighbours")));
}

#[test]
fn device_goes_on_without_boxes_that_do_not_open_and_refuses_a_second_input() {
    let mut round = brought_to(Step::Mask);
    let good = EncryptedShares::decode(&round.server.message_for(2).unwrap()).unwrap();
    let device = &mut round.devices[2];
    let honest = Device::restore(&device.save(), None).unwrap().mask(&good, &input(2));
    let mut broken = good.clone();
    broken.encrypted[4].1[10] ^= 1;
    broken.encrypted[7].1 = good.encrypted[5].1;
    // Masks do not depend on boxes: who sends a bad one changes nobody's input.
    assert_eq!(Device::restore(&device.save(), None).unwrap().mask(&broken, &input(2)), honest);
    let mut mostly = good.clone();
    mostly.encrypted[5..].iter_mut().for_each(|(_, sent)| sent[10] ^= 1);
    assert!(matches!(device.mask(&mostly, &input(2)), Err(DeviceError::TooFew(_, 5, _))));
    let few = EncryptedShares { encrypted: good.encrypted[..5].to_vec(), ..good.clone() };
    assert!(matches!(device.mask(&few, &input(2)), Err(DeviceError::TooFew(_, 5, _))));
    assert!(matches!(device.mask(&good, &[1, 2]), Err(DeviceError::Length(2, _))));
    let masked = device.mask(&good, &input(2)).unwrap();
    assert_eq!(device.mask(&good, &input(2)), Ok(masked));
    assert_eq!(device.mask(&good, &input(3)), Err(DeviceError::Changed("the input")));
    let fewer = EncryptedShares { encrypted: good.encrypted[1..].to_vec(), ..good };
    assert_eq!(device.mask(&fewer, &input(2)), Err(DeviceError::Changed("the encrypted shares")));
}

#[test]
fn device_answers_one_valid_list_of_survivors() {
    let mut round = brought_to(Step::Unmask);
    let good = Survivors::decode(&round.server.message_for(2).unwrap()).unwrap();
    let dropped = |who: std::ops::Range<usize>| Survivors {
        survived: good
            .survived
            .iter()
            .enumerate()
            .filter(|(i, _)| !who.contains(i))
            .map(|(_, client)| *client)
            .collect(),
        dropped: good.survived[who].to_vec(),
        ..good.clone()
    };
    let device = &mut round.devices[2];
    assert!(matches!(device.unmask(&dropped(0..10)), Err(DeviceError::TooFew("survived", _, _))));
    let both = Survivors { dropped: good.survived[..1].to_vec(), ..good.clone() };
    assert!(matches!(device.unmask(&both), Err(DeviceError::Changed(_))));
    let fewer = Survivors { survived: good.survived[1..].to_vec(), ..good.clone() };
    assert!(matches!(device.unmask(&fewer), Err(DeviceError::Changed(_))));
    let given = device.unmask(&dropped(0..2)).unwrap();
    assert!(
        matches!(given.shares[0].1, RevealedShare::MaskKey(_))
            && matches!(given.shares[2].1, RevealedShare::SelfMask(_))
    );
    // Also after a restart: the other share of the same peers is not to be had.
    let mut again = Device::restore(&device.save(), None).unwrap();
    assert_eq!(again.unmask(&good), Err(DeviceError::Changed("the list of survivors")));
    assert_eq!(again.unmask(&dropped(0..2)), Ok(given));
}

/// What some devices of a round of 20 send instead of the truth.
#[derive(Clone, Copy)]
enum Lie {
    /// A box that does not open, to so many neighbours.
    Boxes(usize),
    /// A false share of so many neighbours' secrets.
    Shares(usize),
    /// That the boxes of so many neighbours do not open.
    Complaints(usize),
    /// A commitment to another seed.
    Commitment,
}

/// The end of a round with liars, and who is suspected.
fn with_liars(liars: &[ClientIndex], lie: Lie) -> (Result<Sum, AbortReason>, Vec<(ClientIndex, Suspicion)>) {
    let mut round = brought_to(Step::Share);
    while round.server.step() != Step::Done && round.server.aborted().is_none() {
        for client in round.server.waiting_for() {
            let down = round.server.message_for(client).unwrap();
            let step = round.server.step();
            let up = answer(&mut round.devices[client as usize], step, &down).unwrap();
            let up = if liars.contains(&client) { falsified(step, &up, lie) } else { up };
            assert_eq!(round.server.receive(client, &up), Ok(Receipt::New));
        }
        let _closed = round.server.close_step();
    }
    let ended = round.server.aborted().cloned().map_or_else(|| Ok(round.server.sum().unwrap()), Err);
    (ended, round.server.suspects())
}

fn falsified(step: Step, up: &[u8], lie: Lie) -> Vec<u8> {
    match (step, lie) {
        (Step::Share, Lie::Boxes(count)) => {
            let mut shares = Shares::decode(up).unwrap();
            shares.encrypted.iter_mut().take(count).for_each(|(_, sent)| sent[20] ^= 1);
            shares.encode()
        }
        (Step::Share, Lie::Commitment) => {
            let mut shares = Shares::decode(up).unwrap();
            shares.commitment[0] ^= 1;
            shares.encode()
        }
        (Step::Unmask, Lie::Shares(count)) => {
            let mut unmask = Unmask::decode(up).unwrap();
            for (_, revealed) in unmask.shares.iter_mut().take(count) {
                let (RevealedShare::SelfMask(share) | RevealedShare::MaskKey(share)) = revealed;
                share[31] ^= 0x80;
            }
            unmask.encode()
        }
        (Step::Unmask, Lie::Complaints(count)) => {
            let mut unmask = Unmask::decode(up).unwrap();
            unmask.shares.drain(..count);
            unmask.encode()
        }
        _ => up.to_vec(),
    }
}

#[test]
fn a_bad_box_costs_its_sender_and_not_the_round() {
    let everybody: Vec<ClientIndex> = (0..20).collect();
    let (ended, suspects) = with_liars(&[7], Lie::Boxes(3));
    let sum = ended.unwrap();
    assert_eq!((&sum.counted, sum.words), (&everybody, expected(&everybody)));
    assert_eq!(suspects, []);
    // Who sends nothing but bad boxes cannot be counted and is named: nobody could tell before it was.
    let (ended, suspects) = with_liars(&[7], Lie::Boxes(19));
    assert!(matches!(ended, Err(AbortReason::TooFew(Step::Unmask, 7, 0, _))), "{ended:?}");
    assert_eq!(suspects, [(7, Suspicion::Shares)]);
    let (ended, suspects) = with_liars(&[7], Lie::Commitment);
    assert_eq!((ended, suspects), (Err(AbortReason::Shares(7)), vec![(7, Suspicion::Shares)]));
}

#[test]
fn false_complaints_remove_nobody_but_name_who_complains() {
    let everybody: Vec<ClientIndex> = (0..20).collect();
    let (ended, suspects) = with_liars(&[3], Lie::Complaints(19));
    assert_eq!(ended.unwrap().words, expected(&everybody));
    assert_eq!(suspects, [(3, Suspicion::Neighbours)]);
    let (ended, suspects) = with_liars(&[3, 12], Lie::Complaints(4));
    assert_eq!((ended.unwrap().words, suspects), (expected(&everybody), vec![]));
}

#[test]
fn devices_that_send_false_shares_are_named_and_the_sum_is_exact() {
    let everybody: Vec<ClientIndex> = (0..20).collect();
    let (ended, suspects) = with_liars(&[0, 5], Lie::Shares(19));
    let sum = ended.unwrap();
    assert_eq!((&sum.counted, sum.words), (&everybody, expected(&everybody)));
    assert_eq!(suspects, [(0, Suspicion::Neighbours), (5, Suspicion::Neighbours)]);
}

/// Every point of small order on the curve and its twist, and other encodings of them (RFC 7748 masks the top bit).
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

#[test]
fn keys_of_small_order_are_refused_at_the_door() {
    let mut round = Round::new(&config(5));
    let own = round.devices[0].advertise();
    for point in SMALL_ORDER {
        let key: [u8; 32] = sottovoce_privacy::tokens::from_hex(point).unwrap().try_into().unwrap();
        let mut masked = key;
        masked[31] |= 0x80;
        for low in [key, masked] {
            let keys =
                [PublicKeys { encryption: low, ..own.keys.clone() }, PublicKeys { masks: low, ..own.keys.clone() }];
            for keys in keys {
                let low = Advertise { keys, ..own.clone() };
                assert_eq!(round.server.receive(0, &low.encode()), Err(RejectedMessage::LowOrder(0)), "{point}");
            }
        }
    }
    assert_eq!(round.server.receive(0, &own.encode()), Ok(Receipt::New));
}

#[test]
fn messages_are_checked_without_being_counted_and_bounded_by_step() {
    let mut round = Round::new(&config(20));
    while round.server.step() != Step::Done {
        let limit = round.server.message_limit();
        for client in round.server.waiting_for() {
            let down = round.server.message_for(client).unwrap_or_default();
            let up = answer(&mut round.devices[client as usize], round.server.step(), &down).unwrap();
            assert!(round.server.step() == Step::Mask || up.len() as u64 <= limit);
            assert!(round.server.check(client, &up[..up.len() - 1]).is_err());
            assert!(round.server.check(client, &up).is_ok() && !round.server.has(client));
            let checked = round.server.check(client, &up).unwrap();
            assert_eq!(round.server.accept(checked), Ok(Receipt::New));
        }
        round.server.close_step().unwrap();
    }
    assert_eq!(round.server.sum().unwrap().words, expected(&(0..20).collect::<Vec<_>>()));
}

#[test]
fn messages_of_earlier_steps_are_late_and_nothing_worse() {
    let mut round = brought_to(Step::Mask);
    for step in 0..2 {
        let late = round.sent[step][&3].clone();
        let rejected = round.server.receive(3, &late).unwrap_err();
        assert!(rejected.is_late(), "{rejected}");
    }
    let junk = round.server.receive(3, &[7; 40]).unwrap_err();
    assert!(!junk.is_late(), "{junk}");
    round.step(&[5].into()).unwrap();
    // It was too slow with its input, and has no part any more.
    assert!(round.server.receive(5, &round.sent[1][&5].clone()).unwrap_err().is_late());
}

#[test]
fn steps_out_of_order_are_refused() {
    let mut device = Device::new(config(5), 0, [1; 32], None).unwrap();
    let header = device.advertise().header;
    assert_eq!(
        device.mask(&EncryptedShares { header, encrypted: vec![] }, &input(0)),
        Err(DeviceError::TooEarly("the encrypted shares"))
    );
    let survivors = Survivors { header, survived: vec![], dropped: vec![] };
    assert_eq!(device.unmask(&survivors), Err(DeviceError::TooEarly("the list of survivors")));
    assert!(matches!(Device::new(config(5), 5, [1; 32], None), Err(DeviceError::Client(..))));
    let signed = Config { signed: true, ..config(5) };
    assert!(matches!(Device::new(signed, 0, [1; 32], None), Err(DeviceError::Identity)));
}

#[test]
fn server_rejects_wrong_senders_and_repeated_keys() {
    let mut round = Round::new(&config(5));
    let own = round.devices[0].advertise();
    let server = &mut round.server;
    assert!(matches!(server.receive(1, &own.encode()), Err(RejectedMessage::WrongSender(..))));
    assert!(matches!(server.receive(5, &own.encode()), Err(RejectedMessage::NotParticipating(..))));
    assert!(matches!(server.receive(0, &own.encode()[1..]), Err(RejectedMessage::Malformed(..))));
    server.receive(0, &own.encode()).unwrap();
    let mut other = own.clone();
    other.keys.masks = [9; 32];
    assert!(matches!(server.receive(0, &other.encode()), Err(RejectedMessage::Changed(..))));
    other.header.client = 1;
    assert_eq!(server.receive(1, &other.encode()), Err(RejectedMessage::Key(1)));
}

#[test]
fn recovers_from_few_false_shares_and_aborts_with_many() {
    for (liars, ends) in [(vec![4], false), ((4..11).collect::<Vec<ClientIndex>>(), true)] {
        let mut round = brought_to(Step::Unmask);
        for client in 0..20 {
            let down = round.server.message_for(client).unwrap();
            let mut up =
                Unmask::decode(&answer(&mut round.devices[client as usize], Step::Unmask, &down).unwrap()).unwrap();
            if liars.contains(&client) {
                up.shares.iter_mut().for_each(|(_, share)| *share = RevealedShare::SelfMask([client as u8; 32]));
            }
            round.server.receive(client, &up.encode()).unwrap();
        }
        match round.server.close_step() {
            Ok(step) => assert!(
                !ends
                    && step == Step::Done
                    && round.server.sum().unwrap().words == expected(&(0..20).collect::<Vec<_>>())
            ),
            Err(why) => assert!(ends && matches!(why, AbortReason::Shares(_)), "{why}"),
        }
    }
}

#[test]
fn server_rejects_shares_of_the_wrong_secret() {
    let mut round = brought_to(Step::Unmask);
    let down = round.server.message_for(2).unwrap();
    let mut up = Unmask::decode(&answer(&mut round.devices[2], Step::Unmask, &down).unwrap()).unwrap();
    up.shares[0].1 = RevealedShare::MaskKey([1; 32]);
    assert_eq!(round.server.receive(2, &up.encode()), Err(RejectedMessage::List(2, "shares")));
}

fn every_decoder(bytes: &[u8]) {
    let _ = Advertise::decode(bytes);
    let _ = Neighbours::decode(bytes);
    let _ = Shares::decode(bytes);
    let _ = EncryptedShares::decode(bytes);
    let _ = Masked::decode(bytes);
    let _ = Survivors::decode(bytes);
    let _ = Confirm::decode(bytes);
    let _ = Confirmations::decode(bytes);
    let _ = Unmask::decode(bytes);
    let _ = Device::restore(bytes, None);
}

/// Messages of all kinds from a real round, up and down, and a saved device.
static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(samples);

fn samples() -> Vec<Vec<u8>> {
    let mut round = Round::new(&Config { signed: true, ..config(5) });
    let mut found = Vec::new();
    while round.server.step() != Step::Done {
        found.extend(round.server.message_for(1));
        round.step(&BTreeSet::new()).unwrap();
        found.push(round.sent.last().unwrap()[&1].clone());
    }
    found.push(round.devices[1].save());
    found
}

#[test]
fn rejects_truncated_and_extended_messages() {
    let samples = &*SAMPLES;
    assert_eq!(samples.len(), 10);
    let masked = samples.iter().find(|sample| sample[1] == Masked::KIND).unwrap();
    assert!(Masked::decode(masked).is_ok());
    for end in 0..masked.len() {
        assert!(Masked::decode(&masked[..end]).is_err());
    }
    assert_eq!(Masked::decode(&[masked.as_slice(), &[0]].concat()), Err(sottovoce_protocol::DecodeError::Trailing(1)));
}

proptest! {
    #[test]
    fn decoding_never_panics_on_arbitrary_bytes(kind in 0u8..12, mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        every_decoder(&bytes);
        if let [form, of, ..] = bytes.as_mut_slice() {
            (*form, *of) = (1, kind);
        }
        every_decoder(&bytes);
    }

    #[test]
    fn decoding_never_panics_on_changed_messages(which in 0usize..10, at: prop::sample::Index, to: u8) {
        let mut bytes = SAMPLES[which].clone();
        let at = at.index(bytes.len());
        bytes[at] = to;
        every_decoder(&bytes);
    }

    #[test]
    fn masked_inputs_round_trip(words: Vec<u32>, client: u32) {
        let header = Header { federation: FederationId(1), round: RoundId(2), client };
        let masked = Masked { header, words };
        prop_assert_eq!(Masked::decode(&masked.encode()), Ok(masked));
    }
}
