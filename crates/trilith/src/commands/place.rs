//! How a person writes an object: `BUCKET/KEY`.

use anyhow::bail;

/// A bucket and what is meant in it: a key, a prefix, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPlace {
    pub bucket: String,
    pub key: String,
}

impl ObjectPlace {
    /// One object.
    pub fn object(text: &str) -> anyhow::Result<ObjectPlace> {
        let place = ObjectPlace::any(text)?;
        if place.key.is_empty() {
            bail!("`{text}` names no object: write BUCKET/KEY");
        }
        Ok(place)
    }

    /// A bucket or a part of it.
    pub fn any(text: &str) -> anyhow::Result<ObjectPlace> {
        let path = text.strip_prefix("s3://").unwrap_or(text);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            bail!("`{text}` names no bucket: write BUCKET/KEY");
        }
        Ok(ObjectPlace { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// The last part of the key.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

impl std::fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectPlace;

    #[test]
    fn places_are_a_bucket_and_the_rest() {
        let place = ObjectPlace::object("s3://photos/2024/cat.jpg").unwrap();
        assert_eq!((place.bucket.as_str(), place.key.as_str(), place.name()), ("photos", "2024/cat.jpg", "cat.jpg"));
        assert_eq!(ObjectPlace::any("photos").unwrap().key, "");
        assert_eq!(ObjectPlace::object("photos//odd").unwrap().key, "/odd");
        assert!(ObjectPlace::object("photos").unwrap_err().to_string().contains("BUCKET/KEY"));
        assert!(ObjectPlace::any("/x").is_err());
    }
}
