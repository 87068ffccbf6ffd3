use super::super::{Server, information_gain};
use super::*;
use crate::ServerModel;
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use sottovoce_protocol::RowOrigin;

const FACTORS: usize = 3;

fn device(facts: &Arc<Facts>, triples: usize) -> Client {
    Client {
        facts: Arc::clone(facts),
        factors: FACTORS,
        selection: Selection { most: [4, 3], negatives: 1, min_gain: 0.0 },
        triples,
        learning_rate: 0.07,
        regularisation: Regularisation { personal: 0.02, shared: 0.01 },
        init_deviation: 0.5,
    }
}

/// Figure 6.1 of the thesis, one hop far.
mod thesis {
    use super::*;

    const FEATURES: [(&str, u8); 6] = [
        ("type: Location", 1),
        ("location: Amsterdam", 1),
        ("type: Urban Park", 1),
        ("type: Art Museum", 1),
        ("location: Rome", 1),
        ("location: New York", 1),
    ];
    const LOCATION: u32 = 0;
    const AMSTERDAM: u32 = 1;
    const PARK: u32 = 2;
    const MUSEUM: u32 = 3;
    const RIJKSMUSEUM: u32 = 0;
    const VONDELPARK: u32 = 1;
    const CAPITOLINE: u32 = 2;
    const NAVONA: u32 = 3;
    const CENTRAL_PARK: u32 = 4;

    fn facts() -> Arc<Facts> {
        let items = [vec![0, 1, 3], vec![0, 1, 2], vec![0, 3, 4], vec![0, 4], vec![0, 2, 5]];
        Arc::new(Facts::of_lists(&FEATURES, &items))
    }

    #[test]
    fn examples_6_1_to_6_4() {
        let facts = facts();
        let words = |item: u32| facts.of(item as usize).iter().map(|f| facts.name(f as usize)).collect::<Vec<_>>();
        // 6.1: F of the Vondelpark.
        assert_eq!(words(VONDELPARK), ["type: Location", "location: Amsterdam", "type: Urban Park"]);
        // 6.2: F of Pink is what her two places have.
        let pink = [RIJKSMUSEUM, VONDELPARK];
        let mut own: Vec<u32> = pink.iter().flat_map(|&item| facts.of(item as usize).to_vec()).collect();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own, [LOCATION, AMSTERDAM, PARK, MUSEUM]);
        // 6.3: weights against Piazza Navona and Central Park; features without information gain are not selected.
        let device = device(&facts, 1);
        let mut scratch = device.scratch(5);
        let selection = |min_gain| Selection { most: [100, 100], negatives: 1, min_gain };
        scratch.choice.weigh(&facts, &pink, &[NAVONA, CENTRAL_PARK], &selection(0.0));
        assert_eq!(scratch.choice.chosen.len(), 2);
        assert_eq!(scratch.choice.chosen[0], (AMSTERDAM, 1.0));
        let (museum, weight) = scratch.choice.chosen[1];
        assert!(museum == MUSEUM && (weight - 0.311_278).abs() < 1e-6, "{weight}");
        // With a least gain that only the first one reaches.
        scratch.choice.weigh(&facts, &pink, &[NAVONA, CENTRAL_PARK], &selection(0.5));
        assert_eq!(scratch.choice.chosen, [(AMSTERDAM, 1.0)]);
        scratch.choice.weigh(&facts, &pink, &[NAVONA, CENTRAL_PARK], &selection(0.0));
        // 6.4: the Capitoline Museums' score is k (p . g + b) of <type, Art Museum>, and nothing else.
        let mut rng = Rng::new(3);
        let mut shared = Server::of(&device).init(5, &mut rng).unwrap();
        shared.tables_mut()[0].row_mut(MUSEUM as usize)[FACTORS] = 0.25;
        let mut own = vec![0.0; device.private_values()];
        let marks = private::marks(&facts, &pink);
        private::put(&mut own, FACTORS, marks, &scratch.choice.chosen, |p| rng.fill_normal(0.5, p));
        let mut scores = [f32::NAN; 5];
        device.score(&shared, &own, (&pink).into(), &mut scores);
        let p = private::vector(&own, FACTORS, 1);
        let g = shared.tables()[0].row(MUSEUM as usize);
        let expected = 0.311_278_12 * (p[0] * g[0] + p[1] * g[1] + p[2] * g[2] + 0.25);
        assert!((scores[CAPITOLINE as usize] - expected).abs() < 1e-6, "{scores:?} {expected}");
        assert_eq!((scores[NAVONA as usize], scores[CENTRAL_PARK as usize]), (0.0, 0.0));
        let reasons = device.explain(&shared, &own, (&pink).into(), &[CAPITOLINE]).remove(0);
        assert_eq!(reasons, [Reason { because: Because::Fact(MUSEUM), weight: scores[CAPITOLINE as usize] }]);
    }
}

