//! The parameters of a town, as written in its name: `synth:town:users=100000:seed=3`.

use super::TownError;
use std::fmt;
use std::str::FromStr;

/// What a town's name starts with.
pub const PREFIX: &str = "synth:town";

/// Everything a town is determined by. Read from its name, which it prints again.
///
/// ```
/// use sottovoce_data::town::TownSpec;
/// let spec: TownSpec = "synth:town:users=500:drift=0.6".parse()?;
/// assert_eq!((spec.users, spec.seed), (500, 1));
/// assert_eq!(spec.to_string(), "synth:town:users=500:seed=1:drift=0.6");
/// # Ok::<(), sottovoce_data::town::TownError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TownSpec {
    /// How many residents there are.
    pub users: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// How many places there are; `None`: as many as suit the residents, see [`places`](Self::places).
    pub places: Option<usize>,
    /// How many web pages there are; `None`: as many as places.
    pub pages: Option<usize>,
    /// How many taste groups there are.
    pub groups: usize,
    /// How many districts there are.
    pub districts: usize,
    /// How many days the check-ins span.
    pub days: u32,
    /// Mean number of check-ins a resident.
    pub checkins: f64,
    /// Mean number of page views a resident, within the last [`READING_DAYS`] days.
    pub views: f64,
    /// Share of check-ins that return to a place already visited.
    pub repeat: f64,
    /// How far a resident's taste has moved to another group's by the last day: 0 not at all, 1 entirely.
    pub drift: f64,
    /// How strongly taste outweighs popularity: 0 not at all, 1 as calibrated.
    pub taste: f64,
}

/// Page views are generated for this many days at the end of the period: interests are a matter of weeks.
pub const READING_DAYS: u32 = 90;

impl Default for TownSpec {
    fn default() -> Self {
        Self {
            users: 2000,
            seed: 1,
            places: None,
            pages: None,
            groups: 12,
            districts: 9,
            days: 730,
            checkins: 36.0,
            views: 80.0,
            repeat: 0.2,
            drift: 0.25,
            taste: 1.0,
        }
    }
}

/// One parameter of a town's name, as documented to users.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name before the `=`.
    pub key: &'static str,
    /// Smallest value taken.
    pub low: f64,
    /// Largest value taken.
    pub high: f64,
    /// Whether only whole numbers are taken.
    pub whole: bool,
    /// One line: what it does.
    pub help: &'static str,
}

/// All parameters, in the order in which a name shows them.
pub const PARAMETERS: [Parameter; 12] = [
    whole("users", 50.0, 10e6, "residents"),
    whole("seed", 0.0, 9_007_199_254_740_991.0, "seed of all randomness"),
    whole("places", 100.0, 200e3, "places; by default grows with the square root of the residents"),
    whole("pages", 100.0, 200e3, "web pages; by default as many as places"),
    whole("groups", 1.0, 64.0, "taste groups"),
    whole("districts", 1.0, 64.0, "districts"),
    whole("days", 14.0, 3650.0, "days the check-ins span"),
    real("checkins", 10.0, 500.0, "mean number of check-ins a resident"),
    real("views", 1.0, 1000.0, "mean number of page views a resident"),
    real("repeat", 0.0, 0.9, "share of check-ins that return to a place already visited"),
    real("drift", 0.0, 1.0, "how far tastes move to another group's by the last day"),
    real("taste", 0.0, 3.0, "how strongly taste outweighs popularity"),
];

const fn whole(key: &'static str, low: f64, high: f64, help: &'static str) -> Parameter {
    Parameter { key, low, high, whole: true, help }
}

const fn real(key: &'static str, low: f64, high: f64, help: &'static str) -> Parameter {
    Parameter { key, low, high, whole: false, help }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.whole { "a whole number" } else { "a number" };
        write!(f, "{kind} from {} to {}", self.low, self.high)
    }
}

impl TownSpec {
    /// How many places the town has.
    ///
    /// If not given: 2,000 for 1,000 to 10,000 residents, so that towns of these sizes share their catalog; beyond,
    /// in proportion to the square root of the residents (447 for 50, 63,246 for 10 million).
    pub fn places(&self) -> usize {
        let crowd = match self.users {
            0..1000 => self.users as f64 / 1000.0,
            1000..=10_000 => 1.0,
            _ => self.users as f64 / 10_000.0,
        };
        self.places.unwrap_or_else(|| (2000.0 * crowd.sqrt()).round() as usize)
    }

    /// How many web pages the town has.
    pub fn pages(&self) -> usize {
        self.pages.unwrap_or_else(|| self.places())
    }

    /// Checks every parameter against its range; those read from a name have passed this.
    ///
    /// # Errors
    /// Names the first parameter that is out of range, and its range.
    pub fn check(&self) -> Result<(), TownError> {
        for parameter in &PARAMETERS {
            let value = self.value(parameter.key);
            if !(parameter.low..=parameter.high).contains(&value) {
                return Err(out_of_range(parameter, &value.to_string()));
            }
        }
        Ok(())
    }

    fn value(&self, key: &str) -> f64 {
        match key {
            "users" => self.users as f64,
            "seed" => self.seed as f64,
            "places" => self.places() as f64,
            "pages" => self.pages() as f64,
            "groups" => self.groups as f64,
            "districts" => self.districts as f64,
            "days" => f64::from(self.days),
            "checkins" => self.checkins,
            "views" => self.views,
            "repeat" => self.repeat,
            "drift" => self.drift,
            _ => self.taste,
        }
    }

