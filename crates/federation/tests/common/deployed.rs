//! A federation whose devices are not the simulator's: they run the client crate and exchange bytes with the server.

use super::{Given, builder};
use sottovoce_client::{Declined, DeviceRound, Digest, LoadedModel, NoFigures, Sealing, Secret, Seeds, Upload};
use sottovoce_core::{Catalog, Facts, Histories, History, Rng};
use sottovoce_federation::{Coordinator, DownloadMessage, FederationBuilder, KeeperKeys, Population};
use sottovoce_models::TensorData;
use sottovoce_privacy::{PrivacyMechanism, SecureRng, keeper, secagg};
use sottovoce_protocol::{Ledger, Policy, Received, RoundTerms, SharedModel, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The secrets of the keeper and of the server that asks it.
const KEEPER: ([u8; 32], [u8; 32]) = ([5; 32], [6; 32]);

/// What a device stores.
#[derive(Default)]
struct Device {
    history: Vec<u32>,
    sequence: Vec<u32>,
    private: Option<Vec<f32>>,
    disclosed: Option<Vec<f32>>,
    shared: Option<Arc<SharedModel>>,
}

/// A server and its devices, by user.
pub(crate) struct Deployment {
    pub(crate) server: Coordinator,
    devices: BTreeMap<u32, Device>,
    policy: Policy,
    model: &'static str,
    settings: Vec<Given>,
    builder: FederationBuilder,
    /// Loaded once for all devices: only its settings matter to the result.
    loaded: Option<LoadedModel>,
    order: Rng,
}

impl Deployment {
    /// Devices of users who can train; `settings` are the server's.
    pub(crate) fn new(
        (model, settings): (&'static str, &[Given]),
        (histories, catalog): (&Histories, Option<&Catalog>),
        policy: Policy,
        seed: u64,
    ) -> Self {
        let population = Population::of(histories);
        let items = histories.deduplicated();
        let device = |&user: &u32| {
            let [history, sequence] = [&items, histories].map(|all| all.of(user as usize).to_vec());
            (user, Device { history, sequence, ..Device::default() })
        };
        let devices: BTreeMap<u32, Device> = population.devices.iter().map(device).collect();
        let (key, opener) = (keeper::Keeper::new(KEEPER.0, 0, None).public(), keeper::opener(&KEEPER.1));
        let builder = FederationBuilder {
            keeper: Some(KeeperKeys { key, opener }),
            facts: catalog.and_then(|catalog| catalog.facts.clone()),
            ..builder(devices.len(), histories.catalog_size(), seed)
        };
        let mut coordinator = builder.build(model, settings.iter().cloned()).unwrap().coordinator;
        coordinator.ask_among(population.devices);
        let (settings, order) = (settings.to_vec(), Rng::new(99));
        Self { server: coordinator, devices, policy, model, settings, builder, loaded: None, order }
    }

    /// Another server that continues from the state of the first one.
    pub(crate) fn restart(&mut self) {
        let mut bytes = Vec::new();
        self.server.save(&mut bytes).unwrap();
        let mut other = self.builder.build(self.model, self.settings.iter().cloned()).unwrap().coordinator;
        other.ask_among(self.devices.keys().copied().collect());
        other.restore(&mut &bytes[..]).unwrap();
        self.server = other;
    }

    /// Trains for so many rounds, with a restart of the server after half of them.
    pub(crate) fn train(&mut self, rounds: u64) {
        for round in 0..rounds {
            if round == rounds / 2 {
                self.restart();
            }
            self.round();
        }
    }

    /// One round, in which devices answer in any order.
    fn round(&mut self) {
        self.server.check_budget().unwrap();
        let cohort = self.server.draw(&|_| true).cohort.to_vec();
        let terms = self.server.terms(cohort.len()).unwrap();
        let mut arriving: Vec<(u32, u32)> = (0..).zip(cohort.iter().copied()).collect();
        self.order.shuffle(&mut arriving);
        let uploads: BTreeMap<u32, (u32, Upload)> =
            arriving.into_iter().map(|(index, user)| (user, (index, self.answer((index, user), &terms)))).collect();
        let server = &mut self.server;
        let (mut updates, mut received) = (server.ordered_aggregator(&cohort), Received::new(server.layout()));
        let (mut quantized, mut sealed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let model = Digest::of(&server.distributed().parameters);
        let quantized_privacy = server.privacy().filter(|privacy| privacy.sends_quantized());
        let words = quantized_privacy.map_or(0, |privacy| privacy.quantizer().length());
        let kept_config = |privacy: &PrivacyMechanism| privacy.config().keeper_config(&terms, model.bytes(), words);
        let kept_by = server.privacy().and_then(kept_config);
        for (user, (index, upload)) in uploads {
            match (upload, &kept_by) {
                (Upload::Message(bytes), Some((config, _))) => {
                    kept.push(keeper::Upload::check(config, index, &bytes).unwrap());
                }
                (Upload::Message(bytes), None) if words > 0 => {
                    let layout = server.layout().fingerprint();
                    quantized.push(codec::decode_quantized(&bytes, layout, words).unwrap().words);
                }
                (Upload::Message(bytes), None) => {
                    codec::decode_update(&bytes, &mut received).unwrap();
                    received.check(&terms).unwrap();
                    updates.add(user, received.update()).unwrap();
                }
                (Upload::Sealed(sealing), _) => sealed.push((index, sealing)),
                (Upload::Nothing, _) => {}
            }
        }
        let mut aggregate = updates.finish();
        quantized.iter().for_each(|words| aggregate.add_quantized(words));
        if !sealed.is_empty() {
            let config = server.privacy().unwrap().config().secagg_config(&terms, model.bytes(), words).unwrap();
            let sum = secure_sum(config, sealed);
            aggregate.add_sum(&sum.words, sum.counted.len() as u64);
        }
        if let Some((config, _)) = kept_by {
            let updates = kept.len() as u32;
            aggregate.add_sum(&kept_sum(config, kept), updates.into());
        }
        server.record_participants(&cohort).unwrap();
        server.apply(terms.round, &mut aggregate).unwrap();
        server.skip();
    }

    /// What a device sends.
    fn answer(&mut self, (index, user): (u32, u32), terms: &RoundTerms) -> Upload {
        let device = self.devices.get_mut(&user).unwrap();
        download(&mut device.shared, &self.server);
        let model = self.loaded.take().filter(|loaded| *loaded.spec() == terms.model);
        let FederationBuilder { facts, items, .. } = &self.builder;
        let content = facts.clone().unwrap_or_else(|| Arc::new(Facts::none(*items)));
        let model = model.unwrap_or_else(|| LoadedModel::load(&terms.model, Some(&content)).unwrap());
        let model = self.loaded.insert(model);
        let secret = Secret::new([user as u8; 32]);
        let seeds = Seeds::Simulated { seed: self.builder.seed, user: user.into() };
        let round = DeviceRound {
            terms,
            shared: device.shared.as_ref().unwrap(),
            digest: Digest::of(&device.shared.as_ref().unwrap().parameters),
            history: History { sequence: &device.sequence, ..(&device.history).into() },
            figures: &NoFigures,
            policy: &self.policy,
            randomness: &seeds.in_round((&secret, &secret), self.model, terms.round, [3; 32]),
            key: None,
            identity: None,
            client_index: Some(index),
            when: 0,
        };
        let before = (device.private.as_deref(), device.disclosed.as_deref());
        let outcome = match model.run_round(&round, before, &mut Ledger::new()) {
            // Models that go by order cannot learn from a single item.
            Err(Declined::NoHistory) => return Upload::Nothing,
            outcome => outcome.unwrap(),
        };
        (device.private, device.disclosed) = (Some(outcome.private), outcome.disclosed);
        outcome.upload
    }

    /// The bits of what devices hold of the shared model, by tensor.
    pub(crate) fn tensor_bits(&self) -> BTreeMap<String, Vec<u32>> {
        let shared = &self.server.distributed().parameters;
        let bits = |data| match data {
            TensorData::F32(values) => values.into_iter().map(f32::to_bits).collect(),
            TensorData::U32(values) => values,
        };
        let tensors = self.loaded.as_ref().unwrap().model().server().tensors();
        let stored = tensors.iter().map(|slice| slice.store(shared));
        stored.map(|tensor| (tensor.name, bits(tensor.data))).collect()
    }

    /// The bits of private models, by user.
    pub(crate) fn private_bits(&self) -> BTreeMap<u32, Vec<u32>> {
        let bits = |values: &Vec<f32>| values.iter().map(|value| value.to_bits()).collect();
        self.devices.iter().filter_map(|(&user, device)| Some((user, bits(device.private.as_ref()?)))).collect()
    }
}

fn download(held: &mut Option<Arc<SharedModel>>, server: &Coordinator) {
    let (offer, mut bytes) = (server.offer(), Vec::new());
    let message = offer.message(held.as_ref().map(|held| held.version)).unwrap();
    *held = Some(match (message, held.take()) {
        (DownloadMessage::Difference(difference), Some(mut held)) => {
            codec::encode_difference(&difference, &mut bytes).unwrap();
            codec::apply_difference(&bytes, Arc::make_mut(&mut held)).unwrap();
            held
        }
        _ => {
            codec::encode_model(offer.model(), offer.values(), &mut bytes).unwrap();
            Arc::new(codec::decode_model(&bytes).unwrap())
        }
    });
}

/// The sum with the help of a keeper; whoever uploaded may be gone.
fn kept_sum(config: keeper::Config, uploads: Vec<keeper::Upload>) -> Vec<u32> {
    let (mut masked, updates) = (vec![0u32; config.words()], uploads.len() as u32);
    for upload in &uploads {
        masked.iter_mut().zip(&upload.words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
    }
    let entries = uploads.into_iter().map(keeper::Entry::from).collect();
    let opening = keeper::Opening { config, secret: KEEPER.1.into(), entries };
    let keeper = keeper::Keeper::new(KEEPER.0, 0, None);
    let masks = keeper.admit(&opening, &mut keeper::MemoryRecord::default()).unwrap();
    keeper::unmask(masked, &masks.sum(), updates).expect("the masks cancel")
}

/// Secure aggregation with everybody present until the end.
fn secure_sum(config: secagg::Config, mut devices: Vec<(u32, Sealing)>) -> secagg::Sum {
    let mut server = secagg::Server::new(config, [3; 32]).unwrap();
    loop {
        for (index, sealing) in &mut devices {
            server.receive(*index, sealing.out.as_ref().unwrap()).unwrap();
        }
        server.close_step().unwrap();
        if let Some(sum) = server.sum() {
            return sum;
        }
        for (index, sealing) in &mut devices {
            let message = server.message_for(*index).unwrap();
            let next = sealing.clone().acknowledged().unwrap();
            *sealing = next.receive(&message, None, (None, 0), &mut SecureRng::new([1; 32])).unwrap();
        }
    }
}
