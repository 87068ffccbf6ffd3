//! The knowledge graph of the places, in N-Triples.

use super::Town;
use super::places::{CUISINES, STYLES};
use super::taxonomy::{LEAVES, LEAVES_A_TOP, TOPS, leaf_name, top_name};
use std::io::{self, Write};

/// Where the town's names live; `.example` belongs to nobody.
const BASE: &str = "http://town.example/";
const LABEL: &str = "http://www.w3.org/2000/01/rdf-schema#label";
const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// Districts whose middles are nearer than this are neighbours, in kilometres.
const NEIGHBOURS: f32 = 3.6;

/// Writes statements, one a line.
struct Statements<W> {
    out: W,
    written: usize,
}

impl<W: Write> Statements<W> {
    /// A type, a name and links: predicates, and the kinds and numbers of what they lead to.
    fn describe(
        &mut self,
        (thing, class): (Thing, &str),
        name: &str,
        links: &[(&str, &'static str, u32)],
    ) -> io::Result<()> {
        self.introduce(&thing, class, name)?;
        links
            .iter()
            .try_for_each(|&(predicate, kind, index)| self.link(&thing, predicate, &Thing(kind, index as usize)))
    }

    fn link(&mut self, subject: &Thing, predicate: &str, object: &Thing) -> io::Result<()> {
        self.written += 1;
        writeln!(self.out, "<{BASE}{subject}> <{BASE}{predicate}> <{BASE}{object}> .")
    }

    /// A type and a name in English.
    fn introduce(&mut self, thing: &Thing, class: &str, name: &str) -> io::Result<()> {
        self.written += 2;
        writeln!(self.out, "<{BASE}{thing}> <{TYPE}> <{BASE}{class}> .")?;
        writeln!(self.out, "<{BASE}{thing}> <{LABEL}> \"{}\"@en .", escaped(name))
    }
}

/// A node of the graph: a kind and a number.
struct Thing(&'static str, usize);

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

/// A literal as N-Triples wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r")
}

impl Town {
    /// Writes the knowledge graph as N-Triples and returns the number of statements.
    ///
    /// Place `i` is `<http://town.example/place/i>`. One hop: category, cuisine, style, price, chain, owner, architect,
    /// district. Two hops: what those belong to (main category, part of the world, period, head office, birthplace,
    /// neighbouring districts).
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_ntriples(&self, out: impl Write) -> io::Result<usize> {
        let mut to = Statements { out, written: 0 };
        self.write_categories(&mut to)?;
        self.write_traits(&mut to)?;
        self.write_districts(&mut to)?;
        self.write_people(&mut to)?;
        self.write_places(&mut to)?;
        to.out.flush()?;
        Ok(to.written)
    }

    fn write_categories<W: Write>(&self, to: &mut Statements<W>) -> io::Result<()> {
        for top in 0..TOPS {
            to.introduce(&Thing("main-category", top), "MainCategory", top_name(top))?;
        }
        for leaf in 0..LEAVES {
            let links = [("broader", "main-category", (leaf / LEAVES_A_TOP) as u32)];
            to.describe((Thing("category", leaf), "Category"), leaf_name(leaf), &links)?;
        }
        Ok(())
    }

    fn write_traits<W: Write>(&self, to: &mut Statements<W>) -> io::Result<()> {
        belongings(to, &CUISINES, ("cuisine", "Cuisine"), "fromRegion", ("region", "Region"))?;
        belongings(to, &STYLES, ("style", "Style"), "ofPeriod", ("period", "Period"))?;
        for (index, name) in ["cheap", "moderate", "dear", "luxurious"].into_iter().enumerate() {
            to.introduce(&Thing("price", index + 1), "PriceLevel", name)?;
        }
        Ok(())
    }

    fn write_districts<W: Write>(&self, to: &mut Statements<W>) -> io::Result<()> {
        for (index, district) in self.districts().iter().enumerate() {
            let this = Thing("district", index);
            to.introduce(&this, "District", &district.name)?;
            for (other, neighbour) in self.districts().iter().enumerate() {
                if other != index && district.centre.distance(neighbour.centre) < NEIGHBOURS {
                    to.link(&this, "neighbour", &Thing("district", other))?;
                }
            }
        }
        Ok(())
    }

    fn write_people<W: Write>(&self, to: &mut Statements<W>) -> io::Result<()> {
        for (index, chain) in self.grounds.chains.iter().enumerate() {
            let links = [("headOffice", "district", chain.home)];
            to.describe((Thing("chain", index), "Chain"), &chain.name, &links)?;
        }
        for (index, owner) in self.grounds.owners.iter().enumerate() {
            let links = [("bornIn", "district", owner.born)];
            to.describe((Thing("owner", index), "Owner"), &owner.name, &links)?;
        }
        for (index, architect) in self.grounds.architects.iter().enumerate() {
            let links = [("bornIn", "district", architect.born), ("buildsIn", "style", architect.style)];
            to.describe((Thing("architect", index), "Architect"), &architect.name, &links)?;
        }
        Ok(())
    }

    fn write_places<W: Write>(&self, to: &mut Statements<W>) -> io::Result<()> {
        for (index, place) in self.places().iter().enumerate() {
            let mut links = vec![
                ("category", "category", place.category),
                ("inDistrict", "district", place.district),
                ("style", "style", place.style),
                ("price", "price", place.price),
                ("owner", "owner", place.owner),
                ("architect", "architect", place.architect),
            ];
            links.extend(place.cuisine.map(|cuisine| ("cuisine", "cuisine", cuisine)));
            links.extend(place.chain.map(|chain| ("chain", "chain", chain)));
            to.describe((Thing("place", index), "Place"), &place.title, &links)?;
        }
        Ok(())
    }
}

/// Things and the larger whole each belongs to, both with their names.
fn belongings<W: Write>(
    to: &mut Statements<W>,
    pairs: &[(&'static str, &'static str)],
    part: (&'static str, &str),
    predicate: &str,
    whole: (&'static str, &str),
) -> io::Result<()> {
    let mut wholes: Vec<&str> = Vec::new();
    for (index, (name, of)) in pairs.iter().enumerate() {
        let known = wholes.iter().position(|seen| seen == of);
        let number = known.unwrap_or(wholes.len());
        if known.is_none() {
            wholes.push(of);
            to.introduce(&Thing(whole.0, number), whole.1, of)?;
        }
        to.introduce(&Thing(part.0, index), part.1, name)?;
        to.link(&Thing(part.0, index), predicate, &Thing(whole.0, number))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_escaped() {
        assert_eq!(escaped("a \"b\" \\ c\nd"), "a \\\"b\\\" \\\\ c\\nd");
        assert_eq!(escaped("Café"), "Café");
    }
}
