//! A small, whole example of every format.

use super::Case;
use sottovoce_data::Format;

/// An example and what it must load as.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The files.
    pub case: Case,
    /// The format they are in.
    pub format: Format,
    /// Users, items and interactions in them.
    pub counts: (usize, usize, usize),
}

type Text<'a> = (&'a str, &'a [u8]);

fn seed(format: Format, counts: (usize, usize, usize), files: &[Text<'_>]) -> Seed {
    let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    Seed { case: Case { files }, format, counts }
}

/// One example or more of every format.
pub fn seeds() -> Vec<Seed> {
    let mut all = movies();
    all.extend(music_and_places());
    all.extend(reviews());
    all.extend(tables());
    all.extend(packed());
    all
}

fn movies() -> Vec<Seed> {
    vec![
        seed(
            Format::MovieLens100k,
            (2, 2, 3),
            &[
                ("u.data", b"196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t878887116\n"),
                ("u.genre", b"unknown|0\nAction|1\nAdventure|2\n\n"),
                (
                    "u.item",
                    b"242|Mis\xe9rables, Les (1995)|01-Jan-1995||http://x|0|1|1|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n\
                      302|L.A. Confidential (1997)|01-Jan-1997||http://y|1|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n",
                ),
            ],
        ),
        seed(
            Format::MovieLens1m,
            (2, 3, 4),
            &[
                (
                    "ratings.dat",
                    b"1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n2::3::1::978299000\n",
                ),
                (
                    "movies.dat",
                    b"661::James and the Giant Peach (1996)::Animation|Musical\n1193::L\xe9on::Drama\n9::X::Y\n",
                ),
            ],
        ),
        seed(
            Format::MovieLens20m,
            (2, 2, 3),
            &[
                (
                    "ratings.csv",
                    b"userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,3.5,1112484676\n7,2,0.5,1112484819\n",
                ),
                (
                    "movies.csv",
                    b"movieId,title,genres\r\n2,Jumanji (1995),Adventure|Fantasy\r\n\
                      29,\"City of Lost \"\"Children\"\", The (1995)\",(no genres listed)\r\n",
                ),
            ],
        ),
        seed(
            Format::MovieTweetings,
            (2, 3, 3),
            &[
                ("ratings.dat", b"1::1074638::7::1365029107\n1::1853728::8::1366576639\n2::0104257::8::1364690142\n"),
                (
                    "movies.dat",
                    "0104257::A Few Good Men (1992)::Crime|Drama\n1074638::Skyfall à Londres::\n".as_bytes(),
                ),
            ],
        ),
        seed(
            Format::YahooMovies,
            (2, 2, 3),
            &[
                ("ydata-ymovies-user-movie-ratings-train-v1_0.txt", b"1\t1800000001\t10\t4\n2\t1800000001\t13\t5\n"),
                ("ydata-ymovies-user-movie-ratings-test-v1_0.txt", b"1\t1800000002\t1\t1\n"),
                ("ydata-ymovies-movie-content-descr-v1_0.txt", b"1800000001\tSome Film (2001)\tA plot.\n"),
            ],
        ),
    ]
}

fn music_and_places() -> Vec<Seed> {
    vec![
        seed(
            Format::LastFm2k,
            (2, 2, 3),
            &[
                ("user_artists.dat", b"userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t11690\r\n3\t51\t1\r\n"),
                ("artists.dat", "id\tname\turl\tpictureURL\n51\tDuran Duran\thttp://a\thttp://b\n52\tMorcheeba ü\thttp://c\t\n".as_bytes()),
                ("tags.dat", b"tagID\ttagValue\n1\tnew wave\n2\ttrip-hop\n"),
                ("user_taggedartists.dat", b"userID\tartistID\ttagID\tday\tmonth\tyear\n2\t51\t1\t1\t4\t2009\n3\t52\t2\t1\t4\t2009\n"),
            ],
        ),
        seed(
            Format::LastFm360k,
            (2, 2, 3),
            &[(
                "usersha1-artmbid-artname-plays.tsv",
                b"00000c289a1829a808ac09c00daf10bc3c4e223b\t3bd73256-3905-4f3a-97e2-8b341527f805\tbetty blowtorch\t2137\n\
                  00000c289a1829a808ac09c00daf10bc3c4e223b\t\tdie \xc3\x84rzte\t1099\n\
                  00001411dc427966b17297bf4d69e7e193135d89\t\tdie \xc3\x84rzte\t897\n",
            )],
        ),
        seed(
            Format::Foursquare,
            (2, 2, 3),
            &[(
                "dataset_TSMC2014_NYC.txt",
                b"470\t49bbd6c0f964a520f4531fe3\t4bf58dd8d48988d127951735\tCaf\xe9\t40.7\t-74.0\t-240\tTue Apr 03 18:00:09 +0000 2012\n\
                  979\t4a43c0aef964a520c6a61fe3\t4bf58dd8d48988d1df941735\tBridge\t40.6\t-74.0\t-240\tTue Apr 03 18:00:25 +0000 2012\n\
                  979\t49bbd6c0f964a520f4531fe3\t4bf58dd8d48988d127951735\tCaf\xe9\t40.7\t-74.0\t-240\tWed Apr 04 18:00:09 +0000 2012\n",
            )],
        ),
        seed(
            Format::FoursquareGlobal,
            (2, 2, 2),
            &[
                (
                    "dataset_TIST2015_Checkins.txt",
                    b"50756\t4f5e3a72e4b053fd6a4313f6\tTue Apr 03 18:00:06 +0000 2012\t240\n\
                      190571\t4b4b87b5f964a5204a9f26e3\tTue Apr 03 18:00:07 +0000 2012\t180\n",
                ),
                ("dataset_TIST2015_POIs.txt", b"4f5e3a72e4b053fd6a4313f6\t55.69\t12.58\tTrain Station\tDK\n"),
            ],
        ),
        seed(
            Format::MsWeb,
            (2, 2, 3),
            &[(
                "anonymous-msweb.data",
                b"I,4,\"www.microsoft.com\",\"created by getlog.pl\"\nT,1,\"VRoot\",0,0,\"VRoot\"\n\
                  A,1287,1,\"International AutoRoute\",\"/autoroute\"\nA,1000,1,\"regwiz\",\"/regwiz\"\n\
                  C,\"10001\",10001\nV,1000,1\nV,1001,1\nC,\"10002\",10002\nV,1001,1\n",
            )],
        ),
    ]
}

fn reviews() -> Vec<Seed> {
    vec![
        seed(
            Format::AmazonRatings,
            (2, 2, 3),
            &[("ratings_Books.csv", b"A2CX7LUOHB2NDG,0321732944,5.0,1341100800\nA2CX7LUOHB2NDG,0439886341,1.0,1367193600\nA2NWSAGRHCP8N5,0439886341,1.0,1367193600\n")],
        ),
        seed(
            Format::AmazonRatings,
            (2, 1, 2),
            &[("Gift_Cards.csv", b"B001GXRQW0,APV13CM0919JD,1.0,1229644800\nB001GXRQW0,A3G8U1G1V082SN,5.0,1229472000\n")],
        ),
        seed(
            Format::JsonLines,
            (2, 2, 3),
            &[(
                "Musical_Instruments_5.json",
                b"{\"reviewerID\": \"A2IBPI20UZIR0U\", \"asin\": \"1384719342\", \"reviewerName\": \"c \\\"s\\\"\", \"helpful\": [0, 0], \"overall\": 5.0, \"unixReviewTime\": 1393545600}\n\
                  {\"reviewerID\": \"A14VAT5EAX3D9S\", \"asin\": \"1384719342\", \"overall\": 4.0, \"unixReviewTime\": 1363392000}\n\n\
                  {\"reviewerID\": \"A14VAT5EAX3D9S\", \"asin\": \"B00004Y2UT\", \"overall\": 3, \"unixReviewTime\": 1363392001}\n",
            )],
        ),
        seed(
            Format::JsonLines,
            (1, 2, 2),
            &[(
                "All_Beauty.jsonl",
                b"{\"rating\": 5.0, \"title\": \"x\", \"images\": [], \"asin\": \"B00YQ6X8EO\", \"parent_asin\": \"B00YQ6X8EA\", \"user_id\": \"AGKHLEW2SOWHNMFQIJGBECAF7INQ\", \"timestamp\": 1588687728923, \"verified_purchase\": true}\n\
                  {\"rating\": 4.0, \"asin\": \"B081TJ8YS3\", \"parent_asin\": \"B081TJ8YS4\", \"user_id\": \"AGKHLEW2SOWHNMFQIJGBECAF7INQ\", \"timestamp\": 1588615855070}\n",
            )],
        ),
        seed(
            Format::LibraryThing,
            (2, 2, 2),
            &[(
                "reviews.txt",
                b"reviews[('3206242', 'van_stef')] = {'comment': \"It's great, isn't it?\", 'nhelpful': 0, 'unixtime': 1194393600, 'work': '3206242', 'flags': ['a', 'b'], 'user': 'van_stef', 'stars': 5.0, 'time': 'Nov 7, 2007'}\n\
                  reviews[('12198649', 'dwatson2')] = {'comment': u'caf\\xe9 \\u2019\\n', 'nhelpful': 1, 'unixtime': 1333756800, 'work': '12198649', 'flags': [], 'user': 'dwatson2', 'stars': 3.5, 'time': 'Apr 7, 2012'}\n",
            )],
        ),
    ]
}

fn tables() -> Vec<Seed> {
    vec![
        seed(
            Format::RecBole,
            (2, 2, 3),
            &[
                ("ml.inter", b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n196\t242\t3\t881250949\n186\t302\t3\t891717742.5\n196\t302\t2\t881250950\n"),
                ("ml.item", b"item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n242\tKolya\t1996\tComedy\n302\tL.A. Confidential\t1997\tCrime Film-Noir\n"),
            ],
        ),
        seed(
            Format::Sequences,
            (2, 4, 6),
            &[("LastFM.txt", b"1 1 2 3\n2 3 9 2\n"), ("LastFM_item2attributes.json", b"{\"1\": [5, 6], \"9\": [6], \"77\": []}")],
        ),
        seed(
            Format::Delimited,
            (2, 3, 3),
            &[
                ("interactions.tsv", b"user\tarticle\n0\t1430\n1\t1314\n0\t1429\n"),
                ("articles.tsv", b"article\ttitle\n1430\tusing pixiedust\n1314\thealthcare, streaming\n7\tnot read\n"),
            ],
        ),
        seed(
            Format::Delimited,
            (2, 2, 2),
            &[
                ("Roma.tsv", b"\xef\xbb\xbfuser\titem\trating\ttimestamp\r\n7\tduomo\t1\t1333476012\r\n9\tcorso\t1\t1333476101\r\n"),
                ("venues.tsv", b"item\tcategory\tcity\nduomo\tHistoric Site|Church\tMilano\n"),
            ],
        ),
        seed(Format::Delimited, (2, 2, 2), &[("a.csv", b"\"date\";\"uid\";\"song\"\n\"2012-04-03\";\"a;b\";\"x \"\"y\"\"\"\n2012-04-04T01:02:03Z;c;z\n")]),
        seed(Format::Delimited, (2, 3, 3), &[("UI2.txt", b"% comment\nvan 31 4.5\nvan 32 -1\nstef 33 3e0\n")]),
        seed(Format::Delimited, (2, 2, 2), &[("b.psv", b"u1|i1|1.5|1700000000000\nu2|i2|2|1700000001000\n")]),
        seed(Format::Delimited, (1, 2, 2), &[("c.csv", b"u1,i1,1700000000\nu1,i2,1700000001\n")]),
    ]
}

fn packed() -> Vec<Seed> {
    vec![
        seed(Format::Delimited, (2, 2, 3), &[("d.tsv.gz", include_bytes!("examples/d.tsv.gz"))]),
        seed(Format::Delimited, (2, 2, 3), &[("e.tsv.zst", include_bytes!("examples/e.tsv.zst"))]),
        seed(Format::Parquet, (2, 2, 3), &[("f.parquet", include_bytes!("examples/f.parquet"))]),
    ]
}
