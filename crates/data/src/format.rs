//! The formats that can be read, by name.

use crate::error::{DataError, Result};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

macro_rules! formats {
    ($($variant:ident $name:literal $doc:literal),+ $(,)?) => {
        /// How a data set is written down.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format { $(#[doc = $doc] $variant),+ }

        impl Format {
            /// All formats.
            pub const ALL: &[Format] = &[$(Format::$variant),+];

            /// The name by which the format is asked for.
            pub fn name(self) -> &'static str {
                match self { $(Format::$variant => $name),+ }
            }

            /// What the format is, in a few words.
            pub fn about(self) -> &'static str {
                match self { $(Format::$variant => $doc),+ }
            }
        }
    };
}

formats! {
    MovieLens100k "movielens-100k" "MovieLens 100K: `u.data`, titles and genres in `u.item`.",
    MovieLens1m "movielens-1m" "MovieLens 1M and 10M: `ratings.dat`, titles and genres in `movies.dat`.",
    MovieLens20m "movielens-20m" "MovieLens 20M and later: `ratings.csv`, titles and genres in `movies.csv`.",
    MovieTweetings "movietweetings" "MovieTweetings: `ratings.dat` with IMDb numbers, `movies.dat`.",
    LastFm2k "lastfm-2k" "Last.fm of HetRec 2011: `user_artists.dat`, `artists.dat`, tags.",
    LastFm360k "lastfm-360k" "Last.fm 360K: user, artist's MusicBrainz id, artist's name, plays.",
    Foursquare "foursquare" "Foursquare check-ins of New York and Tokyo: `dataset_TSMC2014_*.txt`.",
    FoursquareGlobal "foursquare-global" "Foursquare check-ins of the world: `dataset_TIST2015_Checkins.txt`.",
    AmazonRatings "amazon-ratings" "Amazon ratings only: `user,item,rating,timestamp` or `item,user,...`.",
    JsonLines "json-lines" "One JSON object a line: Amazon, Goodreads, Yelp reviews.",
    LibraryThing "librarything" "LibraryThing `reviews.txt`: one Python dictionary a line.",
    YahooMovies "yahoo-movies" "Yahoo! Movies: user, movie, rating 1-13, rating 1-5.",
    MsWeb "msweb" "Anonymous Microsoft web data of UCI: attribute, case and vote lines.",
    RecBole "recbole" "RecBole atomic files: `.inter` and `.item` with typed headers.",
    Sequences "sequences" "One user a line: the user, then items in time order (S3-Rec).",
    Delimited "delimited" "Delimited text: user, item, and perhaps rating and time.",
    Parquet "parquet" "Parquet with columns user, item, and perhaps rating and time.",
    Synthetic "synthetic" "Invented by Sottovoce itself.",
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for Format {
    type Err = DataError;

    /// The format of that name; `tsv`, `csv` and `text` stand for delimited text.
    fn from_str(text: &str) -> Result<Self> {
        let asked = text.trim().to_lowercase();
        if ["tsv", "csv", "text", "txt"].contains(&asked.as_str()) {
            return Ok(Format::Delimited);
        }
        let found = Format::ALL.iter().find(|format| format.name() == asked && **format != Format::Synthetic);
        found.copied().ok_or_else(|| DataError::Specification("format", text.to_owned(), names()))
    }
}

fn names() -> String {
    let all: Vec<_> = Format::ALL.iter().filter(|&&f| f != Format::Synthetic).map(|format| format.name()).collect();
    format!("one of {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_names_round_trip() {
        for &format in Format::ALL.iter().filter(|&&format| format != Format::Synthetic) {
            assert_eq!(format.name().parse::<Format>().unwrap(), format);
        }
        let error = "exel".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("exel") && error.contains("movielens-1m"), "{error}");
    }
}
