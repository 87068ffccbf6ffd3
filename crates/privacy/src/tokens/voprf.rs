//! The verifiable oblivious pseudorandom function of RFC 9497, mode 1, suite ristretto255-SHA512, for one element at a
//! time.

use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use sha2::{Digest, Sha512};

/// "OPRFV1-", the mode, "-", the suite (section 3.1).
const CONTEXT: &[u8] = b"OPRFV1-\x01-ristretto255-SHA512";
/// The block of SHA-512.
const BLOCK: [u8; 128] = [0; 128];

/// Length of an element, and of a scalar.
pub(super) const ELEMENT: usize = 32;
/// Length of the output.
pub(super) const OUTPUT: usize = 64;

/// Proof (DLEQ) that one secret maps the base point to the public key and the blinded element to its evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Proof {
    pub(super) challenge: Scalar,
    pub(super) response: Scalar,
}

impl Proof {
    pub(super) fn to_bytes(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.challenge.to_bytes());
        bytes[32..].copy_from_slice(&self.response.to_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; 64]) -> Option<Self> {
        let scalar = |half: &[u8]| Option::from(Scalar::from_canonical_bytes(half.try_into().ok()?));
        Some(Self { challenge: scalar(&bytes[..32])?, response: scalar(&bytes[32..])? })
    }
}

/// expand_message_xmd of RFC 9380 for 64 bytes, with the tag `label` and [`CONTEXT`].
fn expand(message: &[&[u8]], label: &[u8]) -> [u8; 64] {
    let tag = [label, CONTEXT, &[(label.len() + CONTEXT.len()) as u8]].concat();
    let start = message.iter().fold(Sha512::new_with_prefix(BLOCK), Digest::chain_update);
    let first = start.chain_update([0, 64, 0]).chain_update(&tag).finalize();
    Sha512::new().chain_update(first).chain_update([1]).chain_update(&tag).finalize().into()
}

fn to_scalar(message: &[&[u8]], label: &[u8]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&expand(message, label))
}

/// HashToScalar.
pub(super) fn hash_to_scalar(input: &[u8]) -> Scalar {
    to_scalar(&[input], b"HashToScalar-")
}

/// HashToGroup.
pub(super) fn to_element(input: &[u8]) -> RistrettoPoint {
    RistrettoPoint::from_uniform_bytes(&expand(&[input], b"HashToGroup-"))
}

/// DeriveKeyPair: the secret key of a seed and a purpose.
pub(super) fn secret_key(seed: &[u8; 32], info: &[u8]) -> Scalar {
    let length = (info.len() as u16).to_be_bytes();
    let mut counter = 0u8;
    loop {
        let key = to_scalar(&[seed, &length, info, &[counter]], b"DeriveKeyPair");
        if key != Scalar::ZERO {
            return key;
        }
        // Once in 2^252.
        counter = counter.wrapping_add(1);
    }
}

/// Decodes an element; rejects the identity.
pub(super) fn element(bytes: &[u8; ELEMENT]) -> Option<RistrettoPoint> {
    CompressedRistretto(*bytes).decompress().filter(|point| !point.is_identity())
}

/// Uniform and not zero, from 64 random bytes at a time.
pub(super) fn random_scalar(mut fill: impl FnMut(&mut [u8])) -> Scalar {
    loop {
        let mut bytes = [0; 64];
        fill(&mut bytes);
        let scalar = Scalar::from_bytes_mod_order_wide(&bytes);
        if scalar != Scalar::ZERO {
            return scalar;
        }
    }
}

/// Finalize: the output from the input and its unblinded evaluation.
pub(super) fn finalize(input: &[u8], unblinded: &RistrettoPoint) -> [u8; OUTPUT] {
    let element = unblinded.compress().to_bytes();
    let parts = [&(input.len() as u16).to_be_bytes()[..], input, &[0, 32], &element, b"Finalize"];
    parts.into_iter().fold(Sha512::new(), Digest::chain_update).finalize().into()
}

