//! Folders and S3-compatible stores.

use anyhow::{Context, Result, bail};
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use std::sync::Arc;
use url::Url;

/// Finds stores by address: folders, and S3 with the settings of the environment (`AWS_ENDPOINT`, `AWS_REGION`,
/// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ALLOW_HTTP`).
#[derive(Debug, Default)]
pub struct Stores(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        if let Ok(known) = self.0.get_store(url) {
            return Ok(known);
        }
        let store = s3(url).map_err(|error| DataFusionError::External(error.into()))?;
        self.0.register_store(url, store.clone());
        Ok(store)
    }
}

fn s3(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    if url.scheme() != "s3" {
        bail!("{url}: expected a folder or an address that begins with s3://");
    }
    let bucket = url.host_str().with_context(|| format!("{url}: expected s3://BUCKET/FOLDER"))?;
    let store = bucket_store(bucket);
    store.with_context(|| format!("{url}: the store's settings in the environment"))
}

#[cfg(feature = "s3")]
fn bucket_store(bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    Ok(Arc::new(object_store::aws::AmazonS3Builder::from_env().with_bucket_name(bucket).build()?))
}

#[cfg(not(feature = "s3"))]
fn bucket_store(_: &str) -> Result<Arc<dyn ObjectStore>> {
    bail!("this program was built without the feature `s3`")
}

/// Called with the path of each file before it is written; an error stops the job there. For tests of what is left by
/// a job that was stopped.
pub type BeforeWrite = Arc<dyn Fn(&str) -> Result<()> + Send + Sync>;

/// A folder, here or in a store.
#[derive(Clone)]
pub struct Folder {
    url: Url,
    prefix: Path,
    store: Arc<dyn ObjectStore>,
    before_write: Option<BeforeWrite>,
}

impl Folder {
    /// The folder of a path or an address `s3://BUCKET/FOLDER`.
    ///
    /// # Errors
    /// If there can be no such folder, or the store's settings are wrong.
    pub fn open(place: &str) -> Result<Self> {
        let mut url = match place.contains("://") {
            true => Url::parse(place).with_context(|| format!("{place}: not an address"))?,
            false => {
                let path = std::path::absolute(place).with_context(|| format!("{place}: not a path"))?;
                Url::from_directory_path(&path).map_err(|()| anyhow::anyhow!("{place}: not a path"))?
            }
        };
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let prefix = Path::from_url_path(url.path()).with_context(|| format!("{place}: not a path"))?;
        let store = match url.scheme() {
            "file" => Arc::new(object_store::local::LocalFileSystem::new().with_automatic_cleanup(true)),
            _ => s3(&url)?,
        };
        Ok(Self { url, prefix, store, before_write: None })
    }

    /// The same folder, with something to be called before each write.
    #[must_use]
    pub fn before_each_write(self, hook: BeforeWrite) -> Self {
        Self { before_write: Some(hook), ..self }
    }

    /// The address of a file in it, for queries and messages.
    pub fn address(&self, file: &str) -> String {
        format!("{}{file}", self.url)
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    pub(crate) fn path(&self, file: &str) -> Path {
        file.split('/').fold(self.prefix.clone(), Path::join)
    }

    pub(crate) fn check_write(&self, file: &str) -> Result<()> {
        self.before_write.as_ref().map_or(Ok(()), |hook| hook(file))
    }

    /// Names and sizes of the files below a folder in it, in order.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn list(&self, below: &str) -> Result<Vec<(String, u64)>> {
        let (path, skip) = (self.path(below), self.path(below).as_ref().len() + 1);
        let found: Vec<_> = match self.store.list(Some(&path)).try_collect().await {
            Err(object_store::Error::NotFound { .. }) => Vec::new(),
            found => found.with_context(|| format!("listing {}", self.address(below)))?,
        };
        let mut files: Vec<(String, u64)> = found
            .into_iter()
            .map(|file: object_store::ObjectMeta| (file.location.as_ref()[skip..].to_owned(), file.size))
            .collect();
        files.sort_unstable();
        Ok(files)
    }

    /// A small file's bytes; `None` if it is not there.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let read = async { self.store.get(&self.path(file)).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", self.address(file))),
        }
    }

    /// A file's size; `None` if it is not there.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn size(&self, file: &str) -> Result<Option<u64>> {
        match self.store.head(&self.path(file)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("looking for {}", self.address(file))),
        }
    }

    /// Writes a small file, whole or not at all.
    ///
    /// # Errors
    /// If the store does not take it.
    pub async fn write(&self, file: &str, bytes: Vec<u8>) -> Result<()> {
        self.check_write(file)?;
        let put = self.store.put(&self.path(file), PutPayload::from(bytes)).await;
        put.map(|_| ()).with_context(|| format!("writing {}", self.address(file)))
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn remove(&self, file: &str) -> Result<()> {
        match self.store.delete(&self.path(file)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("removing {}", self.address(file))),
        }
    }
}
