//! A town as files, as `sottovoce data synth` writes it.

use super::taxonomy::{leaf_name, section_name, top_name, topic_name};
use super::{CheckIn, PageView, Town, TownError};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Numbers of rows written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows of checkins.tsv.
    pub checkins: usize,
    /// Rows of reading.tsv.
    pub views: usize,
    /// Statements of graph.nt.
    pub statements: usize,
}

type Out = BufWriter<File>;

impl Town {
    /// Writes the town into a new folder: checkins.tsv, places.tsv, graph.nt, pages.tsv, reading.tsv, residents.tsv
    /// (ground truth) and town.txt (the name). Streams: memory does not grow with the residents. `progress` receives
    /// the number of residents done.
    ///
    /// The folder appears when it is complete: until then it has another name, and after a failure it is gone.
    ///
    /// # Errors
    /// If the folder exists or writing fails.
    pub fn write(&self, folder: &Path, mut progress: impl FnMut(usize)) -> Result<Written, TownError> {
        if folder.exists() {
            return Err(TownError::Exists(folder.to_owned()));
        }
        let unfinished = beside(folder);
        let done = self.write_into(&unfinished, &mut progress).and_then(|written| {
            fs::rename(&unfinished, folder).map_err(failed(folder))?;
            Ok(written)
        });
        if done.is_err() {
            // What matters is the first failure; a folder that cannot be removed either is named as unfinished.
            let _ = fs::remove_dir_all(&unfinished);
        }
        done
    }

    fn write_into(&self, folder: &Path, progress: &mut dyn FnMut(usize)) -> Result<Written, TownError> {
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let file = |name: &str, fill: &mut dyn FnMut(&mut Out) -> io::Result<usize>| {
            let path = folder.join(name);
            let mut out = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(failed(&path))?);
            fill(&mut out).and_then(|rows| out.flush().map(|()| rows)).map_err(failed(&path))
        };
        file("town.txt", &mut |out| writeln!(out, "{}", self.spec()).map(|()| 1))?;
        file("places.tsv", &mut |out| self.write_places_table(out))?;
        file("pages.tsv", &mut |out| self.write_pages_table(out))?;
        let statements = file("graph.nt", &mut |out| self.write_ntriples(out))?;
        file("residents.tsv", &mut |out| self.write_residents(out))?;
        let views = file("reading.tsv", &mut |out| self.write_reading(out))?;
        let checkins = file("checkins.tsv", &mut |out| self.write_checkins(out, &mut *progress))?;
        Ok(Written { checkins, views, statements })
    }

    /// Writes `user item timestamp`, tab-separated with a header, and returns the number of rows.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_checkins(&self, mut out: impl Write, progress: impl FnMut(usize)) -> io::Result<usize> {
        out.write_all(b"user\titem\ttimestamp\n")?;
        self.write_rows(out, progress, |user, visits, text| {
            self.checkins(user, visits);
            for CheckIn { place, time } in &*visits {
                line(text, format_args!("{user}\t{place}\t{time}"));
            }
            visits.len()
        })
    }

    /// Writes `user page timestamp seconds`, tab-separated with a header, and returns the number of rows.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_reading(&self, mut out: impl Write) -> io::Result<usize> {
        out.write_all(b"user\tpage\ttimestamp\tseconds\n")?;
        self.write_rows(
            out,
            |_| (),
            |user, views, text| {
                self.reading(user, views);
                for PageView { page, time, dwell } in &*views {
                    line(text, format_args!("{user}\t{page}\t{time}\t{dwell:.1}"));
                }
                views.len()
            },
        )
    }

    /// Streams the rows of all residents; `rows` appends those of one to the text, with a buffer to use again, and
    /// returns their number.
    fn write_rows<T>(
        &self,
        mut out: impl Write,
        mut progress: impl FnMut(usize),
        rows: impl Fn(usize, &mut Vec<T>, &mut String) -> usize + Sync,
    ) -> io::Result<usize> {
        let (mut written, mut users) = (0, 0);
        let work = |residents: Range<usize>| {
            let (mut text, mut buffer) = (String::new(), Vec::new());
            let (count, first) = (residents.len(), residents.start);
            let written: usize = (first..first + count).map(|user| rows(user, &mut buffer, &mut text)).sum();
            (count, written, text)
        };
        self.stream(work, |(residents, rows, text)| {
            written += rows;
            users += residents;
            progress(users);
            out.write_all(text.as_bytes())
        })?;
        Ok(written)
    }

    fn write_residents(&self, out: &mut Out) -> io::Result<usize> {
        out.write_all(b"user\tlat\tlon\tdistrict\twork\tgroup\tnext_group\tdrifted\tinterests\ttaste\n")?;
        self.stream(|residents| self.resident_rows(residents), |text| out.write_all(text.as_bytes()))?;
        Ok(self.users())
    }

    /// Interests and taste are comma-separated; taste is the share of each place category on the first day.
    fn resident_rows(&self, residents: Range<usize>) -> String {
        let mut text = String::new();
        for user in residents {
            let resident = self.resident(user);
            let (lat, lon) = resident.home.lat_lon();
            let [home, work] =
                [resident.district, resident.work].map(|district| &self.districts()[district as usize].name);
            let interests: Vec<_> = self.interests(user).iter().map(|&topic| topic_name(topic as usize)).collect();
            let taste: Vec<_> = self.taste(&resident, 0.0).iter().map(|share| format!("{share:.4}")).collect();
            line(
                &mut text,
                format_args!(
                    "{user}\t{lat:.5}\t{lon:.5}\t{home}\t{work}\t{}\t{}\t{:.3}\t{}\t{}",
                    resident.group,
                    resident.next_group,
                    resident.drifted,
                    interests.join(","),
                    taste.join(",")
                ),
            );
        }
        text
    }

    fn write_places_table(&self, out: &mut Out) -> io::Result<usize> {
        writeln!(out, "item\ttitle\tcategories\tlat\tlon\tdistrict\topened")?;
        for (index, place) in self.places().iter().enumerate() {
            let (lat, lon) = place.position.lat_lon();
            let categories = format!("{}|{}", top_name(place.top()), leaf_name(place.category as usize));
            let district = &self.districts()[place.district as usize].name;
            let (title, opened) = (&place.title, place.opened);
            writeln!(out, "{index}\t{title}\t{categories}\t{lat:.5}\t{lon:.5}\t{district}\t{opened}")?;
        }
        Ok(self.places().len())
    }

    fn write_pages_table(&self, out: &mut Out) -> io::Result<usize> {
        writeln!(out, "page\ttitle\tcategories\tplace")?;
        for (index, page) in self.pages().iter().enumerate() {
            let categories = format!("{}|{}", section_name(page.section()), topic_name(page.topic as usize));
            let about = page.about.map_or(String::new(), |place| place.to_string());
            writeln!(out, "{index}\t{}\t{categories}\t{about}", page.title)?;
        }
        Ok(self.pages().len())
    }
}

/// Writing to a string cannot fail.
fn line(text: &mut String, row: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(row);
    text.push('\n');
}

/// A name in the same folder, so that the last step is a rename within one file system.
fn beside(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".unfinished-{}", std::process::id()));
    folder.with_file_name(name)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> TownError {
    let path = path.to_owned();
    move |source| TownError::Write(path.clone(), source)
}
