//! What a device keeps of its federation's protection, so that it cannot be taken away unnoticed.

use sottovoce_client::Declined;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_privacy::{OPEN, SEALS, commitment, lasting, weaker};
use sottovoce_protocol::{PrivacyLayer, PrivacyTerms, RoundTerms, Settings};
use std::collections::BTreeSet;

/// The layers of the federation, as the device met them first or its owner accepted them since.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Protection {
    /// What the enrolment token says of the layers and keys that the federation was founded with; it comes from whoever
    /// gave the token, not from the server.
    pub(crate) commitment: Option<String>,
    /// The layers kept. `None`: no round's terms were accepted yet.
    pub(crate) kept: Option<PrivacyTerms>,
    /// Weaker ones that the server asked for last, for the owner to decide on.
    pub(crate) offered: Option<PrivacyTerms>,
    /// Layers that need the owner's word, and have it.
    pub(crate) accepted: BTreeSet<String>,
}

/// Whether nothing seals updates.
fn is_open(terms: &PrivacyTerms) -> bool {
    !terms.layers.iter().any(|layer| SEALS.contains(&layer.name.as_str()))
}

/// What separates an enrolment token from the commitment.
const SEPARATOR: char = '.';

/// The token itself, and the commitment that it was given with.
pub(crate) fn split_token(token: String) -> (String, Option<String>) {
    match token.split_once(SEPARATOR) {
        Some((secret, commitment)) => (secret.to_owned(), Some(commitment.trim_end().to_owned())),
        None => (token, None),
    }
}

impl Protection {
    /// Agrees to open rounds where the layers kept are open, or unknown although there was a round.
    pub(crate) fn accept_open_if_kept(&mut self, had_a_round: bool) {
        if self.kept.as_ref().map_or(had_a_round, is_open) {
            self.accepted.insert(OPEN.to_owned());
        }
    }

    /// Keeps the layers that the owner agrees to, weaker than those before.
    pub(crate) fn accept_weaker(&mut self, offered: PrivacyTerms) {
        (self.kept, self.offered) = (Some(offered), None);
        self.accept_open_if_kept(false);
    }

    /// The layers to keep from now on, if these terms protect no less than those kept; otherwise why the device
    /// declines, and the layers for the owner to decide on.
    pub(crate) fn check(&self, terms: &RoundTerms) -> Result<PrivacyTerms, (Declined, Option<PrivacyTerms>)> {
        let refused = |why: &dyn std::fmt::Display| (Declined::terms(why), None);
        let offered = lasting(terms).map_err(|error| refused(&error))?;
        let Some(kept) = &self.kept else {
            let found = commitment(terms).map_err(|error| refused(&error))?;
            let expected = self.commitment.as_ref().filter(|expected| **expected != found);
            return expected.map_or(Ok(offered), |expected| {
                let why = format!(
                    "the enrolment token is for a federation whose protection and keys have the digest {expected}, but \
                     the server asks for a round with {found}: ask whoever gave you the token"
                );
                Err(refused(&why))
            });
        };
        let weaker = weaker(kept, &offered).map_err(|error| refused(&error))?;
        if weaker.is_empty() {
            return Ok(offered);
        }
        let why = format!(
            "the server asks for less protection than this device joined with: {}. `sottovoce device policy \
             --accept-weaker` agrees to that",
            weaker.join("; ")
        );
        Err((Declined::terms(why), Some(offered)))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.optional(self.commitment.as_ref(), |out, text| out.block(text.as_bytes()));
        for layers in [&self.kept, &self.offered] {
            out.optional(layers.as_ref(), write_layers);
        }
        out.texts(self.accepted.iter().map(String::as_str));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Self> {
        let commitment = from.optional("commitment", |from| Ok(from.text("commitment")?.to_owned()))?;
        let kept = from.optional("federation's layers", read_layers)?;
        let offered = from.optional("layers offered", read_layers)?;
        let accepted = from.texts::<Vec<_>>("accepted layers")?.into_iter().map(str::to_owned).collect();
        Ok(Self { commitment, kept, offered, accepted })
    }
}

fn write_layers(out: &mut Writer, terms: &PrivacyTerms) {
    out.number(terms.layers.len() as u64);
    for PrivacyLayer { name, settings } in &terms.layers {
        out.block(name.as_bytes());
        let texts: Vec<&str> = settings.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]).collect();
        out.texts(texts.into_iter());
    }
}

fn read_layers(from: &mut Reader<'_>) -> Read<PrivacyTerms> {
    const FIELD: &str = "federation's layers";
    let count = from.count(FIELD)?;
    let layer = |_| {
        let name = from.text(FIELD)?.to_owned();
        let texts: Vec<&str> = from.texts(FIELD)?;
        let pairs = texts.as_chunks::<2>();
        if !pairs.1.is_empty() {
            return Err(FIELD);
        }
        let settings: Settings = pairs.0.iter().map(|[key, value]| ((*key).to_owned(), (*value).to_owned())).collect();
        Ok(PrivacyLayer { name, settings })
    };
    Ok(PrivacyTerms { layers: (0..count).map(layer).collect::<Read<_>>()? })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn protection() -> Protection {
        let settings = [("dropout", "0.3"), ("colluding", "0.1")];
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let layers = vec![PrivacyLayer { name: "secure-aggregation".to_owned(), settings }];
        Protection {
            commitment: Some("ab".to_owned()),
            kept: Some(PrivacyTerms { layers }),
            offered: Some(PrivacyTerms::default()),
            accepted: ["encryption".to_owned()].into(),
        }
    }

    #[test]
    fn tokens_carry_a_commitment_or_none() {
        assert_eq!(split_token("sve_a.12".to_owned()), ("sve_a".to_owned(), Some("12".to_owned())));
        assert_eq!(split_token("sve_a".to_owned()), ("sve_a".to_owned(), None));
    }
}
