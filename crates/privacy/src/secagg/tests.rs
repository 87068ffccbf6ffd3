//! What a coalition of the server and some devices can learn of an honest device's input: nothing below the threshold,
//! everything from it on.
//!
//! The coalition sees every message and everything that its devices know. A round with honest inputs `x` is *explained*
//! by other honest inputs `x'` if there are masks and shares, unknown to the coalition, with which `x'` gives the same
//! view byte for byte. Masks and shares are as likely as those of the real round (uniform in the hybrid where
//! keystreams, key agreement and ciphers are ideal), so then the view says nothing of which of the two it was.

use super::device::Device;
use super::shamir::{self, Share};
use super::*;
use crate::SecureRng;
use proptest::prelude::*;
use sottovoce_protocol::{FederationId, RoundId};
use std::collections::{BTreeMap, BTreeSet};

const LENGTH: usize = 4;
type Input = Vec<u32>;
type KnownShares = BTreeMap<ClientIndex, BTreeMap<u8, Share>>;

/// A round up to its last message, and who is in it with the server.
struct Transcript {
    server: Server,
    devices: Vec<Device>,
    inputs: Vec<Input>,
    colluding: BTreeSet<ClientIndex>,
    masked: BTreeMap<ClientIndex, Input>,
    /// Shares that the coalition has: of own masks' seeds, and of mask keys.
    own: KnownShares,
    keys: KnownShares,
}

fn random_inputs(n: u32, source: &mut SecureRng) -> Vec<Input> {
    (0..n).map(|_| (0..LENGTH).map(|_| source.next_u32()).collect()).collect()
}

impl Transcript {
    /// `dropped` share, and then send no input.
    fn new(
        config: &Config,
        inputs: Vec<Input>,
        dropped: &BTreeSet<ClientIndex>,
        colluding: BTreeSet<ClientIndex>,
        source: &SecureRng,
    ) -> Self {
        let device = |client: ClientIndex| {
            Device::new(config.clone(), client, source.stream("device", client.into()).seed(), None).unwrap()
        };
        let devices = (0..config.devices).map(device).collect();
        let server = Server::new(config.clone(), source.stream("server", 0).seed()).unwrap();
        let (masked, own, keys) = Default::default();
        let mut whole = Self { server, devices, inputs, colluding, masked, own, keys };
        whole.run(dropped);
        whole.know_held();
        whole
    }

    fn run(&mut self, dropped: &BTreeSet<ClientIndex>) {
        for client in 0..self.devices.len() as ClientIndex {
            self.server.receive(client, &self.devices[client as usize].advertise().encode()).unwrap();
        }
        self.server.close_step().unwrap();
        for client in self.server.waiting_for() {
            let down = Neighbours::decode(&self.server.message_for(client).unwrap()).unwrap();
            let up = self.devices[client as usize].share(&down).unwrap();
            self.server.receive(client, &up.encode()).unwrap();
        }
        self.server.close_step().unwrap();
        for client in self.server.waiting_for().into_iter().filter(|client| !dropped.contains(client)) {
            let down = EncryptedShares::decode(&self.server.message_for(client).unwrap()).unwrap();
            let up = self.devices[client as usize].mask(&down, &self.inputs[client as usize]).unwrap();
            self.server.receive(client, &up.encode()).unwrap();
            self.masked.insert(client, without_check_word(up.words));
        }
        self.server.close_step().unwrap();
        for client in self.server.waiting_for() {
            let down = Survivors::decode(&self.server.message_for(client).unwrap()).unwrap();
            let up = self.devices[client as usize].unmask(&down).unwrap();
            self.server.receive(client, &up.encode()).unwrap();
            self.know(client, &up);
        }
        self.server.close_step().unwrap();
    }

    fn know(&mut self, holder: ClientIndex, up: &Unmask) {
        for (owner, revealed) in &up.shares {
            let point = graph::point(self.server.neighbours(*owner), holder).unwrap();
            let (known, share) = match revealed {
                RevealedShare::SelfMask(share) => (&mut self.own, share),
                RevealedShare::MaskKey(share) => (&mut self.keys, share),
            };
            known.entry(*owner).or_default().insert(point, *share);
        }
    }

