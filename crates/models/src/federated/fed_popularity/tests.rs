use super::*;
use crate::federated::dynamic::AnyModel;
use crate::{Because, ClientModel};
use sottovoce_core::History;

#[test]
fn counts_are_scores_and_reasons() {
    let mut shared = Server.init(3, &mut Rng::new(1)).unwrap();
    shared.tables_mut()[0].values_mut().copy_from_slice(&[4.0, -0.5, 7.2]);
    let mut scores = [9.0; 3];
    Client.score(&shared, &[], History::default(), &mut scores);
    assert_eq!(scores, [4.0, -0.5, 7.2]);
    let reasons = Client.explain(&shared, &[], History::default(), &[2, 1]);
    let people: Vec<Because> = reasons.iter().map(|reasons| reasons[0].because).collect();
    assert_eq!(people, [Because::Popular { people: 7 }, Because::Popular { people: 0 }]);
}

#[test]
fn it_says_that_it_needs_a_seal_and_what_noise_protects() {
    let entry = crate::federated::find("fed-popularity").unwrap();
    assert!(entry.schema().is_empty());
    let model: Box<dyn AnyModel> = entry
        .from_terms(&sottovoce_protocol::ModelSpec { name: entry.info.name.to_owned(), ..Default::default() }, None)
        .unwrap();
    assert!(model.client(None).needs_seal());
    assert_eq!((model.sensitivity(), model.sends_ones(), model.passes()), (Some(1.0), true, 1));
}
