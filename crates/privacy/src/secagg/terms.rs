//! What a round of secure aggregation is agreed to be, before anybody sends anything.

use super::parameters::{ThreatModel, Parameters, ParametersError, devices_in};
use super::wire::{Malformed, Reader};
use sottovoce_protocol::{FederationId, RoundId};

/// The longest input, in values.
pub(crate) const MOST_VALUES: u32 = 1 << 26;
/// The most devices in a round.
pub(crate) const MOST_DEVICES: u32 = 1 << 20;

/// The terms of one round, the same for the server and every device.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which federation.
    pub federation: FederationId,
    /// Which round of it.
    pub round: RoundId,
    /// How many devices were asked; clients are below it.
    pub devices: u32,
    /// With fewer devices that advertised keys, nobody shares anything.
    pub least: u32,
    /// Values of an input.
    pub length: u32,
    /// The share of the devices that may drop out after advertising, at whichever step.
    pub dropout: f64,
    /// The share of the devices that may pool what they know with the server.
    pub colluding: f64,
    /// What server the round must be safe against; `None`: the worst for which there are parameters.
    pub threat_model: Option<ThreatModel>,
    /// Whether keys are signed by identities known from elsewhere, and who was counted is confirmed.
    pub signed: bool,
}

/// Why terms cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Too few or too many devices.
    #[error("{devices} devices, and at least {least} must come: a round has from 3 to {MOST_DEVICES}")]
    Devices {
        /// How many were asked.
        devices: u32,
        /// How many must come.
        least: u32,
    },
    /// No values, or too many.
    #[error("{0} values: must be 1 to {MOST_VALUES}")]
    Length(u32),
    /// No parameters for these shares.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
}

impl Config {
    /// Config with 30 % drop-out, 10 % colluding, unsigned, and at least all but the drop-out share of the devices advertising.
    pub fn new(federation: FederationId, round: RoundId, devices: u32, length: u32) -> Self {
        let dropout = 0.3;
        let least = (devices - devices_in(dropout, devices)).max(3);
        Self {
            federation,
            round,
            devices,
            least,
            length,
            dropout,
            colluding: 0.1,
            threat_model: None,
            signed: false,
        }
    }

    /// The same with identities. Who asks for them reckons with a server that lies, so there must be parameters against one.
    #[must_use]
    pub fn signed(self) -> Self {
        Self { signed: true, threat_model: Some(ThreatModel::Malicious), ..self }
    }

    /// Whether a round can go by these terms.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (devices, least) = (self.devices, self.least);
        if least < 3 || devices < least || devices > MOST_DEVICES {
            return Err(ConfigError::Devices { devices, least });
        }
        if self.length == 0 || self.length > MOST_VALUES {
            return Err(ConfigError::Length(self.length));
        }
        self.parameters(devices)?;
        Ok(())
    }

    /// The graph and the threshold once it is known how many advertised keys. The same everywhere: devices check the server's.
    pub fn parameters(&self, advertised: u32) -> Result<Parameters, ConfigError> {
        if advertised < self.least || advertised > self.devices {
            return Err(ConfigError::Devices { devices: advertised, least: self.least });
        }
        Ok(match self.threat_model {
            None => Parameters::choose(advertised, self.dropout, self.colluding)?,
            Some(threat_model) => Parameters::choose_for_threat(advertised, self.dropout, self.colluding, threat_model)?,
        })
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
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            federation: FederationId(from.u64("federation")?),
            round: RoundId(from.u64("round")?),
            devices: from.u32("devices")?,
            least: from.u32("least devices")?,
            length: from.u32("length")?,
            dropout: f64::from_bits(from.u64("drop-out share")?),
            colluding: f64::from_bits(from.u64("colluding share")?),
            threat_model: match from.u8("against")? {
                0 => None,
                1 => Some(ThreatModel::SemiHonest),
                2 => Some(ThreatModel::Malicious),
                other => return Err(from.wrong("against", other.into(), "0, 1 or 2")),
            },
            signed: from.flag("signed")?,
        })
    }
}
