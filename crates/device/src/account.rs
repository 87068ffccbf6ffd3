//! The device's own account of differential privacy against the server. It goes by what the device did, not by what the
//! server says of its rounds, and goes on over rounds, restarts and federations.

use sottovoce_client::Declined;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_privacy::PrivacyConfig;
use sottovoce_privacy::dp::accountant::{Accountant, Round};

/// The delta of the account.
pub const ACCOUNT_DELTA: f64 = 1e-5;

/// What was spent, and what the owner allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    accountant: Accountant,
    /// Updates that left without noise that would bound them.
    pub(crate) unbounded: u64,
    /// The largest epsilon that the owner allows.
    pub(crate) budget: Option<f64>,
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes() && (self.unbounded, self.budget) == (other.unbounded, other.budget)
    }
}

impl Account {
    fn bytes(&self) -> Vec<u8> {
        self.accountant.to_bytes()
    }

    /// The epsilon of all updates with noise; the others have none.
    pub(crate) fn epsilon(&self) -> f64 {
        self.accountant.epsilon(ACCOUNT_DELTA).map_or(f64::INFINITY, |spent| spent.tight)
    }

    /// That a round with these layers stays within the owner's budget.
    pub(crate) fn admit(&self, privacy: &PrivacyConfig, cohort: u32, least: u32) -> Result<(), Declined> {
        let Some(budget) = self.budget else { return Ok(()) };
        let Some(round) = privacy.against_server(cohort, least) else {
            let why = "the owner keeps a budget (--epsilon-budget), and in this round no noise of the devices bounds what \
                the server learns of a person";
            return Err(Declined::terms(why));
        };
        let mut after = self.clone();
        after.accountant.record(round, 1).map_err(Declined::terms)?;
        let epsilon = after.epsilon();
        if epsilon <= budget {
            return Ok(());
        }
        Err(Declined::terms(format!(
            "by this device's own account the round would bring epsilon against the server to {epsilon:.3} at delta \
             {ACCOUNT_DELTA:e}; its owner's budget (--epsilon-budget) is {budget}"
        )))
    }

    /// An update leaves. What cannot be added up counts as without a bound.
    pub(crate) fn spend(&mut self, round: Option<Round>) {
        if round.is_none_or(|round| self.accountant.record(round, 1).is_err()) {
            self.unbounded += 1;
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.block(&self.bytes());
        out.number(self.unbounded);
        out.optional(self.budget, |out, budget| out.number(budget.to_bits()));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Self> {
        const FIELD: &str = "account";
        let accountant = Accountant::from_bytes(from.block(FIELD)?).map_err(|_| FIELD)?;
        let unbounded = from.number(FIELD)?;
        let budget = from.optional("budget", |from| Ok(f64::from_bits(from.number("budget")?)))?;
        let budget = budget.map(|budget| if budget > 0.0 { Ok(budget) } else { Err("budget") }).transpose()?;
        Ok(Self { accountant, unbounded, budget })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sottovoce_privacy::quantize::{Packing, RowLayout};
    use sottovoce_privacy::{Noise, Placement, Quantization};

    pub(crate) fn account() -> Account {
        let mut account = Account { budget: Some(3.5), ..Account::default() };
        account.spend(Some(Round::Poisson { rate: 1.0, multiplier: 4.0 }));
        account.spend(None);
        account
    }

    #[test]
    fn keeps_the_owners_budget() {
        let integers =
            Quantization { range: 8.0, clip: Some(1.0), devices: 100, rows: RowLayout::Dense, packing: Packing::Words };
        let local = PrivacyConfig {
            quantization: Some(integers),
            noise: Some(Noise::new(Placement::Local, 4.0)),
            ..PrivacyConfig::default()
        };
        let mut account = Account::default();
        account.admit(&PrivacyConfig::default(), 10, 0).unwrap();
        account.budget = Some(2.0);
        assert!(account.admit(&PrivacyConfig::default(), 10, 0).unwrap_err().to_string().contains("no noise"));
        let mut rounds = 0;
        while account.admit(&local, 10, 0).is_ok() {
            account.spend(local.against_server(10, 0));
            rounds += 1;
        }
        assert!(rounds > 1 && account.epsilon() <= 2.0, "{rounds} rounds");
        let why = account.admit(&local, 10, 0).unwrap_err().to_string();
        assert!(why.contains("budget (--epsilon-budget) is 2"), "{why}");
        assert_eq!(account.unbounded, 0);
    }
}
