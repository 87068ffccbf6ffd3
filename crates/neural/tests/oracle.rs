//! Every layer and loss against cases worked out by PyTorch in double precision: outputs, loss and all gradients.
//!
//! A case's loss is the sum of its outputs times given weights, so that the weights are the outputs' gradients. f64 has to agree
//! within 1e-9 and f32 within 1e-5, each beside the size of the value. Our dense weights have a row an input;
//! PyTorch's, a row an output.

use serde_json::Value;
use sottovoce_neural::losses::{bce_with_logits, cross_entropy, kl_gaussian};
use sottovoce_neural::{
    Activation, Adam, Arena, Arithmetic, Attention, AttentionGradients, AttentionOutputGradients, BatchNorm,
    Conv1dShape, Conv2d, Conv2dShape, LayerNorm, Layout, Linear, Mask, Pool, PoolShape, Pooling, Quantiser, Real,
    Recurrent, RecurrentCell, SequenceGradients, Sequences, StateGradients, Statistics,
};
use std::path::Path;

struct Case<R> {
    json: Value,
    tolerance: f64,
    kind: std::marker::PhantomData<R>,
}

impl<R: Real> Case<R> {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle").join(format!("{name}.json"));
        let json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let tolerance = if size_of::<R>() == 8 { 1e-9 } else { 1e-5 };
        Self { json, tolerance, kind: std::marker::PhantomData }
    }

    /// All numbers of a value, however nested.
    fn numbers(value: &Value) -> Vec<R> {
        match value {
            Value::Array(values) => values.iter().flat_map(Self::numbers).collect(),
            Value::Object(tensor) => Self::numbers(&tensor["values"]),
            number => vec![R::of(number.as_f64().unwrap())],
        }
    }

    fn get(&self, path: &str) -> Vec<R> {
        Self::numbers(self.json.pointer(path).unwrap_or_else(|| panic!("no {path}")))
    }

    fn integers(&self, path: &str) -> Vec<u32> {
        self.json.pointer(path).unwrap().as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
    }

    /// A PyTorch weight (out, in) as ours (in, out); anything else as it is.
    fn turned(&self, path: &str, outputs: usize) -> Vec<R> {
        let values = self.get(path);
        let inputs = values.len() / outputs;
        (0..values.len()).map(|n| values[n % outputs * inputs + n / outputs]).collect()
    }

    fn same(&self, what: &str, found: &[R], expected: &[R]) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (n, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let far = R::to_f64(R::abs(found - expected));
            let bound = self.tolerance * R::to_f64(R::abs(expected)).max(1.0);
            assert!(far <= bound, "{what}[{n}]: {found} instead of {expected}");
        }
    }

    fn same_as(&self, what: &str, found: &[R], path: &str) {
        self.same(what, found, &self.get(path));
    }

    fn loss(&self) -> R {
        self.get("/loss")[0]
    }
}

/// A layout's parameters by name, to be set and compared.
struct Named<'l> {
    layout: &'l Layout,
}

impl Named<'_> {
    fn buffer<R: Real>(&self, values: &[(&str, Vec<R>)]) -> Vec<R> {
        let mut buffer = self.layout.zeros();
        for (name, values) in values {
            let tensor = self.layout.find(name).unwrap_or_else(|| panic!("no {name}"));
            tensor.slot.of_mut(&mut buffer).unwrap().copy_from_slice(values);
        }
        buffer
    }

    fn of<'b, R: Real>(&self, name: &str, buffer: &'b [R]) -> &'b [R] {
        self.layout.find(name).unwrap().slot.of(buffer).unwrap()
    }
}

fn arena<R: Real>(reals: usize) -> Arena<R> {
    Arena::new(reals, 16).unwrap()
}

fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    a.iter().zip(b).map(|(&a, &b)| a * b).sum()
}