    /// What colluding devices hold, they tell whether the protocol asks for it or not.
    fn know_held(&mut self) {
        for holder in &self.colluding {
            for held in self.devices[*holder as usize].held.iter().flatten() {
                let point = graph::point(self.server.neighbours(held.client), *holder).unwrap();
                self.own.entry(held.client).or_default().insert(point, held.self_mask);
                self.keys.entry(held.client).or_default().insert(point, held.mask_key);
            }
        }
    }

    fn threshold(&self) -> usize {
        self.server.threshold() as usize
    }

    fn opens(&self, known: &KnownShares, owner: ClientIndex) -> Option<[u8; 32]> {
        let shares: Vec<(u8, Share)> = known.get(&owner)?.iter().map(|(point, share)| (*point, *share)).collect();
        (shares.len() >= self.threshold()).then(|| shamir::combine(&shares[..self.threshold()]))?
    }

    fn honest_counted(&self) -> Vec<ClientIndex> {
        self.masked.keys().copied().filter(|client| !self.colluding.contains(client)).collect()
    }

    /// Honest devices that are counted and joined by masks that the coalition cannot compute, in the order of a search
    /// from the first of each group, each with the one it was found from.
    fn groups(&self) -> Vec<Vec<(ClientIndex, Option<ClientIndex>)>> {
        let mut left: BTreeSet<ClientIndex> = self.honest_counted().into_iter().collect();
        let hidden =
            |a: ClientIndex, b: ClientIndex| self.opens(&self.keys, a).is_none() && self.opens(&self.keys, b).is_none();
        let mut groups = Vec::new();
        while let Some(first) = left.pop_first() {
            let mut group = vec![(first, None)];
            let mut at = 0;
            while at < group.len() {
                let from = group[at].0;
                let found: Vec<ClientIndex> = self
                    .server
                    .neighbours(from)
                    .iter()
                    .copied()
                    .filter(|&other| left.contains(&other) && hidden(from, other))
                    .collect();
                left.retain(|other| !found.contains(other));
                group.extend(found.into_iter().map(|other| (other, Some(from))));
                at += 1;
            }
            groups.push(group);
        }
        groups
    }

    /// The round with other honest inputs, by masks between honest devices other than the real ones: what each must
    /// differ by follows from the leaves of each group to its first. Gives what the devices then send.
    fn explained_by(
        &self,
        others: &[Input],
        dropped: &BTreeSet<ClientIndex>,
        source: &SecureRng,
    ) -> BTreeMap<ClientIndex, Input> {
        let devices = self.devices.len() as u32;
        let config = Config { devices, ..self.server.config().clone() };
        let mut sent = Self::new(&config, others.to_vec(), dropped, self.colluding.clone(), source).masked;
        for group in self.groups() {
            for (client, from) in group.into_iter().rev() {
                if let Some(from) = from {
                    let shift: Input = difference(&self.masked[&client], &sent[&client]);
                    // The mask of the pair is added on one side and taken away on the other.
                    add(sent.get_mut(&client).unwrap(), &shift);
                    let other = sent.get_mut(&from).unwrap();
                    *other = difference(other, &shift);
                }
            }
        }
        sent
    }

    /// Everything that the coalition can do to one masked input: take off each mask whose key it can compute.
    fn attack(&self, victim: ClientIndex) -> Input {
        let mut words = self.masked[&victim].clone();
        if let Some(own) = self.opens(&self.own, victim) {
            mask::add_keystream(&keys::self_mask_key(self.server.config(), victim, &own), true, &mut words);
        }
        for peer in self.server.neighbours_in(victim, &self.server.shares) {
            if let Some(key) = self.pair_key(victim, peer) {
                mask::add_keystream(&key, victim < peer, &mut words);
            }
        }
        words
    }

    fn pair_key(&self, victim: ClientIndex, peer: ClientIndex) -> Option<[u8; 32]> {
        let known = |client: ClientIndex| match self.colluding.contains(&client) {
            true => Some(*keys::Secrets::new(self.devices[client as usize].seed).masks.as_bytes()),
            false => self.opens(&self.keys, client),
        };
        let (secret, own, other) = known(victim)
            .map(|secret| (secret, victim, peer))
            .or_else(|| known(peer).map(|key| (key, peer, victim)))?;
        keys::pair_key(self.server.config(), (own, &secret.into()), (other, &self.server.keys[&other].masks))
    }
}

