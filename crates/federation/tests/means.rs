//! Strategies of means on whole models: identities between them, and silence that costs nothing.

mod common;

use sottovoce_core::{Catalog, Categories, Histories, Names};
use sottovoce_federation::registry;
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, ModelError, Quiet, Recommender, TensorData};

fn trained(
    name: &str,
    settings: &[(&'static str, Value)],
    catalog: Option<&Catalog>,
) -> Result<Vec<f32>, ModelError> {
    let histories = common::people(60, 25);
    fit(name, settings, &histories, catalog).map(|model| values(model.as_ref()))
}

fn fit(
    name: &str,
    settings: &[(&'static str, Value)],
    histories: &Histories,
    catalog: Option<&Catalog>,
) -> Result<Box<dyn Recommender>, ModelError> {
    let model = registry::find(name).unwrap();
    let mut recommender = (model.build)(&model.settings(settings.iter().cloned()).unwrap());
    recommender.fit(histories, &mut Fit::new(5, &mut Quiet).knowing(catalog))?;
    Ok(recommender)
}

fn values(model: &dyn Recommender) -> Vec<f32> {
    let tensors = model.tensors().into_iter();
    let floats = tensors.filter_map(|tensor| match tensor.data {
        TensorData::F32(values) => Some(values),
        _ => None,
    });
    floats.flatten().collect()
}

fn word(text: &str) -> Value {
    Value::Word(text.to_owned())
}

fn with(base: &[(&'static str, Value)], more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    [base, more].concat()
}

const NETWORK: [(&str, Value); 3] =
    [("hidden", Value::Integer(5)), ("latent", Value::Integer(3)), ("epochs", Value::Integer(3))];
const GMF: [(&str, Value); 2] = [("factors", Value::Integer(4)), ("epochs", Value::Integer(3))];

#[test]
fn fed_sgd_with_eta_1_is_fed_avg_with_one_local_step_of_rate_1() {
    for (name, base) in [("fed-vae", &NETWORK[..]), ("fed-fed_gmf", &GMF)] {
        let fed_sgd = [("strategy", word("fedsgd")), ("server_rate", Value::Real(1.0))];
        // In FedSGD the owner's own vector makes steps of the devices' rate.
        let fed_sgd = with(&fed_sgd, &[("learning_rate", Value::Real(1.0))]);
        let one_step = if name == "fed-vae" { ("local_steps", 1) } else { ("local_batch", 0) };
        let fed_avg = [
            ("strategy", word("fedavg")),
            ("server_rate", Value::Real(1.0)),
            ("learning_rate", Value::Real(1.0)),
            (one_step.0, Value::Integer(one_step.1)),
        ];
        let one = trained(name, &with(base, &fed_sgd), None).unwrap();
        let other = trained(name, &with(base, &fed_avg), None).unwrap();
        assert_eq!(one, other, "{name}");
        let slower = with(&fed_avg, &[("server_rate", Value::Real(0.5))]);
        assert_ne!(one, trained(name, &with(base, &slower), None).unwrap(), "{name}");
    }
}

#[test]
fn equal_figures_count_alike_and_silence_counts_as_the_mean() {
    // Samples differ from device to device, and so does what counts by them.
    let by = |weighting: &str, reporting: f64| {
        let settings = [("weighting", word(weighting)), ("reporting", Value::Real(reporting))];
        trained("fed-fed_gmf", &with(&GMF, &settings), None).unwrap()
    };
    let equal = by("equal", 1.0);
    assert_eq!(equal, by("samples", 0.0), "nobody says anything");
    let samples = by("samples", 1.0);
    assert_ne!(equal, samples);
    assert!(by("samples", 0.5) != samples && by("samples", 0.5) != equal);
}

#[test]
fn criteria_that_nobody_can_report_are_named() {
    let by = |criteria: &str, catalog| {
        let settings = [("weighting", word("prioritised")), ("criteria", word(criteria))];
        trained("fed-fed_gmf", &with(&GMF, &settings), catalog)
    };
    let said = |criteria: &str| by(criteria, None).unwrap_err().to_string();
    assert_eq!(
        said("size,diversity"),
        "criterion \"diversity\" cannot be reported: the items have no categories"
    );
    assert_eq!(said("recency"), "criterion \"recency\" cannot be reported: the interactions have no times");
    assert!(said("speed").starts_with("criterion \"speed\" cannot be reported: simulated devices report"));
    assert!(said("").contains("criteria = \"\": expected names with commas between them"));
    let mut categories = Categories::new(Names::from_iter(["odd", "even"]));
    (0..25).for_each(|item| categories.push([item % 2]));
    let ids = Names::from_iter((0..25).map(|item| item.to_string()));
    let catalog = Catalog { categories: Some(categories), ..Catalog::of_ids(ids) };
    by("diversity,size", Some(&catalog)).unwrap();
}