/// The composite of a batch of one (section 2.2.1): the blinded element times a factor that depends on all.
fn composite(key: &RistrettoPoint, blinded: &RistrettoPoint, evaluated: &RistrettoPoint) -> Scalar {
    let label = [b"Seed-", CONTEXT].concat();
    let length = (label.len() as u16).to_be_bytes();
    let key = key.compress().to_bytes();
    let seed: [u8; 64] =
        [&[0, 32][..], &key, &length, &label].into_iter().fold(Sha512::new(), Digest::chain_update).finalize().into();
    let (c, d) = (blinded.compress().to_bytes(), evaluated.compress().to_bytes());
    let transcript = [&[0, 64][..], &seed, &[0, 0], &[0, 32], &c, &[0, 32], &d, b"Composite"];
    to_scalar(&transcript, b"HashToScalar-")
}

fn challenge(elements: [&RistrettoPoint; 5]) -> Scalar {
    let bytes = elements.map(|element| element.compress().to_bytes());
    let mut transcript: Vec<&[u8]> = Vec::with_capacity(11);
    for element in &bytes {
        transcript.extend([&[0, 32][..], element]);
    }
    transcript.push(b"Challenge");
    to_scalar(&transcript, b"HashToScalar-")
}

/// GenerateProof, with the random scalar given.
pub(super) fn prove(secret: &Scalar, blinded: &RistrettoPoint, evaluated: &RistrettoPoint, random: &Scalar) -> Proof {
    let key = RistrettoPoint::mul_base(secret);
    let m = composite(&key, blinded, evaluated) * blinded;
    let z = secret * m;
    let challenge = challenge([&key, &m, &z, &RistrettoPoint::mul_base(random), &(random * m)]);
    Proof { challenge, response: random - challenge * secret }
}

/// VerifyProof.
pub(super) fn verify(
    proof: &Proof,
    key: &RistrettoPoint,
    blinded: &RistrettoPoint,
    evaluated: &RistrettoPoint,
) -> bool {
    let factor = composite(key, blinded, evaluated);
    let (m, z) = (factor * blinded, factor * evaluated);
    let Proof { challenge: c, response: s } = proof;
    let t2 = s * RISTRETTO_BASEPOINT_POINT + c * key;
    let t3 = s * m + c * z;
    challenge([key, &m, &z, &t2, &t3]) == *c
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn scalar(hex: &str) -> Scalar {
        Scalar::from_canonical_bytes(bytes(hex).try_into().unwrap()).unwrap()
    }

    struct Vector {
        input: &'static str,
        blinded: &'static str,
        evaluated: &'static str,
        proof: &'static str,
        output: &'static str,
    }

    /// RFC 9497, appendix A.1.2, test vectors 1 and 2.
    const VECTORS: [Vector; 2] = [
        Vector {
            input: "00",
            blinded: "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
            evaluated: "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
            proof: "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06\
                    6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d",
            output: "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d\
                     a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
        },
        Vector {
            input: "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
            blinded: "cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c",
            evaluated: "60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468",
            proof: "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a\
                    67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02",
            output: "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60\
                     356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
        },
    ];

    #[test]
    fn matches_the_vectors_of_rfc_9497() {
        let secret = secret_key(&[0xa3; 32], b"test key");
        assert_eq!(secret, scalar("e6f73f344b79b379f1a0dd37e07ff62e38d9f71345ce62ae3a9bc60b04ccd909"));
        let key = RistrettoPoint::mul_base(&secret);
        let expected = bytes("c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e");
        assert_eq!(key.compress().to_bytes()[..], expected);
        let blind = scalar("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706");
        let random = scalar("222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e");
        for vector in &VECTORS {
            let input = bytes(vector.input);
            let blinded = blind * to_element(&input);
            assert_eq!(blinded.compress().to_bytes()[..], bytes(vector.blinded));
            let evaluated = secret * blinded;
            assert_eq!(evaluated.compress().to_bytes()[..], bytes(vector.evaluated));
            let proof = prove(&secret, &blinded, &evaluated, &random);
            let written = [proof.challenge.to_bytes(), proof.response.to_bytes()].concat();
            assert_eq!(written, bytes(vector.proof));
            assert!(verify(&proof, &key, &blinded, &evaluated));
            let unblinded = blind.invert() * evaluated;
            assert_eq!(finalize(&input, &unblinded)[..], bytes(vector.output));
        }
    }
}