fn world() -> impl Strategy<Value = (Arc<Facts>, Vec<u32>)> {
    let item = || prop::collection::vec(0u32..14, 0..6);
    (prop::collection::vec(item(), 3..25), any::<u64>()).prop_map(|(items, pick)| {
        let names: Vec<(&str, u8)> = (0..14u8).map(|feature| ("f", 1 + feature % 2)).collect();
        let history = (0..items.len() as u32).filter(|item| pick >> item & 1 == 1).collect();
        (Arc::new(Facts::of_lists(&names, &items)), history)
    })
}

/// Scores, and the sums of one round, as the equations are written: feature after feature, triple after triple, in
/// double precision.
struct Literal<'a> {
    device: &'a Client,
    table: &'a Table,
    own: &'a [f32],
}

impl Literal<'_> {
    fn slots(&self, item: u32) -> Vec<(usize, Slot<'_>)> {
        let slots = private::slots(self.own, FACTORS, self.device.facts.features()).enumerate();
        slots.filter(|(_, slot)| self.device.facts.of(item as usize).contains(slot.feature)).collect()
    }

    fn score(&self, item: u32) -> f64 {
        let part = |(_, slot): &(usize, Slot<'_>)| {
            let row = self.table.row(slot.feature as usize);
            let dot: f64 = (0..FACTORS).map(|f| f64::from(slot.vector[f]) * f64::from(row[f])).sum();
            f64::from(slot.weight) * (dot + f64::from(row[FACTORS]))
        };
        self.slots(item).iter().map(part).sum()
    }

    /// dG with db in the last column, by feature, and dp by slot.
    fn sums(&self, triples: &[[u32; 2]]) -> (Vec<[f64; FACTORS + 1]>, Vec<[f64; FACTORS]>) {
        let mut shared = vec![[0.0; FACTORS + 1]; self.device.facts.features()];
        let mut personal = vec![[0.0; FACTORS]; self.device.slots()];
        let regularisation = self.device.regularisation;
        for &[i, j] in triples {
            let s = 1.0 / (1.0 + (self.score(i) - self.score(j)).exp());
            for (item, c) in [(i, s), (j, -s)] {
                for (place, slot) in self.slots(item) {
                    let (row, k) = (self.table.row(slot.feature as usize), f64::from(slot.weight));
                    let sum = &mut shared[slot.feature as usize];
                    for f in 0..FACTORS {
                        let (p, g) = (f64::from(slot.vector[f]), f64::from(row[f]));
                        sum[f] += c * k * p - f64::from(regularisation.shared) * g;
                        personal[place][f] += c * k * g - f64::from(regularisation.personal) * p;
                    }
                    sum[FACTORS] += c * k - f64::from(regularisation.shared) * f64::from(row[FACTORS]);
                }
            }
        }
        (shared, personal)
    }
}

fn started(device: &Client, rng: &mut Rng) -> Parameters {
    let mut shared = Server::of(device).init(0, rng).unwrap();
    for feature in 0..device.facts.features() {
        shared.tables_mut()[0].row_mut(feature)[FACTORS] = rng.normal() as f32;
    }
    shared
}