fn add(words: &mut [u32], more: &[u32]) {
    mask::add_words(words, more);
}

/// All devices add the same word, so it says nothing of an input.
fn without_check_word(mut words: Input) -> Input {
    words.truncate(LENGTH);
    words
}

fn difference(a: &[u32], b: &[u32]) -> Input {
    a.iter().zip(b).map(|(a, b)| a.wrapping_sub(*b)).collect()
}

fn sum<'a>(all: impl Iterator<Item = &'a Input>) -> Input {
    all.fold(vec![0; LENGTH], |mut total, words| {
        add(&mut total, words);
        total
    })
}

/// Other inputs for honest devices, with the same sum in each group.
fn others(round: &Transcript, source: &mut SecureRng) -> Vec<Input> {
    let mut inputs = round.inputs.clone();
    for group in round.groups() {
        let clients: Vec<usize> = group.iter().map(|(client, _)| *client as usize).collect();
        clients.iter().for_each(|&client| inputs[client].iter_mut().for_each(|word| *word = source.next_u32()));
        let missing =
            difference(&sum(clients.iter().map(|&s| &round.inputs[s])), &sum(clients.iter().map(|&s| &inputs[s])));
        add(&mut inputs[clients[0]], &missing);
    }
    inputs
}

/// Any other secret has shares that agree with all that the coalition holds: `f(0)` is free while fewer than
/// `threshold` points of `f` are known. Gives shares at all of `count` points.
fn other_shares(known: &BTreeMap<u8, Share>, secret: [u8; 32], threshold: usize, count: u8) -> Vec<Share> {
    let mut points: Vec<(u8, Share)> = known.iter().map(|(point, share)| (*point, *share)).collect();
    points.push((0, secret));
    points.extend((1..=count).filter(|point| !known.contains_key(point)).map(|point| (point, [point; 32])));
    points.truncate(threshold);
    let at = |x: u8| match points.iter().find(|(point, _)| *point == x) {
        Some((_, share)) => *share,
        // The field has characteristic 2: f(x) is the value at 0 of the same points moved by x.
        None => shamir::combine(&points.iter().map(|(point, share)| (point ^ x, *share)).collect::<Vec<_>>()).unwrap(),
    };
    (1..=count).map(at).collect()
}

fn config(n: u32) -> Config {
    let threat_model = (n > 32).then_some(ThreatModel::SemiHonest);
    Config { threat_model, ..Config::new(FederationId(1), RoundId(2), n, LENGTH as u32) }
}

/// Seats drawn without order.
fn draw(n: u32, count: u32, source: &mut SecureRng) -> BTreeSet<ClientIndex> {
    let mut drawn = BTreeSet::new();
    while drawn.len() < count as usize {
        drawn.insert(source.next_u32() % n);
    }
    drawn
}

