use super::*;
use proptest::prelude::*;

fn encoder(dim: usize) -> HashedNgrams {
    HashedNgrams::new(NgramConfig { dim, ..NgramConfig::default() }).unwrap()
}

fn cosine(encoder: &HashedNgrams, a: &str, b: &str) -> f32 {
    math::dot(&encoder.vector(a), &encoder.vector(b))
}

const TITLES: [&str; 6] = [
    "Election: the parliament votes on Monday",
    "The parliament of Denmark",
    "The best chocolate cake",
    "Сборная выиграла матч",
    "东京奥运会开幕",
    "الانتخابات الرئاسية",
];

#[test]
fn vectors_have_length_one_in_every_script_and_are_zero_without_words() {
    for dim in [1, 31, 32, 64, 100] {
        for title in TITLES.iter().copied().chain(["🎉", "a", "京"]) {
            let vector = encoder(dim).vector(title);
            // An even number of terms may cancel out in one dimension.
            let length = math::dot(&vector, &vector);
            assert!((length - 1.0).abs() < 1e-5 || dim == 1, "{title}: {length}");
        }
        for nothing in ["", "   ", "—!?…", "\u{0}\u{200B}"] {
            assert_eq!(encoder(dim).vector(nothing), vec![0.0; dim], "{nothing:?}");
        }
    }
}

#[test]
fn inflected_forms_are_near_and_other_words_far() {
    let encoder = encoder(1024);
    for [word, near, far] in [
        ["elections", "election", "chocolate"],
        ["выборы", "выборов", "матч"],
        ["东京奥运会", "东京奥运", "足球"],
        ["الانتخابات", "انتخابات", "كرة"],
        ["Straße", "STRAẞE", "Weg"],
    ] {
        let (near, far) = (cosine(&encoder, word, near), cosine(&encoder, word, far));
        assert!(near > 0.25 && far < 0.12, "{word}: {near} {far}");
    }
}

#[test]
fn what_is_written_in_other_bytes_is_the_same() {
    let encoder = encoder(64);
    for [a, b] in [["CAFÉ Noir", "cafe\u{301}  noir!"], ["ﬁlm", "Film"], ["Ｎｅｗｓ", "news"], ["Ο ΣΟΦΟΣ", "ο σοφος"]]
    {
        assert_eq!(encoder.vector(a), encoder.vector(b), "{a} {b}");
    }
}

#[test]
fn frequent_words_weigh_less_after_fitting() {
    let config = NgramConfig { dim: 1024, ..NgramConfig::default() };
    let titles: Vec<String> = (0..1000).map(|n| format!("breaking topic{n}")).collect();
    let fitted = HashedNgrams::fit(config, &titles).unwrap();
    assert_eq!(fitted.documents(), 1000);
    let [equal, weighted] =
        [encoder(1024), fitted].map(|encoder| cosine(&encoder, "breaking volcano", "breaking parliament"));
    assert!(equal > 0.35 && weighted < 0.1, "{equal} {weighted}");
}

#[test]
fn idf_is_smoothed_and_rounded_to_a_tenth() {
    let titles = ["x", "x y", "x z", "x"];
    let fitted = HashedNgrams::fit(NgramConfig::default(), titles).unwrap();
    for (word, frequency) in [("x", 4.0f32), ("y", 1.0), ("unseen", 0.0)] {
        let exact = (5.0 / (1.0 + frequency)).ln() + 1.0;
        let found = fitted.idf(finish(hash(WORD, word.as_bytes())));
        assert!((found - exact).abs() <= 0.05 + 1e-6, "{word}: {found} {exact}");
    }
}

#[test]
fn the_order_of_titles_does_not_matter_and_repeats_count_once_a_title() {
    let config = NgramConfig::default();
    let once = HashedNgrams::fit(config, TITLES).unwrap();
    let doubled = TITLES.iter().rev().map(|title| format!("{title} {title}"));
    assert_eq!(HashedNgrams::fit(config, doubled).unwrap(), once);
}

#[test]
fn projection_keeps_cosines() {
    // Two of four words in common, with all their n-grams.
    let (a, b) = ("alpha bravo charlie delta", "alpha bravo golfing hotels");
    let mut sum = 0.0;
    for seed in 0..50 {
        let encoder = HashedNgrams::new(NgramConfig { dim: 256, seed, ..NgramConfig::default() }).unwrap();
        sum += cosine(&encoder, a, b) / 50.0;
    }
    assert!((sum - 0.5).abs() < 0.02, "{sum}");
}

#[test]
fn a_very_long_title_is_encoded() {
    for long in ["слово ".repeat(50_000), "京".repeat(100_000), "a".repeat(300_000), "\u{301}".repeat(100_000)] {
        let vector = encoder(8).vector(&long);
        assert!(math::all_finite(&vector));
    }
}

