//! FedPopularity's settings.

use crate::config;

config! {
    /// FedPopularity's settings: none.
    pub struct FedPopularityConfig {}
}
