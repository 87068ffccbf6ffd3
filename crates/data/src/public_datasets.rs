//! Public data sets by name: where to get them and under which terms. None of them is shipped.

use crate::error::DataError;
use std::path::Path;

/// A public data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicDataset {
    /// The bare name under which it is looked for.
    pub name: &'static str,
    /// Its full name.
    pub title: &'static str,
    /// Where to get it.
    pub home: &'static str,
    /// Under which terms.
    pub terms: &'static str,
}

const MOVIELENS: &str = "research use; acknowledge GroupLens (Harper and Konstan, 2015); no redistribution and no \
                         commercial use without permission";
const HETREC: &str = "non-commercial research use; cite the HetRec 2011 workshop and Last.fm";
const AMAZON: &str = "research use; cite the papers named on the page";
const FOURSQUARE: &str = "research use; cite the papers of Dingqi Yang et al. named on the page";

macro_rules! sets {
    ($($name:literal, $title:literal, $home:literal, $terms:expr;)+) => {
        /// The public sets that can be asked for by name.
        pub const PUBLIC_DATASETS: &[PublicDataset] =
            &[$(PublicDataset { name: $name, title: $title, home: $home, terms: $terms }),+];
    };
}

sets! {
    "ml-100k", "MovieLens 100K", "https://grouplens.org/datasets/movielens/100k/", MOVIELENS;
    "ml-1m", "MovieLens 1M", "https://grouplens.org/datasets/movielens/1m/", MOVIELENS;
    "ml-10m", "MovieLens 10M", "https://grouplens.org/datasets/movielens/10m/", MOVIELENS;
    "ml-20m", "MovieLens 20M", "https://grouplens.org/datasets/movielens/20m/", MOVIELENS;
    "ml-25m", "MovieLens 25M", "https://grouplens.org/datasets/movielens/25m/", MOVIELENS;
    "ml-32m", "MovieLens 32M", "https://grouplens.org/datasets/movielens/32m/", MOVIELENS;
    "ml-latest-small", "MovieLens, small and recent", "https://grouplens.org/datasets/movielens/latest/", MOVIELENS;
    "ml-latest", "MovieLens, all and recent", "https://grouplens.org/datasets/movielens/latest/", MOVIELENS;
    "lastfm-2k", "Last.fm of HetRec 2011", "https://grouplens.org/datasets/hetrec-2011/", HETREC;
    "lastfm-360k", "Last.fm 360K (Celma)", "http://ocelma.net/MusicRecommendationDataset/lastfm-360K.html",
        "non-commercial use; cite Celma (2010) and Last.fm";
    "foursquare-nyc-tokyo", "Foursquare check-ins of New York and Tokyo",
        "https://sites.google.com/site/yangdingqi/home/foursquare-dataset", FOURSQUARE;
    "foursquare-global", "Foursquare check-ins of the world",
        "https://sites.google.com/site/yangdingqi/home/foursquare-dataset", FOURSQUARE;
    "foursquare-italy-cities", "Foursquare check-ins of six Italian cities",
        "https://github.com/sisinflab/FedBPR", FOURSQUARE;
    "amazon-digital-music", "Amazon Digital Music, users with 20 ratings",
        "https://github.com/sisinflab/FedBPR", AMAZON;
    "amazon-reviews-2014", "Amazon reviews until 2014", "https://jmcauley.ucsd.edu/data/amazon/", AMAZON;
    "amazon-reviews-2018", "Amazon reviews until 2018", "https://nijianmo.github.io/amazon/", AMAZON;
    "amazon-reviews-2023", "Amazon reviews until 2023", "https://amazon-reviews-2023.github.io/", AMAZON;
    "librarything", "LibraryThing reviews", "https://cseweb.ucsd.edu/~jmcauley/datasets.html",
        "research use; cite Zhao, McAuley and King (2015) and Cai, He and McAuley (2017)";
    "yahoo-movies", "Yahoo! Movies (R4)", "https://webscope.sandbox.yahoo.com/catalog.php?datatype=r",
        "non-commercial research at universities, after signing Yahoo's agreement; no redistribution";
    "movietweetings", "MovieTweetings", "https://github.com/sidooms/MovieTweetings",
        "public tweets; cite Dooms, De Pessemier and Martens (2013)";
    "movietweetings-100k", "MovieTweetings, snapshot of 100,000 ratings",
        "https://github.com/sidooms/MovieTweetings", "public tweets; cite Dooms et al. (2013)";
    "facebook-books", "Facebook likes of books", "https://github.com/sisinflab/LinkedDatasets",
        "research use: data of the ESWC 2015 challenge on Linked Open Data recommenders";
    "s3rec-sequences", "Sequences of S3-Rec", "https://github.com/RUCAIBox/CIKM2020-S3Rec",
        "research use; cite Zhou et al. (2020) and the sets it draws on";
    "msweb", "Anonymous Microsoft web data", "https://archive.ics.uci.edu/dataset/4/anonymous+microsoft+web+data",
        "CC BY 4.0";
    "ibm-watson-articles", "Articles read on IBM Watson Studio", "https://pypi.org/project/recommender-ibmws/",
        "course material of Udacity and IBM; no terms are stated for the data itself";
}