/// A round with the most colluding devices that must learn nothing, and some lost.
fn below_threshold(n: u32, source: &SecureRng) -> (Transcript, BTreeSet<ClientIndex>) {
    let (config, mut free) = (config(n), source.stream("test", 0));
    let parameters = config.parameters(n).unwrap();
    let lost = free.next_u32() % (parameters.dropped + 1);
    let dropped = draw(n, lost, &mut free);
    let colluding = draw(n, free.next_u32() % parameters.threshold, &mut free);
    let inputs = random_inputs(n, &mut free);
    (Transcript::new(&config, inputs, &dropped, colluding, source), dropped)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn below_the_threshold_the_view_fits_any_inputs_of_the_same_sum(
        n in 5u32..12, seed: [u8; 32],
    ) {
        explain(n, seed);
    }

    #[test]
    fn below_the_threshold_the_shares_fit_any_mask_key(n in 5u32..12, seed: [u8; 32], other: [u8; 32]) {
        let (round, _) = below_threshold(n, &SecureRng::new(seed));
        let count = round.server.neighbours(0).len() as u8;
        for client in round.honest_counted() {
            let known = round.keys.get(&client).cloned().unwrap_or_default();
            prop_assert!(known.len() < round.threshold());
            let shares = other_shares(&known, other, round.threshold(), count);
            prop_assert!(known.iter().all(|(point, share)| shares[usize::from(*point) - 1] == *share));
            let honest: Vec<(u8, Share)> = (1..).zip(shares).collect();
            prop_assert_eq!(shamir::combine(&honest[honest.len() - round.threshold()..]), Some(other));
        }
    }

    #[test]
    fn at_the_threshold_the_attack_succeeds(n in 5u32..12, seed: [u8; 32]) {
        let source = SecureRng::new(seed);
        let config = config(n);
        let threshold = config.parameters(n).unwrap().threshold;
        let inputs = random_inputs(n, &mut source.stream("test", 0));
        for (colluders, succeeds) in [(threshold - 1, false), (threshold, true)] {
            let colluding = (n - colluders..n).collect();
            let round = Transcript::new(&config, inputs.clone(), &BTreeSet::new(), colluding, &source);
            for client in round.honest_counted() {
                prop_assert_eq!(round.attack(client) == inputs[client as usize], succeeds);
            }
        }
    }

    #[test]
    fn inconsistent_survivor_lists_do_not_reveal_both_secrets(n in 5u32..12, more: bool, seed: [u8; 32]) {
        let source = SecureRng::new(seed);
        let config = config(n);
        let parameters = config.parameters(n).unwrap();
        prop_assert_eq!(parameters.threat_model, ThreatModel::Malicious);
        // One colluding device more than may be, or as many as may.
        let most = 2 * parameters.threshold - parameters.neighbours - 1;
        let colluders = most + u32::from(more);
        let inputs = random_inputs(n, &mut source.stream("test", 0));
        let victim = 0;
        let round = Transcript::new(&config, inputs, &BTreeSet::new(), BTreeSet::new(), &source);
        let best = (0..n).any(|split| lie(&round, victim, colluders, split));
        prop_assert_eq!(best, more);
    }
}

fn explain(n: u32, seed: [u8; 32]) {
    let source = SecureRng::new(seed);
    let (round, dropped) = below_threshold(n, &source);
    let inputs = others(&round, &mut source.stream("others", 0));
    assert_eq!(round.explained_by(&inputs, &dropped, &source), round.masked);
    for group in round.groups() {
        // Nobody is alone: its own input is not what a sum gives away.
        assert!(group.len() >= 2);
        for (client, _) in group {
            assert_ne!(inputs[client as usize], round.inputs[client as usize]);
            assert_ne!(round.attack(client), round.inputs[client as usize]);
        }
    }
}

#[test]
fn below_the_threshold_the_view_fits_any_inputs_on_a_sparse_graph() {
    assert!(!config(36).parameters(36).unwrap().complete());
    explain(36, [3; 32]);
}

/// The first `split` honest neighbours of the victim hear that it dropped out, the others that it did not; colluding
/// ones, the last, give all. Whether the server has both secrets of the victim then.
fn lie(round: &Transcript, victim: ClientIndex, colluders: u32, split: u32) -> bool {
    let config = round.server.config();
    let colluding: BTreeSet<ClientIndex> = (config.devices - colluders..config.devices).collect();
    let mut got = [BTreeSet::new(), BTreeSet::new()];
    for client in round.server.neighbours(victim) {
        if colluding.contains(client) {
            got.iter_mut().for_each(|shares| shares.extend([*client]));
            continue;
        }
        let mut device = Device { survivors: None, ..clone(&round.devices[*client as usize]) };
        let story = |told: bool| {
            let (dropped, survived) =
                round.server.neighbours(*client).iter().partition(|&&other| told && other == victim);
            Survivors { header: Header::new(config, *client), survived, dropped }
        };
        let given = device.unmask(&story(*client <= split)).unwrap().shares;
        let of_victim = given.iter().find(|(of, _)| *of == victim).unwrap().1;
        got[usize::from(matches!(of_victim, RevealedShare::MaskKey(_)))].insert(*client);
        // What it gave, it has given: the other story is refused.
        assert!(device.unmask(&story(*client > split)).is_err());
    }
    got.iter().all(|shares| shares.len() >= round.threshold())
}

fn clone(device: &Device) -> Device {
    Device::restore(&device.save(), None).unwrap()
}

