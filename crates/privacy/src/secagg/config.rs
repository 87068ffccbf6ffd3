//! The configuration of a round of secure aggregation.

use super::parameters::{Parameters, ParametersError, ThreatModel, devices_in};
use sottovoce_protocol::codec::Reader;
use sottovoce_protocol::{DecodeError, FederationId, RoundId};

/// The longest input, in values.
pub(crate) const MOST_VALUES: u32 = 1 << 26;
/// What each device adds to its input in one word more, so that the server sees whether all masks cancelled.
pub(crate) const CHECK_WORD: u32 = 1;
/// The most devices in a round.
pub(crate) const MOST_DEVICES: u32 = 1 << 20;

/// The configuration of one round, the same for the server and every device.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The federation.
    pub federation: FederationId,
    /// The round.
    pub round: RoundId,
    /// How many devices were asked; indices are below it.
    pub devices: u32,
    /// The fewest devices that must advertise keys; with fewer the round aborts.
    pub least: u32,
    /// Values of an input.
    pub length: u32,
    /// The share of the devices that may drop out after advertising, at whichever step.
    pub dropout: f64,
    /// The share of the devices that may pool what they know with the server.
    pub colluding: f64,
    /// The server that the round must be secure against; `None`: the strongest for which there are parameters.
    pub threat_model: Option<ThreatModel>,
    /// Whether keys are signed by identities that devices know from a roster, and survivors are confirmed.
    pub signed: bool,
    /// Digest of everything else that a device was told of the round: its terms and the model. It goes into all masks,
    /// encrypted shares and signatures.
    pub binding: [u8; 32],
}

/// Why a configuration is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Too few or too many devices. Fields: how many were asked; how many must come.
    #[error("{0} devices, and at least {1} must come: a round has from 3 to {MOST_DEVICES}")]
    Devices(u32, u32),
    /// No values, or too many.
    #[error("{0} values: must be 1 to {MOST_VALUES}")]
    Length(u32),
    /// No parameters for these shares.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
}

impl Config {
    /// With 30 % drop-out, 10 % colluding, without signatures; at least all but the drop-out share of the devices must
    /// advertise.
    pub fn new(federation: FederationId, round: RoundId, devices: u32, length: u32) -> Self {
        let dropout = 0.3;
        let least = (devices - devices_in(dropout, devices)).max(3);
        let (colluding, threat_model, signed, binding) = (0.1, None, false, [0; 32]);
        Self { federation, round, devices, least, length, dropout, colluding, threat_model, signed, binding }
    }

    /// The same with identities, which are asked for against a malicious server: so there must be parameters against
    /// one.
    #[must_use]
    pub fn signed(self) -> Self {
        Self { signed: true, threat_model: Some(ThreatModel::Malicious), ..self }
    }

    /// The same, bound to what devices were told of the round.
    #[must_use]
    pub fn bound_to(self, binding: [u8; 32]) -> Self {
        Self { binding, ..self }
    }

    /// Words of a masked input: its values and the check word.
    pub fn words(&self) -> usize {
        self.length as usize + 1
    }

    /// That a round with this configuration is possible.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (devices, least) = (self.devices, self.least);
        if least < 3 || devices < least || devices > MOST_DEVICES {
            return Err(ConfigError::Devices(devices, least));
        }
        if self.length == 0 || self.length > MOST_VALUES {
            return Err(ConfigError::Length(self.length));
        }
        self.parameters(devices)?;
        Ok(())
    }

    /// Degree and threshold, given how many advertised keys. Devices compute the same and check the server's.
    pub fn parameters(&self, advertised: u32) -> Result<Parameters, ConfigError> {
        if advertised < self.least || advertised > self.devices {
            return Err(ConfigError::Devices(advertised, self.least));
        }
        Ok(Parameters::choose(advertised, self.dropout, self.colluding, self.threat_model)?)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.federation.0.to_le_bytes());
        out.extend(self.round.0.to_le_bytes());
        for number in [self.devices, self.least, self.length] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.dropout.to_le_bytes());
        out.extend(self.colluding.to_le_bytes());
        out.push(self.threat_model.map_or(0, |against| if against == ThreatModel::SemiHonest { 1 } else { 2 }));
        out.push(self.signed.into());
        out.extend(self.binding);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            federation: FederationId(from.u64("federation")?),
            round: RoundId(from.u64("round")?),
            devices: from.u32("devices")?,
            least: from.u32("least devices")?,
            length: from.u32("length")?,
            dropout: f64::from_bits(from.u64("drop-out share")?),
            colluding: f64::from_bits(from.u64("colluding share")?),
            threat_model: match from.byte("threat model")? {
                0 => None,
                1 => Some(ThreatModel::SemiHonest),
                2 => Some(ThreatModel::Malicious),
                found => {
                    return Err(DecodeError::Code("threat model", from.at() - 1, found));
                }
            },
            signed: from.flag("signed")?,
            binding: from.array("binding")?,
        })
    }
}