proptest! {
    #[test]
    fn a_round_follows_the_thesis((facts, history) in world(), triples in 1usize..40, seed in 0u64..10_000) {
        let mut rng = Rng::new(seed);
        let device = device(&facts, triples);
        let shared = started(&device, &mut rng);
        let mut own = vec![0.0; device.private_values()];
        let mut scratch = device.scratch(facts.items());
        // The selection stays from round to round.
        for round in 0..2 {
            let mut before = own.clone();
            let mut trained = Trained::new(&shared.layout());
            let mut choosing = rng.clone();
            let input = TrainInput { shared: &shared, prepared: &(), private: &mut own, history: (&history).into(), hidden: &[] };
            let stats = device.train(input, &mut scratch, &mut rng, &mut trained).unwrap();
            if stats.samples == 0 {
                prop_assert!(trained.update().rows() == 0 && own == before);
                continue;
            }
            device.select_features(&mut before, &history, &mut scratch, &mut choosing);
            if round == 1 {
                prop_assert!(private::is_for(&before, private::marks(&facts, &history)));
            }
            prop_assert_eq!(scratch.triples.len(), triples);
            prop_assert!(scratch.triples.iter().all(|[i, j]| history.contains(i) && !history.contains(j)));
            let literal = Literal { device: &device, table: &shared.tables()[0], own: &before };
            let (rows, personal) = literal.sums(&scratch.triples);
            let mut sent = vec![[0.0f32; FACTORS + 1]; facts.features()];
            for ((feature, values), mark) in trained.update().tables()[0].iter().zip(trained.origins(0)) {
                sent[feature].copy_from_slice(values);
                prop_assert_eq!(*mark, RowOrigin::Consumed);
            }
            for (found, expected) in sent.iter().flatten().zip(rows.iter().flatten()) {
                prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} {expected}");
            }
            for (slot, sums) in personal.iter().enumerate() {
                let (old, new) = (private::vector(&before, FACTORS, slot), private::vector(&own, FACTORS, slot));
                for f in 0..FACTORS {
                    let expected = f64::from(old[f]) + f64::from(device.learning_rate) * sums[f];
                    prop_assert!((f64::from(new[f]) - expected).abs() < 1e-4, "{} {expected}", new[f]);
                }
            }
        }
    }

    #[test]
    fn scores_and_reasons_follow_the_equations((facts, history) in world(), seed in 0u64..10_000) {
        let mut rng = Rng::new(seed);
        let device = device(&facts, 1);
        let shared = started(&device, &mut rng);
        let mut own = vec![0.0; device.private_values()];
        let mut scratch = device.scratch(facts.items());
        let selected = !history.is_empty() && device.select_features(&mut own, &history, &mut scratch, &mut rng);
        let mut scores = vec![f32::NAN; facts.items()];
        device.score(&shared, &own, (&history).into(), &mut scores);
        let literal = Literal { device: &device, table: &shared.tables()[0], own: &own };
        for (item, &score) in (0..).zip(&scores) {
            let biases = facts.of(item as usize).iter().map(|f| f64::from(shared.tables()[0].row(f as usize)[FACTORS]));
            let biases: Vec<f64> = biases.collect();
            let general = biases.iter().sum::<f64>() / biases.len().max(1) as f64;
            let expected = if selected { literal.score(item) } else { general };
            prop_assert!((f64::from(score) - expected).abs() < 1e-4, "{score} {expected}");
            let reasons = device.explain(&shared, &own, (&history).into(), &[item]);
            let sum: f32 = reasons[0].iter().map(|reason| reason.weight).sum();
            prop_assert!((sum - score).abs() < 1e-4, "{sum} {score}");
        }
    }

    #[test]
    fn rows_that_only_hidden_items_explain_are_marked(
        (facts, history) in world(), pick in any::<u32>(), seed in 0u64..10_000,
    ) {
        let hidden: Vec<u32> = (0..facts.items() as u32).filter(|item| pick >> item & 1 == 1).collect();
        let mut rng = Rng::new(seed);
        let device = device(&facts, 30);
        let shared = started(&device, &mut rng);
        let mut own = vec![0.0; device.private_values()];
        let mut trained = Trained::new(&shared.layout());
        let input = TrainInput { shared: &shared, prepared: &(), private: &mut own, history: (&history).into(), hidden: &hidden };
        device.train(input, &mut device.scratch(0), &mut rng, &mut trained).unwrap();
        for ((feature, _), mark) in trained.update().tables()[0].iter().zip(trained.origins(0)) {
            let explains = |item: &&u32| facts.of(**item as usize).contains(feature as u32);
            let open = history.iter().filter(explains).any(|item| !hidden.contains(item));
            prop_assert_eq!(*mark, if open { RowOrigin::Consumed } else { RowOrigin::Hidden });
        }
    }
}

#[test]
fn users_without_informative_features_change_nothing() {
    let facts = Arc::new(Facts::of_lists(&[("everywhere", 1)], &[vec![0], vec![0], vec![0], vec![0]]));
    let device = device(&facts, 5);
    let shared = started(&device, &mut Rng::new(1));
    for history in [&[][..], &[0, 1, 2, 3], &[0, 1]] {
        let mut own = vec![0.0; device.private_values()];
        let mut trained = Trained::new(&shared.layout());
        let input =
            TrainInput { shared: &shared, prepared: &(), private: &mut own, history: history.into(), hidden: &[] };
        let stats = device.train(input, &mut device.scratch(4), &mut Rng::new(1), &mut trained).unwrap();
        assert_eq!((stats, trained.update().rows()), (TrainStats::default(), 0));
        assert!(own.iter().all(|&value| value == 0.0));
    }
}

#[test]
fn features_are_selected_again_when_the_history_grows() {
    let names: Vec<(&str, u8)> = vec![("f", 1); 6];
    let items: Vec<Vec<u32>> = (0..12).map(|item| vec![item % 6]).collect();
    let facts = Arc::new(Facts::of_lists(&names, &items));
    let device = device(&facts, 1);
    let (mut own, mut scratch) = (vec![0.0; device.private_values()], device.scratch(12));
    let chosen = |own: &[f32]| private::slots(own, FACTORS, 6).map(|slot| slot.feature).collect::<Vec<_>>();
    assert!(device.select_features(&mut own, &[0], &mut scratch, &mut Rng::new(1)));
    assert_eq!(chosen(&own), [0]);
    let before = own.clone();
    assert!(device.select_features(&mut own, &[0], &mut scratch, &mut Rng::new(2)));
    assert_eq!(own, before);
    assert!(device.select_features(&mut own, &[0, 6, 7], &mut scratch, &mut Rng::new(4)));
    assert!(chosen(&own).contains(&0) && chosen(&own).contains(&1), "{:?}", chosen(&own));
    assert_eq!(private::vector(&own, FACTORS, 0), private::vector(&before, FACTORS, 0));
}

#[test]
fn information_gain_of_nothing_is_0() {
    assert_eq!(information_gain([0, 0], [0, 0]), 0.0);
}
