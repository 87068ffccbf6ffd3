//! Made-up names for districts, people, chains, places and pages.

use sottovoce_core::Rng;

/// Names of the first districts; later ones get `New` or `Upper` in front.
#[rustfmt::skip]
const DISTRICTS: [&str; 24] = [
    "Old Town", "Harbour", "Castle Hill", "Mill Quarter", "Garden Rows", "Riverside", "Lantern Yard",
    "Cathedral", "Saltmarsh", "Orchard Park", "Foundry", "Market Cross", "Lighthouse", "Abbey Fields",
    "Ropewalk", "Kingsbridge", "Vineyards", "Northgate", "Glassworks", "Ferry End", "Cloth Hall", "Stonepit",
    "Weir Side", "Larkmead",
];

#[rustfmt::skip]
const ADJECTIVES: [&str; 32] = [
    "Blue", "Golden", "Quiet", "Little", "Silver", "Old", "Crooked", "Merry", "Hidden", "White", "Red",
    "Green", "Lucky", "Wandering", "Sleepy", "Amber", "Velvet", "Copper", "Painted", "Singing", "Hollow",
    "Bright", "Salty", "Winter", "Summer", "Paper", "Marble", "Iron", "Honest", "Seventh", "Lost", "Scarlet",
];

const NOUNS: [&str; 40] = [
    "Lantern", "Heron", "Anchor", "Fig", "Bell", "Fox", "Compass", "Harp", "Olive", "Sail", "Acorn", "Lion", "Owl",
    "Tower", "Rose", "Swan", "Kettle", "Thistle", "Moon", "Bridge", "Wheel", "Arch", "Lemon", "Star", "Cloud", "Pear",
    "Key", "Mirror", "Otter", "Feather", "Drum", "Candle", "Pebble", "Crown", "Fiddle", "Hare", "Barrel", "Poppy",
    "Gate", "Whistle",
];

const STARTS: [&str; 20] = [
    "Mor", "Bel", "Cas", "Fer", "Gal", "Lan", "Mar", "Nov", "Ori", "Pal", "Ros", "San", "Tor", "Val", "Ver", "Zan",
    "Bran", "Del", "Kol", "Rin",
];
const MIDDLES: [&str; 10] = ["", "a", "i", "en", "and", "er", "ol", "ar", "in", "et"];
const ENDS: [&str; 12] = ["elli", "ini", "oni", "ati", "aro", "esi", "ucci", "man", "sen", "ova", "ski", "ard"];

const FIRST_NAMES: [&str; 24] = [
    "Ada", "Bruno", "Clara", "Dario", "Elena", "Franz", "Greta", "Hugo", "Ines", "Jonas", "Karin", "Luca", "Marta",
    "Nils", "Olga", "Paolo", "Rita", "Sami", "Tilda", "Ugo", "Vera", "Willem", "Yara", "Zeno",
];

pub(super) fn district(index: usize) -> String {
    let name = DISTRICTS[index % DISTRICTS.len()];
    match index / DISTRICTS.len() {
        0 => name.to_owned(),
        1 => format!("New {name}"),
        _ => format!("Upper {name}"),
    }
}

pub(super) fn surname(rng: &mut Rng) -> String {
    format!("{}{}{}", pick(rng, &STARTS), pick(rng, &MIDDLES), pick(rng, &ENDS))
}

pub(super) fn person(rng: &mut Rng) -> String {
    format!("{} {}", pick(rng, &FIRST_NAMES), surname(rng))
}

/// "Golden Heron": the name of a chain, or what a place is called after.
pub(super) fn emblem(rng: &mut Rng) -> String {
    format!("{} {}", pick(rng, &ADJECTIVES), pick(rng, &NOUNS))
}

/// The name of a place of a category: "Golden Heron Bookshop", "Café Morelli", "Harbour Gym".
pub(super) fn place(category: &str, district: &str, rng: &mut Rng) -> String {
    match rng.below(8) {
        0..=2 => format!("{} {category}", emblem(rng)),
        3..=4 => format!("{category} {}", surname(rng)),
        5 => format!("{}'s {category}", pick(rng, &FIRST_NAMES)),
        6 => format!("The {} {category}", pick(rng, &NOUNS)),
        _ => format!("{district} {category}"),
    }
}

/// The title of a page on a topic, about a place or none.
pub(super) fn page(topic: &str, place: Option<&str>, rng: &mut Rng) -> String {
    let topic = topic.to_lowercase();
    if let Some(place) = place {
        return match rng.below(4) {
            0 => format!("What {place} teaches us about {topic}"),
            1 => format!("{place}: a visit for friends of {topic}"),
            2 => format!("A new season of {topic} at {place}"),
            _ => format!("{topic} and more: an evening at {place}"),
        };
    }
    match rng.below(6) {
        0 => format!("{} things to know about {topic}", 3 + rng.below(20)),
        1 => format!("Why {} swears by {topic}", person(rng)),
        2 => format!("The {} guide to {topic}", pick(rng, &ADJECTIVES).to_lowercase()),
        3 => format!("{topic} for beginners, part {}", 1 + rng.below(9)),
        4 => format!("{} and the future of {topic}", person(rng)),
        _ => format!("A {} week of {topic}", pick(rng, &ADJECTIVES).to_lowercase()),
    }
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.index(from.len())]
}