    fn set(&mut self, key: &str, value: f64) {
        match key {
            "users" => self.users = value as usize,
            "seed" => self.seed = value as u64,
            "places" => self.places = Some(value as usize),
            "pages" => self.pages = Some(value as usize),
            "groups" => self.groups = value as usize,
            "districts" => self.districts = value as usize,
            "days" => self.days = value as u32,
            "checkins" => self.checkins = value,
            "views" => self.views = value,
            "repeat" => self.repeat = value,
            "drift" => self.drift = value,
            _ => self.taste = value,
        }
    }

    fn read_part(&mut self, part: &str) -> Result<&'static str, TownError> {
        let Some((key, text)) = part.split_once('=') else {
            return Err(TownError::Name(format!(": `{part}` is not of the form parameter=value")));
        };
        let Some(parameter) = PARAMETERS.iter().find(|known| known.key == key) else {
            return Err(TownError::Name(format!(" has no parameter `{key}`: {}", nearest(key))));
        };
        let value: f64 = text.parse().map_err(|_| out_of_range(parameter, text))?;
        let fits = (parameter.low..=parameter.high).contains(&value) && (!parameter.whole || value.fract() == 0.0);
        if !fits {
            return Err(out_of_range(parameter, text));
        }
        self.set(parameter.key, value);
        Ok(parameter.key)
    }
}

fn out_of_range(parameter: &Parameter, found: &str) -> TownError {
    TownError::Name(format!(": {} must be {parameter}, not `{found}`", parameter.key))
}

/// "did you mean ...?" when a key is similar, else the list of keys.
fn nearest(key: &str) -> String {
    let best = PARAMETERS
        .iter()
        .map(|known| (strsim::jaro_winkler(key, known.key), known.key))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((similarity, known)) if similarity > 0.75 => format!("did you mean `{known}`?"),
        _ => {
            let keys: Vec<_> = PARAMETERS.iter().map(|known| known.key).collect();
            format!("it takes {}", keys.join(", "))
        }
    }
}

impl FromStr for TownSpec {
    type Err = TownError;

    /// Reads a name such as `synth:town:users=500:seed=3`; `synth:` or `synth:town` in front may be missing.
    fn from_str(name: &str) -> Result<Self, TownError> {
        let rest = name.strip_prefix("synth:").unwrap_or(name);
        let rest = rest.strip_prefix("town").unwrap_or(rest);
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let mut spec = TownSpec::default();
        let mut seen: Vec<&'static str> = Vec::new();
        for part in rest.split(':').filter(|_| !rest.is_empty()) {
            let key = spec.read_part(part)?;
            if seen.contains(&key) {
                return Err(TownError::Name(format!(": {key} is given twice")));
            }
            seen.push(key);
        }
        Ok(spec)
    }
}

impl fmt::Display for TownSpec {
    /// Residents and seed always, the others where they differ from the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}:users={}:seed={}", self.users, self.seed)?;
        let usual = TownSpec { users: self.users, ..TownSpec::default() };
        for parameter in &PARAMETERS[2..] {
            let (value, default) = (self.value(parameter.key), usual.value(parameter.key));
            let given = match parameter.key {
                "places" => self.places.is_some(),
                "pages" => self.pages.is_some(),
                _ => value != default,
            };
            if given {
                write!(f, ":{}={value}", parameter.key)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn default_places_grow_sublinearly() {
        let places = |users| TownSpec { users, ..TownSpec::default() }.places();
        assert_eq!([50, 1000, 10_000, 10_000_000].map(places), [447, 2000, 2000, 63_246]);
    }

    #[test]
    fn prefix_is_optional() {
        let spec = |name: &str| name.parse::<TownSpec>().unwrap();
        assert_eq!(spec("town:users=70"), spec("synth:town:users=70"));
        assert_eq!(spec("users=70").users, 70);
        assert_eq!([spec(""), spec("town"), spec("synth:town")], [(); 3].map(|()| TownSpec::default()));
    }

    #[test]
    fn errors_name_the_parameter() {
        let message = |name: &str| name.parse::<TownSpec>().unwrap_err().to_string();
        assert_eq!(message("synth:town:user=50"), "synth:town has no parameter `user`: did you mean `users`?");
        assert_eq!(message("users=49"), "synth:town: users must be a whole number from 50 to 10000000, not `49`");
        assert_eq!(message("users=60.5"), "synth:town: users must be a whole number from 50 to 10000000, not `60.5`");
        assert_eq!(message("drift=NaN"), "synth:town: drift must be a number from 0 to 1, not `NaN`");
        assert_eq!(message("synth:town:500"), "synth:town: `500` is not of the form parameter=value");
        assert_eq!(message("seed=1:seed=2"), "synth:town: seed is given twice");
        assert!(message("colour=red").contains("it takes users, seed, places"));
    }

    #[test]
    fn checks_specs_built_in_code() {
        let spec = TownSpec { groups: 65, ..TownSpec::default() };
        assert!(spec.check().unwrap_err().to_string().contains("groups must be a whole number from 1 to 64"));
    }

    proptest! {
        #[test]
        fn names_round_trip(users in 50usize..10_000_000, seed in 0u64..1 << 53, places in prop::option::of(100usize..200_000),
                            days in 14u32..3650, drift in 0.0f64..1.0, groups in 1usize..64) {
            let spec = TownSpec { users, seed, places, days, drift, groups, ..TownSpec::default() };
            prop_assert_eq!(spec.to_string().parse::<TownSpec>().unwrap(), spec);
        }
    }
}
