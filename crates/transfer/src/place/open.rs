//! Opens object stores with explicit credentials. It never searches for others.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, HeaderValue, ObjectStore, RetryConfig};

use super::fault::credentials;
use super::proxy;
use super::url::{RemoteUrl, Scheme};
use crate::error::TransferError;
use crate::retry::Access;

/// Stands for an unknown size.
pub(super) const UNKNOWN: u64 = u64::MAX;

type Store = Arc<dyn ObjectStore>;

/// Opens the store of a URL, without sending a request.
pub(super) fn open(url: &RemoteUrl, access: &Access) -> Result<Store, TransferError> {
    let built = match url.scheme {
        Scheme::S3 => s3(url, access),
        Scheme::Google => google(url, access),
        Scheme::Azure => azure(url, access),
        Scheme::Http => http(url, access),
        Scheme::Hdfs => return hdfs(url, access),
    };
    built?.map_err(|error| refused(url, &error.to_string()))
}

type Built = Result<object_store::Result<Store>, TransferError>;

fn refused(url: &RemoteUrl, why: &str) -> TransferError {
    TransferError::BadInput(format!("{}: {why}", super::url::shown(&url.whole)))
}

fn no_credentials(url: &RemoteUrl) -> TransferError {
    refused(url, &format!("no credentials found; {}", credentials(url.scheme)))
}

fn retry(access: &Access) -> RetryConfig {
    let policy = &access.retry;
    RetryConfig {
        backoff: BackoffConfig { init_backoff: policy.first, max_backoff: policy.cap, base: 2.0 },
        max_retries: policy.tries.saturating_sub(1) as usize,
        retry_timeout: policy.total,
    }
}

/// Client options for a server, if its address is known. Only silence times out; a long response may take any time.
fn client(options: ClientOptions, server: Option<&str>, access: &Access) -> ClientOptions {
    let timeout = access.timeout.max(Duration::from_millis(1));
    let options = if server.is_some_and(proxy::is_loopback) { proxy::without(options) } else { options };
    options.with_timeout_disabled().with_connect_timeout(timeout).with_read_timeout(timeout)
}

fn s3(url: &RemoteUrl, access: &Access) -> Built {
    use AmazonS3ConfigKey as Key;

    let mut builder = AmazonS3Builder::from_env().with_bucket_name(&url.authority).with_retry(retry(access));
    for (name, key) in
        [("region", Key::Region), ("endpoint", Key::Endpoint), ("virtual_hosted", Key::VirtualHostedStyleRequest)]
    {
        if let Some(value) = url.option(name) {
            builder = builder.with_config(key, value);
        }
    }
    // Options of the URL override the environment.
    if let Some(endpoint) = url.option("endpoint") {
        builder = builder.with_config(Key::S3Endpoint, endpoint);
    }
    let set = |key: Key| builder.get_config_value(&key).is_some_and(|value| !value.is_empty());
    let anonymous = url.flag("anonymous")? || builder.get_config_value(&Key::SkipSignature).as_deref() == Some("true");
    let pairs = [
        (Key::AccessKeyId, Key::SecretAccessKey),
        (Key::WebIdentityTokenFile, Key::RoleArn),
        (Key::ContainerCredentialsFullUri, Key::ContainerAuthorizationTokenFile),
    ];
    let known =
        pairs.into_iter().any(|(one, other)| set(one) && set(other)) || set(Key::ContainerCredentialsRelativeUri);
    // Without credentials the builder would query the machine's metadata service, which is not wanted.
    if !anonymous && !known {
        return Err(no_credentials(url));
    }
    let endpoint = builder.get_config_value(&Key::S3Endpoint).or_else(|| builder.get_config_value(&Key::Endpoint));
    let open_http = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let allowed = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    if open_http && url.option("endpoint").is_none() && !allowed {
        return Err(refused(
            url,
            "the endpoint in the environment does not use TLS; to allow that, set AWS_ALLOW_HTTP=true or give the endpoint \
             as an option of the URL",
        ));
    }
    let options = client(client_of_environment().with_allow_http(open_http), endpoint.as_deref(), access);
    Ok(builder
        .with_skip_signature(anonymous)
        .with_client_options(options)
        .build()
        .map(|store| Arc::new(store) as Store))
}

/// Connection settings from the environment, as the S3 builder reads them.
fn client_of_environment() -> ClientOptions {
    std::env::vars().fold(ClientOptions::new(), |options, (name, value)| {
        match name.strip_prefix("AWS_").map(|name| name.to_ascii_lowercase().parse()) {
            Some(Ok(key)) => options.with_config(key, value),
            _ => options,
        }
    })
}

