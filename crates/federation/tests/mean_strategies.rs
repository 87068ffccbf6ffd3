//! Mean strategies on whole models: identities between them, and devices that report nothing.

mod common;

use common::{Given, fitted, people, tensor_values, word};
use sottovoce_core::{Catalog, Categories, Names};
use sottovoce_models::ModelError;
use sottovoce_models::settings::Value;

fn trained(name: &str, settings: &[Given], catalog: Option<&Catalog>) -> Result<Vec<f32>, ModelError> {
    let (model, _) = fitted(name, settings, (&people(60, 25), catalog), 5)?;
    Ok(tensor_values(&*model))
}

fn with(base: &[Given], more: &[Given]) -> Vec<Given> {
    [base, more].concat()
}

const NETWORK: [(&str, Value); 3] =
    [("hidden", Value::Integer(5)), ("latent", Value::Integer(3)), ("epochs", Value::Integer(3))];
const GMF: [(&str, Value); 2] = [("factors", Value::Integer(4)), ("epochs", Value::Integer(3))];

#[test]
fn fedsgd_with_learning_rate_1_equals_fedavg_with_one_local_step() {
    let variational = with(&NETWORK, &[("network", word("vae"))]);
    for (name, base) in [("fed-vae", &NETWORK[..]), ("fed-vae", &variational), ("fed-gmf", &GMF)] {
        let fed_sgd = [("strategy", word("fedsgd")), ("server_learning_rate", Value::Real(1.0))];
        // In FedSGD the user's vector is trained with the devices' learning rate.
        let fed_sgd = with(&fed_sgd, &[("learning_rate", Value::Real(1.0))]);
        let one_step = if name == "fed-vae" { ("local_steps", 1) } else { ("local_batch", 0) };
        let fed_avg = [
            ("strategy", word("fedavg")),
            ("server_learning_rate", Value::Real(1.0)),
            ("learning_rate", Value::Real(1.0)),
            (one_step.0, Value::Integer(one_step.1)),
        ];
        let one = trained(name, &with(base, &fed_sgd), None).unwrap();
        let other = trained(name, &with(base, &fed_avg), None).unwrap();
        assert_eq!(one, other, "{name}");
        let slower = with(&fed_avg, &[("server_learning_rate", Value::Real(0.5))]);
        assert_ne!(one, trained(name, &with(base, &slower), None).unwrap(), "{name}");
    }
}

#[test]
fn equal_weights_equal_no_reports() {
    // The number of samples differs from device to device.
    let by = |weighting: &str, reporting: f64| {
        let settings = [("weighting", word(weighting)), ("reporting", Value::Real(reporting))];
        trained("fed-gmf", &with(&GMF, &settings), None).unwrap()
    };
    let equal = by("equal", 1.0);
    assert_eq!(equal, by("samples", 0.0), "nobody reports");
    let samples = by("samples", 1.0);
    assert_ne!(equal, samples);
    assert!(by("samples", 0.5) != samples && by("samples", 0.5) != equal);
}

#[test]
fn names_criteria_that_devices_cannot_report() {
    let by = |criteria: &str, catalog| {
        let settings = [("weighting", word("prioritised")), ("criteria", word(criteria))];
        trained("fed-gmf", &with(&GMF, &settings), catalog)
    };
    let error = |criteria: &str| by(criteria, None).unwrap_err().to_string();
    assert_eq!(error("size,diversity"), "criterion \"diversity\" cannot be reported: the items have no categories");
    assert_eq!(error("recency"), "criterion \"recency\" cannot be reported: the interactions have no times");
    assert!(error("speed").starts_with("criterion \"speed\" cannot be reported: devices report size"));
    assert!(error("").contains("criteria = \"\": expected names with commas between them"));
    let mut categories = Categories::new(Names::from_iter(["odd", "even"]));
    (0..25).for_each(|item| categories.push([item % 2]));
    let ids = Names::from_iter((0..25).map(|item| item.to_string()));
    let catalog = Catalog { categories: Some(categories), ..Catalog::of_ids(ids) };
    by("diversity,size", Some(&catalog)).unwrap();
}