macro_rules! in_both {
    ($($test:ident => $check:ident),* $(,)?) => {
        mod single { $(#[test] fn $test() { super::$check::<f32>(); })* }
        mod double { $(#[test] fn $test() { super::$check::<f64>(); })* }
    };
}

in_both! {
    linear_agrees => linear,
    rnn_agrees => rnn,
    gru_agrees => gru,
    lstm_agrees => lstm,
    conv1d_agrees => conv1d,
    conv2d_relu_and_pool_agree => conv2d,
    cross_attention_agrees => cross_attention,
    causal_attention_agrees => causal_attention,
    layer_norm_agrees => layer_norm,
    batch_norm_and_its_running_statistics_agree => batch_norm,
    bce_agrees => bce,
    cross_entropy_agrees => classes,
    gaussian_divergence_agrees => divergence,
    quantisation_agrees => quantisation,
    adam_follows_the_same_path => adam,
}

fn linear<R: Real>() {
    let case = Case::<R>::read("linear");
    let mut layout = Layout::new(Arithmetic::Machine);
    let layer = Linear::new(&mut layout, "l", 5, 4).unwrap();
    let named = Named { layout: &layout };
    let parameters =
        named.buffer(&[("l.weight", case.turned("/parameters/weight", 4)), ("l.bias", case.get("/parameters/bias"))]);
    let (x, dy) = (case.get("/inputs/x"), case.get("/output_weights/0"));
    let mut arena = arena(layer.space(3));
    let y = layer.forward(&parameters, &x, &mut arena.space()).unwrap();
    case.same_as("y", y, "/outputs/0");
    case.same("loss", &[dot(y, &dy)], &[case.loss()]);
    let (mut gradients, mut dx) = (layout.zeros(), vec![R::ZERO; x.len()]);
    layer.backward(&parameters, &x, &dy, &mut gradients, Some(&mut dx)).unwrap();
    case.same_as("dx", &dx, "/input_gradients/x");
    case.same("dw", named.of("l.weight", &gradients), &case.turned("/parameter_gradients/weight", 4));
    case.same_as("db", named.of("l.bias", &gradients), "/parameter_gradients/bias");
}

/// Parameters of a recurrent layer called `r`, whose gates make this width.
fn recurrent_parameters<R: Real>(case: &Case<R>, named: &Named<'_>, width: usize) -> Vec<R> {
    named.buffer(&[
        ("r.input.weight", case.turned("/parameters/weight_ih_l0", width)),
        ("r.hidden.weight", case.turned("/parameters/weight_hh_l0", width)),
        ("r.input.bias", case.get("/parameters/bias_ih_l0")),
        ("r.hidden.bias", case.get("/parameters/bias_hh_l0")),
    ])
}

fn same_recurrent<R: Real>(case: &Case<R>, named: &Named<'_>, width: usize, gradients: &[R], dx: &[R]) {
    case.same_as("dx", dx, "/input_gradients/x");
    let turned = |path| case.turned(path, width);
    case.same("dW", named.of("r.input.weight", gradients), &turned("/parameter_gradients/weight_ih_l0"));
    case.same("dU", named.of("r.hidden.weight", gradients), &turned("/parameter_gradients/weight_hh_l0"));
    case.same_as("db", named.of("r.input.bias", gradients), "/parameter_gradients/bias_ih_l0");
    case.same_as("dd", named.of("r.hidden.bias", gradients), "/parameter_gradients/bias_hh_l0");
}

const BATCH: usize = 2;
const TIME: usize = 6;
const UNITS: usize = 4;

/// The gradient of all states, with that of the last ones added.
fn state_gradients<R: Real>(case: &Case<R>) -> Vec<R> {
    let mut all = case.get("/output_weights/0");
    for (n, last) in case.get("/output_weights/1").into_iter().enumerate() {
        let (b, u) = (n / UNITS, n % UNITS);
        all[((b + 1) * TIME - 1) * UNITS + u] += last;
    }
    all
}

fn rnn<R: Real>() {
    recurrent::<R>("rnn", RecurrentCell::Rnn, 1);
}

fn gru<R: Real>() {
    recurrent::<R>("gru", RecurrentCell::Gru, 3);
}

fn lstm<R: Real>() {
    recurrent::<R>("lstm", RecurrentCell::Lstm, 4);
}

fn recurrent<R: Real>(name: &str, cell: RecurrentCell, gates: usize) {
    let case = Case::<R>::read(name);
    let mut layout = Layout::default();
    let layer = Recurrent::new(&mut layout, "r", cell, 3, UNITS).unwrap();
    let named = Named { layout: &layout };
    let parameters = recurrent_parameters(&case, &named, gates * UNITS);
    let (x, mut arena) = (case.get("/inputs/x"), arena(layer.space(BATCH, TIME)));
    let mut space = arena.space();
    let tape = layer.forward(&parameters, Sequences::new(&x, BATCH, TIME), &mut space).unwrap();
    case.same_as("states", tape.states(), "/outputs/0");
    case.same_as("last", &[tape.last(0), tape.last(1)].concat(), "/outputs/1");
    let cells = (cell == RecurrentCell::Lstm).then(|| case.get("/output_weights/2"));
    if cells.is_some() {
        case.same_as("last cells", &[tape.last_cell(0), tape.last_cell(1)].concat(), "/outputs/2");
    }
    let (mut gradients, mut dx) = (layout.zeros(), vec![R::ZERO; x.len()]);
    let dy = StateGradients { states: &state_gradients(&case), last_cells: cells.as_deref() };
    let into = SequenceGradients { values: Some(&mut dx), start: None };
    layer.backward(&parameters, &tape, dy, &mut gradients, into, &mut space).unwrap();
    same_recurrent(&case, &named, gates * UNITS, &gradients, &dx);
}

fn conv1d<R: Real>() {
    let case = Case::<R>::read("conv1d");
    let mut layout = Layout::default();
    let shape = Conv1dShape { channels: 5, length: 8, filters: 4, kernel: 2, stride: 1, padding: 0 };
    let layer = Conv2d::over_sequences(&mut layout, "c", shape).unwrap();
    let named = Named { layout: &layout };
    let parameters =
        named.buffer(&[("c.weight", case.get("/parameters/weight")), ("c.bias", case.get("/parameters/bias"))]);
    let (x, dy) = (case.get("/inputs/x"), case.get("/output_weights/0"));
    let mut arena = arena(layer.space(2));
    let mut space = arena.space();
    let y = layer.forward(&parameters, &x, &mut space).unwrap();
    case.same_as("y", y, "/outputs/0");
    let (mut gradients, mut dx) = (layout.zeros(), vec![R::ZERO; x.len()]);
    layer.backward(&parameters, &x, &dy, &mut gradients, Some(&mut dx), &mut space).unwrap();
    case.same_as("dx", &dx, "/input_gradients/x");
    case.same_as("dw", named.of("c.weight", &gradients), "/parameter_gradients/weight");
    case.same_as("db", named.of("c.bias", &gradients), "/parameter_gradients/bias");
}

fn conv2d<R: Real>() {
    let case = Case::<R>::read("conv2d_relu_pool");
    for arithmetic in [Arithmetic::Portable, Arithmetic::Machine] {
        let mut layout = Layout::new(arithmetic);
        let shape =
            Conv2dShape { channels: 2, image: [8, 8], filters: 3, kernel: [5, 5], stride: [1, 1], padding: [2, 2] };
        let layer = Conv2d::new(&mut layout, "c", shape).unwrap();
        let pool = PoolShape { channels: 3, image: [8, 8], window: [2, 2], stride: [2, 2] };
        let pool = Pool::new(Pooling::Max, pool).unwrap();
        let named = Named { layout: &layout };
        let parameters =
            named.buffer(&[("c.weight", case.get("/parameters/weight")), ("c.bias", case.get("/parameters/bias"))]);
        let (x, dy) = (case.get("/inputs/x"), case.get("/output_weights/0"));
        let mut arena = arena(layer.space(2) + pool.space(2));
        let mut space = arena.space();
        let h = layer.forward(&parameters, &x, &mut space).unwrap();
        Activation::Relu.apply(h);
        let y = pool.forward(h, &mut space).unwrap();
        case.same_as("y", y, "/outputs/0");
        let (mut gradients, mut dx) = (layout.zeros(), vec![R::ZERO; x.len()]);
        let mut dh = vec![R::ZERO; h.len()];
        pool.backward(h, &dy, &mut dh).unwrap();
        Activation::Relu.backward(h, &mut dh).unwrap();
        layer.backward(&parameters, &x, &dh, &mut gradients, Some(&mut dx), &mut space).unwrap();
        case.same_as("dx", &dx, "/input_gradients/x");
        case.same_as("dw", named.of("c.weight", &gradients), "/parameter_gradients/weight");
        case.same_as("db", named.of("c.bias", &gradients), "/parameter_gradients/bias");
    }
}

const PARTS: [&str; 3] = ["query", "key", "value"];

/// PyTorch packs the three projections into one tensor.
fn attention_tensors<R: Real>(case: &Case<R>, from: &str) -> Vec<(String, Vec<R>)> {
    let (weight, bias) = (case.get(&format!("/{from}/in_proj_weight")), case.get(&format!("/{from}/in_proj_bias")));
    let turned = |part: &[R]| (0..36).map(|n| part[n % 6 * 6 + n / 6]).collect::<Vec<_>>();
    let mut tensors = Vec::new();
    for (n, part) in PARTS.iter().enumerate() {
        tensors.push((format!("a.{part}.weight"), turned(&weight[n * 36..(n + 1) * 36])));
        tensors.push((format!("a.{part}.bias"), bias[n * 6..(n + 1) * 6].to_vec()));
    }
    tensors.push(("a.output.weight".to_owned(), case.turned(&format!("/{from}/out_proj.weight"), 6)));
    tensors.push(("a.output.bias".to_owned(), case.get(&format!("/{from}/out_proj.bias"))));
    tensors
}

fn attention_parameters<R: Real>(case: &Case<R>, named: &Named<'_>) -> Vec<R> {
    let tensors = attention_tensors(case, "parameters");
    named.buffer(&tensors.iter().map(|(name, values)| (name.as_str(), values.clone())).collect::<Vec<_>>())
}

fn same_attention<R: Real>(case: &Case<R>, named: &Named<'_>, gradients: &[R]) {
    for (name, expected) in attention_tensors(case, "parameter_gradients") {
        case.same(&name, named.of(&name, gradients), &expected);
    }
}

fn cross_attention<R: Real>() {
    let case = Case::<R>::read("attention");
    let mut layout = Layout::default();
    let layer = Attention::new(&mut layout, "a", 6, 2, Mask::None).unwrap();
    let named = Named { layout: &layout };
    let parameters = attention_parameters(&case, &named);
    let (x, source) = (case.get("/inputs/query"), case.get("/inputs/key_value"));
    let mut arena = arena(layer.space(2, 4, 5));
    let mut space = arena.space();
    let tape = layer.forward(&parameters, &x, &source, 2, &mut space).unwrap();
    case.same_as("y", tape.output, "/outputs/0");
    case.same_as("weights", tape.weights(), "/outputs/1");
    let (output, weights) = (case.get("/output_weights/0"), case.get("/output_weights/1"));
    let dy = AttentionOutputGradients { output: &output, weights: Some(&weights) };
    let (mut dx, mut dsource) = (vec![R::ZERO; x.len()], vec![R::ZERO; source.len()]);
    let mut gradients = layout.zeros();
    let into = AttentionGradients { queries: Some(&mut dx), source: Some(&mut dsource) };
    layer.backward(&parameters, &tape, dy, &mut gradients, into, &mut space).unwrap();
    case.same_as("dx", &dx, "/input_gradients/query");
    case.same_as("dsource", &dsource, "/input_gradients/key_value");
    same_attention(&case, &named, &gradients);
}

fn causal_attention<R: Real>() {
    let case = Case::<R>::read("attention_causal");
    let mut layout = Layout::default();
    let layer = Attention::new(&mut layout, "a", 6, 2, Mask::Causal).unwrap();
    let named = Named { layout: &layout };
    let parameters = attention_parameters(&case, &named);
    let (x, output) = (case.get("/inputs/x"), case.get("/output_weights/0"));
    let mut arena = arena(layer.space(2, 4, 4));
    let mut space = arena.space();
    let tape = layer.forward(&parameters, &x, &x, 2, &mut space).unwrap();
    case.same_as("y", tape.output, "/outputs/0");
    case.same("loss", &[dot(tape.output, &output)], &[case.loss()]);
    let (mut dx, mut dsource) = (vec![R::ZERO; x.len()], vec![R::ZERO; x.len()]);
    let mut gradients = layout.zeros();
    let into = AttentionGradients { queries: Some(&mut dx), source: Some(&mut dsource) };
    let dy = AttentionOutputGradients { output: &output, weights: None };
    layer.backward(&parameters, &tape, dy, &mut gradients, into, &mut space).unwrap();
    let both: Vec<R> = dx.iter().zip(&dsource).map(|(&a, &b)| a + b).collect();
    case.same_as("dx", &both, "/input_gradients/x");
    same_attention(&case, &named, &gradients);
}

/// Weight and bias of a normalisation called `n`.
fn norm_parameters<R: Real>(case: &Case<R>) -> [(&'static str, Vec<R>); 2] {
    [("n.weight", case.get("/parameters/weight")), ("n.bias", case.get("/parameters/bias"))]
}

fn same_norm<R: Real>(case: &Case<R>, named: &Named<'_>, gradients: &[R], dx: &[R]) {
    case.same_as("dx", dx, "/input_gradients/x");
    case.same_as("dg", named.of("n.weight", gradients), "/parameter_gradients/weight");
    case.same_as("db", named.of("n.bias", gradients), "/parameter_gradients/bias");
}

fn layer_norm<R: Real>() {
    let case = Case::<R>::read("layer_norm");
    let mut layout = Layout::default();
    let layer = LayerNorm::new(&mut layout, "n", 6).unwrap();
    let named = Named { layout: &layout };
    let parameters = named.buffer(&norm_parameters(&case));
    let (x, dy) = (case.get("/inputs/x"), case.get("/output_weights/0"));
    let mut arena = arena(layer.space(3));
    let tape = layer.forward(&parameters, &x, &mut arena.space()).unwrap();
    case.same_as("y", tape.output, "/outputs/0");
    let (mut gradients, mut dx) = (layout.zeros(), vec![R::ZERO; x.len()]);
    layer.backward(&parameters, &tape, &dy, &mut gradients, Some(&mut dx)).unwrap();
    same_norm(&case, &named, &gradients, &dx);
}

fn batch_norm<R: Real>() {
    let case = Case::<R>::read("batch_norm_train");
    let mut layout = Layout::default();
    let layer = BatchNorm::new(&mut layout, "n", 6).unwrap();
    let named = Named { layout: &layout };
    let [weight, bias] = norm_parameters(&case);
    let mut parameters = named.buffer(&[weight, bias, ("n.variance", vec![R::ONE; 6])]);
    let (x, dy) = (case.get("/inputs/x"), case.get("/output_weights/0"));
    let mut arena = arena(layer.space(5));
    let mut space = arena.space();
    let tape = layer.forward(&parameters, &x, Statistics::Batch, &mut space).unwrap();
    case.same_as("y", tape.output, "/outputs/0");
    let (mut gradients, mut dx) = (layout.zeros(), vec![R::ZERO; x.len()]);
    layer.backward(&parameters, &tape, &dy, &mut gradients, Some(&mut dx), &mut space).unwrap();
    same_norm(&case, &named, &gradients, &dx);
    layer.update_running(&mut parameters, &tape, 0.1).unwrap();
    case.same_as("running mean", named.of("n.mean", &parameters), "/running_mean");
    case.same_as("running variance", named.of("n.variance", &parameters), "/running_var");
}

fn bce<R: Real>() {
    let case = Case::<R>::read("bce_logits");
    let (x, targets) = (case.get("/inputs/x"), case.get("/target"));
    let mut dx = vec![R::ZERO; x.len()];
    let loss = bce_with_logits(&x, &targets, 1.0 / x.len() as f64, Some(&mut dx)).unwrap();
    case.same("loss", &[R::of(loss)], &[case.loss()]);
    case.same_as("dx", &dx, "/input_gradients/x");
}

fn classes<R: Real>() {
    let case = Case::<R>::read("cross_entropy");
    let x = case.get("/inputs/x");
    let mut dx = vec![R::ZERO; x.len()];
    let loss = cross_entropy(&x, 5, &case.integers("/target"), 1.0 / 3.0, Some(&mut dx)).unwrap();
    case.same("loss", &[R::of(loss)], &[case.loss()]);
    case.same_as("dx", &dx, "/input_gradients/x");
}

fn divergence<R: Real>() {
    let case = Case::<R>::read("kl_gaussian");
    let (means, logs) = (case.get("/inputs/mu"), case.get("/inputs/logvar"));
    let rows = case.json.pointer("/inputs/mu/shape/0").unwrap().as_f64().unwrap();
    let (mut dm, mut dl) = (vec![R::ZERO; means.len()], vec![R::ZERO; means.len()]);
    let loss = kl_gaussian(&means, &logs, 1.0 / rows, Some((&mut dm, &mut dl))).unwrap();
    case.same("loss", &[R::of(loss)], &[case.loss()]);
    case.same_as("dm", &dm, "/input_gradients/mu");
    case.same_as("dl", &dl, "/input_gradients/logvar");
}

fn quantisation<R: Real>() {
    let case = Case::<R>::read("vector_quantise");
    let mut layout = Layout::default();
    let layer = Quantiser::new(&mut layout, "q", 5, 3, 0.25).unwrap();
    let named = Named { layout: &layout };
    let parameters = named.buffer(&[("q.codebook", case.get("/parameters/codebook"))]);
    let (z, dy) = (case.get("/inputs/z"), case.get("/output_weights/0"));
    let mut arena = arena(layer.space(4));
    let tape = layer.forward(&parameters, &z, &mut arena.space()).unwrap();
    case.same_as("quantised", tape.output, "/outputs/0");
    assert_eq!(tape.codes, case.integers("/indices"));
    case.same("loss", &[R::of(layer.loss(&tape, 1.0))], &case.get("/outputs/1"));
    let (mut gradients, mut dz) = (layout.zeros(), vec![R::ZERO; z.len()]);
    layer.backward(&tape, &z, &dy, 1.0, &mut gradients, &mut dz).unwrap();
    case.same_as("dz", &dz, "/input_gradients/z");
    case.same_as("de", &gradients, "/parameter_gradients/codebook");
}

fn adam<R: Real>() {
    let case = Case::<R>::read("adam");
    let (mut parameters, diagonal) = (case.get("/start"), case.get("/diagonal"));
    let mut adam = Adam::new(0.1, parameters.len());
    for step in 0..10 {
        let mut gradients: Vec<R> = parameters.iter().zip(&diagonal).map(|(&p, &a)| a * p).collect();
        adam.step(&mut parameters, &mut gradients).unwrap();
        case.same_as("parameters", &parameters, &format!("/trajectory/{step}"));
        assert!(gradients.iter().all(|&gradient| gradient == R::ZERO));
    }
}