/// The data set of that name.
pub fn public_dataset(name: &str) -> Option<&'static PublicDataset> {
    PUBLIC_DATASETS.iter().find(|set| set.name == name)
}

/// Whether a source is a name and not a path.
pub(crate) fn is_bare(source: &str) -> bool {
    !source.is_empty() && !source.contains(['/', '\\']) && source != "." && source != ".."
}

/// The error for a source that is not there.
pub(crate) fn not_found(source: &str, folder: Option<&Path>) -> DataError {
    let searched = match folder {
        _ if !is_bare(source) => String::new(),
        Some(folder) => format!(" (looked in the working folder and in {})", folder.display()),
        None => " (looked in the working folder; no data folder is set: use --data-dir or SOTTOVOCE_DATA)".to_owned(),
    };
    let advice = if is_bare(source) { advice(source) } else { String::new() };
    DataError::NotFound(source.to_owned(), searched, advice)
}

fn advice(name: &str) -> String {
    if let Some(set) = public_dataset(&name.to_lowercase()) {
        return format!(
            "\n{} is to be had at {}\nterms: {}\nunpack it into a folder `{}` in the data folder",
            set.title, set.home, set.terms, set.name
        );
    }
    let close = PUBLIC_DATASETS
        .iter()
        .map(|set| (strsim::damerau_levenshtein(set.name, &name.to_lowercase()), set.name))
        .filter(|(distance, set)| *distance <= 1 + set.len() / 4)
        .min();
    match close {
        Some((_, set)) => format!("\ndid you mean {set}?"),
        None => {
            let names: Vec<_> = PUBLIC_DATASETS.iter().map(|set| set.name).collect();
            format!("\nknown sets: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_a_missing_dataset_names_source_and_terms() {
        let error = not_found("ml-1m", None).to_string();
        assert!(error.contains("grouplens.org/datasets/movielens/1m") && error.contains("redistribution"), "{error}");
        assert!(not_found("ml-1n", None).to_string().contains("did you mean ml-1m?"));
        let error = not_found("quite-another-thing", Some(Path::new("here"))).to_string();
        assert!(error.contains("known sets") && error.contains("here"), "{error}");
        assert!(!not_found("a/b.tsv", None).to_string().contains("known"));
    }

    #[test]
    fn public_datasets_are_complete_and_unique() {
        for (index, set) in PUBLIC_DATASETS.iter().enumerate() {
            assert!(set.home.starts_with("http") && !set.terms.is_empty() && is_bare(set.name));
            assert!(PUBLIC_DATASETS[..index].iter().all(|other| other.name != set.name), "{}", set.name);
        }
    }
}
