//! What an owner requires of a round's privacy layers.

use crate::PrivacyLayer;

/// One requirement: `LAYER` for a layer that must be present, `LAYER.SETTING` for one with a setting that must be
/// `true`, and `LAYER.SETTING=WORD`, `LAYER.SETTING>=NUMBER` or `LAYER.SETTING<=NUMBER` for a condition on a setting.
///
/// ```
/// use sottovoce_protocol::{LayerRequirement, PrivacyLayer};
/// let requirement = LayerRequirement::parse("secure-aggregation.colluding>=0.1").unwrap();
/// let layer = PrivacyLayer {
///     name: "secure-aggregation".to_owned(),
///     settings: [("colluding".to_owned(), "0.05".to_owned())].into(),
/// };
/// assert!(!requirement.is_met_by(&layer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerRequirement<'a> {
    /// The layer's name.
    pub layer: &'a str,
    setting: Option<(&'a str, Condition<'a>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition<'a> {
    Word(&'a str),
    AtLeast(f64),
    AtMost(f64),
}

impl<'a> LayerRequirement<'a> {
    /// From its text; `None` if that is no requirement.
    pub fn parse(text: &'a str) -> Option<Self> {
        let Some((layer, rest)) = text.split_once('.') else {
            return is_name(text).then_some(Self { layer: text, setting: None });
        };
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        let (setting, condition) = match (rest.split_once(">="), rest.split_once("<="), rest.split_once('=')) {
            (Some((setting, least)), ..) => (setting, Condition::AtLeast(number(least)?)),
            (_, Some((setting, most)), _) => (setting, Condition::AtMost(number(most)?)),
            (.., Some((setting, word))) => (setting, Condition::Word(Some(word).filter(|word| is_word(word))?)),
            _ => (rest, Condition::Word("true")),
        };
        (is_name(layer) && is_name(setting)).then_some(Self { layer, setting: Some((setting, condition)) })
    }

    /// Whether this is the layer and its setting meets the condition. A missing setting, or one that is not a number
    /// where a number is required, does not.
    pub fn is_met_by(&self, layer: &PrivacyLayer) -> bool {
        let holds = |(setting, condition): (&str, Condition<'_>)| {
            let Some(value) = layer.settings.get(setting) else { return false };
            let number = || value.parse().unwrap_or(f64::NAN);
            match condition {
                Condition::Word(word) => value == word,
                Condition::AtLeast(least) => number() >= least,
                Condition::AtMost(most) => number() <= most,
            }
        };
        layer.name == self.layer && self.setting.is_none_or(holds)
    }
}

fn is_name(text: &str) -> bool {
    is_word(text) && !text.contains('.')
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(settings: &[(&str, &str)]) -> PrivacyLayer {
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        PrivacyLayer { name: "masks".to_owned(), settings }
    }

    #[test]
    fn checks_layer_and_setting() {
        let layer = masks(&[("known", "true"), ("off", "false"), ("share", "0.25"), ("how", "fast")]);
        let met = |text: &str| LayerRequirement::parse(text).unwrap().is_met_by(&layer);
        for text in [
            "masks",
            "masks.known",
            "masks.known=true",
            "masks.how=fast",
            "masks.share>=0.25",
            "masks.share<=0.25",
            "masks.share>=-1",
        ] {
            assert!(met(text), "{text}");
        }
        for text in [
            "mask",
            "noise.known",
            "masks.off",
            "masks.missing",
            "masks.missing<=1",
            "masks.how=slow",
            "masks.how>=0",
            "masks.share>=0.26",
            "masks.share<=0.24",
        ] {
            assert!(!met(text), "{text}");
        }
        assert!(!LayerRequirement::parse("masks.share<=1").unwrap().is_met_by(&masks(&[("share", "NaN")])));
    }

    #[test]
    fn rejects_malformed_requirements() {
        for text in
            ["", ".", "a.", ".b", "a b", "a.b>=", "a.b>=x", "a.b<=NaN", "a.b>=inf", "a.b.c", "a.=1", "a.b=>1", "a.b="]
        {
            assert_eq!(LayerRequirement::parse(text), None, "{text}");
        }
        assert_eq!(LayerRequirement::parse("masks.known").unwrap().layer, "masks");
    }
}