fn google(url: &RemoteUrl, access: &Access) -> Built {
    use GoogleConfigKey as Key;

    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&url.authority).with_retry(retry(access));
    let open_http = url.option("endpoint").is_some_and(|endpoint| endpoint.starts_with("http://"));
    if let Some(endpoint) = url.option("endpoint") {
        builder = builder.with_config(Key::BaseUrl, endpoint);
    }
    let anonymous = url.flag("anonymous")?;
    let known = [Key::ServiceAccount, Key::ServiceAccountKey, Key::ApplicationCredentials, Key::BearerToken]
        .iter()
        .any(|key| builder.get_config_value(key).is_some_and(|value| !value.is_empty()));
    if !anonymous && !known {
        return Err(no_credentials(url));
    }
    let options = client(ClientOptions::new().with_allow_http(open_http), url.option("endpoint"), access);
    let builder = builder.with_skip_signature(anonymous).with_client_options(options);
    Ok(builder.build().map(|store| Arc::new(store) as Store))
}

fn azure(url: &RemoteUrl, access: &Access) -> Built {
    use AzureConfigKey as Key;

    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_url(format!("{}://{}", url.scheme_name, url.authority))
        .with_retry(retry(access));
    for (name, key) in [("account", Key::AccountName), ("endpoint", Key::Endpoint)] {
        if let Some(value) = url.option(name) {
            builder = builder.with_config(key, value);
        }
    }
    let anonymous = url.flag("anonymous")?;
    let set = |key: &Key| builder.get_config_value(key).is_some_and(|value| !value.is_empty());
    let client_secret = [Key::ClientId, Key::ClientSecret, Key::AuthorityId].iter().all(set);
    let one = [Key::AccessKey, Key::SasKey, Key::Token, Key::FederatedTokenFile].iter().any(set);
    let cli = builder.get_config_value(&Key::UseAzureCli).as_deref() == Some("true");
    if !anonymous && !client_secret && !one && !cli {
        return Err(no_credentials(url));
    }
    let open_http = url.option("endpoint").is_some_and(|endpoint| endpoint.starts_with("http://"));
    let options = client(ClientOptions::new().with_allow_http(open_http), url.option("endpoint"), access);
    let builder = builder.with_skip_signature(anonymous).with_client_options(options);
    Ok(builder.build().map(|store| Arc::new(store) as Store))
}

fn http(url: &RemoteUrl, access: &Access) -> Built {
    let options = client(ClientOptions::new().with_allow_http(url.scheme_name == "http"), Some(&url.whole), access);
    let builder = HttpBuilder::new().with_url(&url.whole).with_client_options(options).with_retry(retry(access));
    Ok(builder.with_http_connector(AnyLength).build().map(|store| Arc::new(store) as Store))
}

/// How to reach an HDFS cluster.
#[derive(Debug)]
pub struct HdfsCluster {
    /// The URL without a path: `hdfs://namenode:8020`.
    pub url: String,
    /// Client settings, named as in `hdfs-site.xml`.
    pub settings: Vec<(&'static str, String)>,
    /// The runtime for the client's work.
    pub runtime: tokio::runtime::Handle,
}

/// Opens an HDFS cluster. The error is a message for the user.
pub type OpenHdfs = fn(HdfsCluster) -> Result<Arc<dyn ObjectStore>, String>;

static HDFS: OnceLock<OpenHdfs> = OnceLock::new();

/// Registers the client that opens `hdfs://` URLs in this process. It lives in `crates/hdfs` because it depends on
/// forty other crates.
pub fn register_hdfs(open: OpenHdfs) {
    // The first registration wins.
    let _ = HDFS.set(open);
}

fn hdfs(url: &RemoteUrl, access: &Access) -> Result<Store, TransferError> {
    let open = HDFS.get().ok_or_else(|| refused(url, "this binary was built without HDFS; install the version with it: `cargo install --locked --path crates/hdfs`"))?;
    let policy = &access.retry;
    let settings = vec![
        ("dfs.client.failover.max.attempts", policy.tries.to_string()),
        ("dfs.client.failover.sleep.base.millis", policy.first.as_millis().to_string()),
        ("dfs.client.failover.sleep.max.millis", policy.cap.as_millis().to_string()),
        ("dfs.client.socket-timeout", access.timeout.as_millis().to_string()),
    ];
    let runtime = super::runtime::handle()?;
    open(HdfsCluster { url: format!("hdfs://{}", url.authority), settings, runtime }).map_err(|why| refused(url, &why))
}

/// An HTTP client that accepts responses without a length, such as those generated while they are sent. The store above
/// would reject them, so they get [`UNKNOWN`] as their length.
#[derive(Debug)]
struct AnyLength;

#[derive(Debug)]
struct AnyLengthClient(HttpClient);

impl HttpConnector for AnyLength {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        ReqwestConnector::default().connect(options).map(|client| HttpClient::new(AnyLengthClient(client)))
    }
}

impl HttpService for AnyLengthClient {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let mut answer = self.0.execute(request).await?;
            if !answer.headers().contains_key("content-length") {
                answer.headers_mut().insert("content-length", HeaderValue::from(UNKNOWN));
            }
            Ok(answer)
        })
    }
}