#[test]
fn vectors_never_change() {
    let encoder = HashedNgrams::fit(NgramConfig { dim: 4, seed: 7, ..NgramConfig::default() }, TITLES).unwrap();
    let bits: Vec<u32> = encoder.vector("Parliament 议会 🎉").iter().map(|value| value.to_bits()).collect();
    assert_eq!(bits, FIXED, "stored vectors and models trained on them would no longer fit");
}
const FIXED: [u32; 4] = [3_197_901_689, 3_207_352_302, 1_022_961_513, 1_059_868_654];

#[test]
fn settings_out_of_range_are_named() {
    let default = NgramConfig::default();
    for (config, expected) in [
        (NgramConfig { dim: 0, ..default }, "dim is 0; it must be from 1 to 4096"),
        (NgramConfig { buckets: 1 << 23, ..default }, "buckets is 8388608; it must be from 1 to 4194304"),
        (NgramConfig { min_ngram: 6, ..default }, "max_ngram is 5; it must be from 6 to 16"),
    ] {
        assert_eq!(HashedNgrams::new(config).unwrap_err().to_string(), expected);
    }
}

#[test]
fn bytes_come_back_as_the_same_encoder() {
    for encoder in
        [encoder(33), HashedNgrams::fit(NgramConfig { buckets: 777, ..NgramConfig::default() }, TITLES).unwrap()]
    {
        assert_eq!(HashedNgrams::from_bytes(&encoder.to_bytes()).unwrap(), encoder);
    }
}

#[test]
fn bytes_that_lie_are_refused_with_the_reason() {
    let good = HashedNgrams::fit(NgramConfig { buckets: 10, ..NgramConfig::default() }, TITLES).unwrap().to_bytes();
    let changed = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        HashedNgrams::from_bytes(&bytes).unwrap_err().to_string()
    };
    assert_eq!(changed(0, b"XXXX"), "encoder: begins with \"XXXX\", not with `SVNG`");
    assert_eq!(changed(4, &[9]), "encoder: version 9; this program reads version 1; upgrade the older");
    assert_eq!(changed(5, &[255, 255]), "encoder: dim is 65535; it must be from 1 to 4096");
    assert_eq!(changed(21, &[0, 0, 64, 0]), "encoder: 4194304 bytes of weights expected after the header, 10 found");
    assert_eq!(changed(21, &[255; 4]), "encoder: buckets is 4294967295; it must be from 1 to 4194304");
    assert_eq!(changed(17, &[0; 4]), "encoder: 0 bytes of weights expected after the header, 10 found");
    assert_eq!(changed(27, &[200]), "encoder: weight 200 of bucket 2 is above 19, an unseen term's");
    for length in 0..good.len() {
        assert!(HashedNgrams::from_bytes(&good[..length]).is_err(), "{length}");
    }
    assert!(HashedNgrams::from_bytes(&[good, vec![0]].concat()).is_err());
}

proptest! {
    #[test]
    fn no_bytes_and_no_text_panic(head in proptest::collection::vec(any::<u8>(), 0..40), text in ".*") {
        let good = encoder(64).to_bytes();
        for bytes in [head.clone(), [&good[..5], &head].concat()] {
            if let Ok(encoder) = HashedNgrams::from_bytes(&bytes) {
                prop_assert!(math::all_finite(&encoder.vector(&text)));
            }
        }
        prop_assert!(math::all_finite(&encoder(16).vector(&text)));
    }
}

#[test]
fn a_catalog_carries_the_encoder_to_devices() {
    let fitted = HashedNgrams::fit(NgramConfig { buckets: 64, ..NgramConfig::default() }, TITLES).unwrap();
    let items = "item\ttitle\tcategories\n7\tSkiing\t\nencoder\tnot this one\t\n";
    let text = format!("{items}{}", fitted.catalog_text());
    let (found, rest) = HashedNgrams::of_catalog(&text).unwrap();
    assert_eq!((found, rest), (Some(fitted.clone()), items));
    assert_eq!(HashedNgrams::of_catalog(items).unwrap(), (None, items));
    for wrong in ["\n\nencoder\t!\n", "\n\nencoder\tAAAA\n", "\n\nencoder\t\n"] {
        assert!(matches!(HashedNgrams::of_catalog(wrong), Err(TextError::Encoding(_))), "{wrong}");
    }
    let longer = fitted.with_dim(100).unwrap();
    let refitted = HashedNgrams::fit(*longer.config(), TITLES).unwrap();
    assert_eq!(longer, refitted, "document frequencies do not depend on the length of vectors");
    assert!(fitted.with_dim(0).is_err());
}