/// An input that came after the server had counted its device out: of its masks all but its own can be had, and that is
/// enough.
#[test]
fn late_inputs_stay_hidden_by_the_self_mask() {
    let source = SecureRng::new([8; 32]);
    let (config, late) = (config(8), 3);
    let inputs = random_inputs(8, &mut source.stream("test", 0));
    let dropped = BTreeSet::from([late]);
    let mut round = Transcript::new(&config, inputs.clone(), &dropped, BTreeSet::from([5, 6]), &source);
    let received = EncryptedShares { header: Header::new(&config, late), encrypted: encrypted_for(&round, late) };
    let sent = round.devices[late as usize].mask(&received, &inputs[late as usize]).unwrap().words;
    round.masked.insert(late, without_check_word(sent));
    assert!(round.opens(&round.keys, late).is_some() && round.opens(&round.own, late).is_none());
    let found = round.attack(late);
    assert_ne!(found, inputs[late as usize]);
    // What is left is the input under the own mask, whose seed is free: any input explains it.
    let mut hidden = inputs[late as usize].clone();
    let own = keys::Secrets::new(round.devices[late as usize].seed).self_mask;
    mask::add_keystream(&keys::self_mask_key(&config, late, &own), false, &mut hidden);
    assert_eq!(found, hidden);
}

/// Should shares be exchanged all the same: masks of other terms are other masks, so the sum is noise.
#[test]
fn masks_of_other_terms_leave_noise_and_the_round_fails() {
    let source = SecureRng::new([9; 32]);
    let (config, victim) = (config(8), 3);
    let inputs = random_inputs(8, &mut source.stream("test", 0));
    let dropped = BTreeSet::from([victim]);
    let mut round = Transcript::new(&config, inputs.clone(), &dropped, BTreeSet::new(), &source);
    let received = EncryptedShares { header: Header::new(&config, victim), encrypted: encrypted_for(&round, victim) };
    let device = &mut round.devices[victim as usize];
    let honest = device.mask(&received, &inputs[victim as usize]).unwrap().words;
    device.config.binding = [1; 32];
    let misled = device.masked(device.held.as_ref().unwrap(), &inputs[victim as usize]).unwrap();
    assert!(honest.iter().zip(&misled).all(|(one, other)| one != other));
    // The mask keys of the victim are known here, as it counts as dropped out: what is left is under its self mask.
    for client in (0..8).filter(|client| *client != victim) {
        let (config, secrets) = (&round.devices[victim as usize].config, keys::Secrets::new(round.devices[3].seed));
        let public = &round.server.keys[&client].masks;
        let pair = |config| keys::pair_key(config, (victim, &secrets.masks), (client, public));
        assert_ne!(pair(config), pair(round.server.config()));
    }
}

fn encrypted_for(round: &Transcript, client: ClientIndex) -> Vec<(ClientIndex, [u8; keys::CIPHERTEXT])> {
    let from = |&other: &ClientIndex| {
        let shares = &round.server.shares[&other].encrypted;
        (other, shares.iter().find(|(to, _)| *to == client).unwrap().1)
    };
    round.server.neighbours(client).iter().map(from).collect()
}

/// Pearson's statistic of the bytes of words, over 256 kinds: near 255 if they are even.
fn unevenness(words: impl Iterator<Item = u32>) -> f64 {
    let mut counts = [0.0; 256];
    words.flat_map(u32::to_le_bytes).for_each(|byte| counts[usize::from(byte)] += 1.0);
    let even = counts.iter().sum::<f64>() / 256.0;
    counts.iter().map(|count| (count - even) * (count - even) / even).sum()
}

#[test]
fn masked_inputs_are_uniform() {
    let config = Config::new(FederationId(1), RoundId(2), 6, 20_000);
    for value in [0, 1, u32::MAX] {
        let inputs = vec![vec![value; 20_000]; 6];
        let round = Transcript::new(&config, inputs, &BTreeSet::new(), BTreeSet::new(), &SecureRng::new([2; 32]));
        for words in round.masked.values() {
            // Five standard deviations of 22.6.
            assert!((unevenness(words.iter().copied()) - 255.0).abs() < 113.0);
        }
        assert!(unevenness(round.inputs[0].iter().copied()) > 1e6);
        let both = difference(&round.masked[&0], &round.masked[&1]);
        assert!((unevenness(both.into_iter()) - 255.0).abs() < 113.0);
    }
}
