//! Requests on the wire, as foreign clients write them, and what is answered: what is promised, repeated, signed, refused and explained.

use sha2::{Digest, Sha256};

use crate::client::{Answer, Client, request};
use crate::server::{ACCESS_KEY, BUCKET, DOMAIN, PUBLIC, SECRET, Server};
use crate::signing::{REGION, Request, basic_time, hex, mac, now};

/// A request, and what is expected of its answer.
struct Row {
    case: &'static str,
    head: String,
    body: Vec<u8>,
    status: u16,
    /// Empty where the answer is no error.
    code: &'static str,
    /// Elements of the error's document.
    elements: Vec<(&'static str, String)>,
}

impl Row {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Row {
        self.elements.push((name, value.into()));
        self
    }
}

fn row(case: &'static str, asked: &Request, status: u16, code: &'static str) -> Row {
    Row { case, head: asked.signed().0, body: asked.body.clone(), status, code, elements: Vec::new() }
}

fn head(case: &'static str, head: String, status: u16, code: &'static str) -> Row {
    Row { case, head, body: Vec::new(), status, code, elements: Vec::new() }
}

fn check(server: &Server, rows: Vec<Row>) {
    for Row { case, head, body, status, code, elements } in rows {
        let answer = request(server.address(), &head, &body);
        let found = answer.element("Code").unwrap_or_default();
        assert_eq!((answer.status, found.as_str()), (status, code), "{case}: {}", answer.text());
        for (name, value) in elements {
            assert_eq!(answer.element(name), Some(value), "{case}: {name}: {}", answer.text());
        }
    }
}

fn signed(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

fn put(name: &str, value: &str) -> Request {
    Request::new("PUT", &format!("/{BUCKET}/promised")).header(name, value).body("x")
}

fn make(name: &str, value: &str) -> Request {
    Request::new("PUT", "/promised-bucket").header(name, value)
}

#[test]
fn promises_are_kept_or_refused() {
    let server = Server::start();
    let mut rows = Vec::new();
    for (name, value, status, code) in [
        ("x-amz-acl", "public-read", 400, "AccessControlListNotSupported"),
        ("x-amz-acl", "log-delivery-write", 400, "AccessControlListNotSupported"),
        ("x-amz-acl", "everybody", 400, "InvalidArgument"),
        ("x-amz-acl", "", 400, "InvalidArgument"),
        ("x-amz-grant-read", "id=\"abc\"", 400, "AccessControlListNotSupported"),
        ("x-amz-grant-full-control", "uri=\"http://a/b\", id=\"c\"", 400, "AccessControlListNotSupported"),
        ("x-amz-grant-write-acp", "nonsense", 400, "InvalidArgument"),
        ("x-amz-grant-everything", "id=\"abc\"", 501, "NotImplemented"),
        ("x-amz-object-ownership", "ObjectWriter", 501, "NotImplemented"),
        ("x-amz-object-ownership", "Nobody", 400, "InvalidArgument"),
        ("x-amz-bucket-object-lock-enabled", "true", 501, "NotImplemented"),
        ("x-amz-bucket-object-lock-enabled", "maybe", 400, "InvalidArgument"),
        ("x-amz-server-side-encryption", "AES256", 501, "NotImplemented"),
        ("x-amz-server-side-encryption-customer-key-md5", "AAAA", 501, "NotImplemented"),
        ("x-amz-server-side-encryption-context", "e30=", 501, "NotImplemented"),
        ("x-amz-object-lock-mode", "GOVERNANCE", 501, "NotImplemented"),
        ("x-amz-object-lock-legal-hold", "ON", 501, "NotImplemented"),
        ("x-amz-mfa", "1 2", 501, "NotImplemented"),
        ("x-amz-request-payer", "somebody", 400, "InvalidArgument"),
        ("x-amz-security-token", "abc", 400, "InvalidToken"),
        ("x-amz-of-next-year", "yes", 501, "NotImplemented"),
    ] {
        rows.push(row("a header of PutObject", &put(name, value), status, code));
        // A bucket that is made says more of itself (S3).
        let code = if code == "AccessControlListNotSupported" { "InvalidBucketAclWithObjectOwnership" } else { code };
        rows.push(row("a header of CreateBucket", &make(name, value), status, code));
    }
    let not_there = [row("the header is named", &put("x-amz-mfa", "1 2"), 501, "NotImplemented").with("Header", "x-amz-mfa")];
    let no_acl = row("the argument is named", &put("x-amz-acl", "everybody"), 400, "InvalidArgument");
    rows.push(no_acl.with("ArgumentName", "x-amz-acl").with("ArgumentValue", "everybody"));
    rows.extend(not_there);
    let part = put("content-range", "bytes 0-0/5");
    rows.push(row("a part that would be the whole", &part, 501, "NotImplemented"));
    let redirect = put("x-amz-website-redirect-location", "elsewhere");
    rows.push(row("a redirect to nowhere", &redirect, 400, "InvalidRedirectLocation"));
    let class = row("a class", &put("x-amz-storage-class", "COLD"), 400, "InvalidStorageClass");
    rows.push(class.with("StorageClassRequested", "COLD"));
    let read =
        Request::new("GET", &format!("/{BUCKET}/promised")).header("x-amz-server-side-encryption-customer-algorithm", "AES256");
    rows.push(row("a key of one's own for reading", &read, 501, "NotImplemented"));
    for query in ["uploads", "uploadId=0123456789abcdef0123456789abcdef"] {
        let asked = Request::new("POST", &format!("/{BUCKET}/promised")).query(query).header("x-amz-acl", "public-read");
        rows.push(row("an upload", &asked, 400, "AccessControlListNotSupported"));
    }
    let tags = "<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags></CreateBucketConfiguration>";
    rows.push(row("tags of a bucket", &Request::new("PUT", "/promised-bucket").body(tags), 501, "NotImplemented"));
    check(&server, rows);
    assert_eq!(signed(&server, &Request::new("HEAD", "/promised-bucket")).status, 404, "nothing was made");
    assert_eq!(signed(&server, &Request::new("HEAD", &format!("/{BUCKET}/promised"))).status, 404, "nothing was stored");

    let mut rows = Vec::new();
    for (name, value) in [
        ("x-amz-acl", "private"),
        ("x-amz-acl", "bucket-owner-full-control"),
        ("x-amz-request-payer", "requester"),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-server-side-encryption-bucket-key-enabled", "false"),
        ("x-amz-website-redirect-location", "/there"),
    ] {
        rows.push(row("what holds anyway", &put(name, value), 200, ""));
    }
    rows.push(row("the ownership that holds", &make("x-amz-object-ownership", "BucketOwnerEnforced"), 200, ""));
    let other = Request::new("PUT", "/promised-too").header("x-amz-bucket-object-lock-enabled", "false");
    rows.push(row("no lock", &other, 200, ""));
    let read = Request::new("GET", &format!("/{BUCKET}/promised")).header("x-amz-of-next-year", "yes");
    rows.push(row("a read with a header that says nothing", &read, 200, ""));
    check(&server, rows);
    server.stop();
}

/// A request whose signed form may differ from what is sent.
struct Wire {
    method: &'static str,
    path: String,
    query: String,
    /// In the order of the request.
    sent: Vec<(String, String)>,
    /// Sorted by name.
    signed: Vec<(String, String)>,
    time: String,
    hash: String,
}

impl Wire {
    fn new(method: &'static str, path: &str, body: &[u8]) -> Wire {
        let (time, hash) = (basic_time(now()), hex(&Sha256::digest(body)));
        let headers = [("content-length", body.len().to_string()), ("x-amz-content-sha256", hash.clone())];
        let sent = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Wire { method, path: path.to_owned(), query: String::new(), signed: sent.clone(), sent, time, hash }
    }

    fn sent(mut self, name: &str, value: &str) -> Wire {
        self.sent.push((name.to_owned(), value.to_owned()));
        self
    }

    fn signed(mut self, name: &str, value: &str) -> Wire {
        self.signed.push((name.to_owned(), value.to_owned()));
        self
    }

    fn both(self, name: &str, value: &str) -> Wire {
        self.sent(name, value).signed(name, value)
    }

    /// With a host and the usual date.
    fn usual(self) -> Wire {
        let time = self.time.clone();
        self.both("host", "localhost").both("x-amz-date", &time)
    }

    fn head(&self) -> String {
        let mut signed = self.signed.clone();
        signed.sort();
        let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let canonical = format!("{}\n{}\n{}\n{lines}\n{names}\n{}", self.method, self.path, self.query, self.hash);
        let (time, day) = (&self.time, &self.time[..8]);
        let scope = format!("{day}/{REGION}/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let signature = hex(&mac(&Request::new("GET", "/").signing_key(day), text.as_bytes()));
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let mut head = format!("{} {}{query} HTTP/1.1", self.method, self.path);
        for (name, value) in &self.sent {
            head.push_str(&format!("\r\n{name}: {value}"));
        }
        let credential = format!("{ACCESS_KEY}/{scope}");
        format!(
            "{head}\r\nauthorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )
    }
}

#[test]
fn repeated_headers_are_one() {
    let server = Server::start();
    let path = format!("/{BUCKET}/repeated");
    let put = Wire::new("PUT", &path, b"").usual();
    let put = put.sent("x-amz-meta-a", "1").sent("x-amz-meta-a", " 2 ").signed("x-amz-meta-a", "1,2");
    let put = put.sent("cache-control", "no-cache").sent("Cache-Control", "no-store");
    check(&server, vec![head("metadata", put.head(), 200, "")]);
    let found = signed(&server, &Request::new("HEAD", &path));
    assert_eq!((found.header("x-amz-meta-a"), found.header("cache-control")), (Some("1,2"), Some("no-cache,no-store")));
    let mut asked = Wire::new("GET", &path, b"").usual();
    asked.query = String::from("attributes=");
    // As AWS's SDK for Go writes it.
    let asked = asked.sent("x-amz-object-attributes", "ETag").sent("X-Amz-Object-Attributes", "ObjectSize");
    let asked = asked.signed("x-amz-object-attributes", "ETag,ObjectSize");
    let answer = request(server.address(), &asked.head(), b"");
    assert_eq!((answer.status, answer.element("ObjectSize").as_deref()), (200, Some("0")), "{}", answer.text());
    assert!(answer.element("ETag").is_some());
    let not_covered = Wire::new("PUT", &path, b"").usual();
    let not_covered = not_covered.both("x-amz-meta-a", "1").sent("x-amz-meta-a", "added on the way");
    check(&server, vec![head("a value that is not signed", not_covered.head(), 403, "SignatureDoesNotMatch")]);
    for (name, one, other) in [
        ("x-amz-storage-class", "STANDARD", "GLACIER"),
        ("x-amz-acl", "private", "private"),
        ("content-type", "text/plain", "text/html"),
        ("content-md5", "a", "b"),
        ("x-amz-copy-source", "/a/b", "/c/d"),
        ("expires", "1", "2"),
    ] {
        let twice = Wire::new("PUT", &path, b"").usual().sent(name, one).sent(name, other);
        let twice = twice.signed(name, &format!("{one},{other}"));
        check(&server, vec![head(name, twice.head(), 400, "InvalidRequest")]);
    }
    server.stop();
}

#[test]
fn documents_that_are_not_what_was_signed() {
    let server = Server::start();
    assert_eq!(signed(&server, &Request::new("PUT", &format!("/{BUCKET}/kept")).body("x")).status, 200);
    let bucket = format!("/{BUCKET}");
    let delete = "<Delete><Object><Key>kept</Key></Object></Delete>";
    let mut rows = Vec::new();
    for (case, method, path, query, body) in [
        ("DeleteObjects", "POST", bucket.as_str(), "delete", delete),
        ("CreateBucket", "PUT", "/changed-bucket", "", "<CreateBucketConfiguration/>"),
        ("PutBucketPolicy", "PUT", bucket.as_str(), "policy", "{\"Statement\":[]}"),
        ("PutObjectTagging", "PUT", "/bucket/kept", "tagging", "<Tagging><TagSet></TagSet></Tagging>"),
        ("Complete", "POST", "/bucket/kept", "uploadId=0123456789abcdef0123456789abcdef", "<CompleteMultipartUpload/>"),
    ] {
        let asked = Request { content_sha256: Some(hex(&Sha256::digest("another"))), ..Request::new(method, path) };
        let asked = asked.query(query).body(body);
        let found = row(case, &asked, 400, "XAmzContentSHA256Mismatch");
        let found = found.with("ClientComputedContentSHA256", hex(&Sha256::digest("another")));
        rows.push(found.with("S3ComputedContentSHA256", hex(&Sha256::digest(body))));
    }
    let put = Request { content_sha256: Some(hex(&Sha256::digest("another"))), ..Request::new("PUT", "/bucket/kept") };
    let put = row("PutObject", &put.body("y"), 400, "XAmzContentSHA256Mismatch");
    rows.push(put.with("S3ComputedContentSHA256", hex(&Sha256::digest("y"))));
    check(&server, rows);
    assert_eq!(signed(&server, &Request::new("GET", &format!("/{BUCKET}/kept"))).text(), "x");
    assert_eq!(signed(&server, &Request::new("HEAD", "/changed-bucket")).status, 404);
    server.stop();
}

#[test]
fn bytes_count_and_lines_do_not() {
    let server = Server::start();
    let path = format!("/{BUCKET}/described");
    let described = |count: usize| {
        let put = Request::new("PUT", &path).body("x");
        (0..count).fold(put, |put, number| put.header(&format!("x-amz-meta-{number:03}"), "v"))
    };
    check(&server, vec![row("400 entries", &described(400), 200, "")]);
    let found = signed(&server, &Request::new("HEAD", &path));
    let entries = found.headers.iter().filter(|(name, _)| name.starts_with("x-amz-meta-")).count();
    assert_eq!((found.status, entries), (200, 400));
    let long = Request::new("PUT", &path).header("x-amz-meta-long", &"v".repeat(2048 - 4)).body("x");
    let longer = Request::new("PUT", &path).header("x-amz-meta-long", &"v".repeat(2048 - 3)).body("x");
    let too_long = row("2 KiB and a byte", &longer, 400, "MetadataTooLarge");
    check(&server, vec![row("2 KiB", &long, 200, ""), too_long.with("Size", "2049").with("MaxSizeAllowed", "2048")]);
    let lines: String = (0..600).map(|number| format!("\r\na{number}: b")).collect();
    let many = format!("GET {path} HTTP/1.1\r\nhost: localhost{lines}");
    check(&server, vec![head("600 lines", many, 400, "RequestHeaderSectionTooLarge")]);
    server.stop();
}

/// As HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(seconds: u64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let time = basic_time(seconds);
    let month: usize = time[4..6].parse().expect("a month");
    let day = DAYS[(seconds / 86_400 % 7) as usize];
    let (hour, minute, second) = (&time[9..11], &time[11..13], &time[13..15]);
    format!("{day}, {} {} {} {hour}:{minute}:{second} GMT", &time[6..8], MONTHS[month - 1], &time[..4])
}

#[test]
fn dates_hosts_and_framing_as_clients_sign_them() {
    let server = Server::start();
    assert_eq!(signed(&server, &Request::new("PUT", &format!("/{BUCKET}/plain")).body("plain")).status, 200);
    let path = format!("/{BUCKET}/plain");
    let get = || Wire::new("GET", &path, b"");
    let dated = |seconds: u64, value: &str| {
        let wire = Wire { time: basic_time(seconds), ..get() };
        wire.both("host", "localhost").both("date", value).head()
    };
    let present = now();
    let with_date = |value: &str| get().both("host", "localhost").both("x-amz-date", value).head();
    let at_host = |path: &str, sent: &str, host: &str| {
        let wire = Wire::new("GET", path, b"");
        let time = wire.time.clone();
        wire.both("x-amz-date", &time).sent("host", sent).signed("host", host).head()
    };
    let virtual_host = format!("{BUCKET}.{DOMAIN}");
    let capitals = virtual_host.to_uppercase();
    check(
        &server,
        vec![
            head("Date alone", dated(present, &http_date(present)), 200, ""),
            head("Date alone, in the form of x-amz-date", dated(present, &basic_time(present)), 200, ""),
            head("Date that is none", dated(present, "yesterday"), 403, "AccessDenied"),
            head("no date at all", get().both("host", "localhost").head(), 403, "AccessDenied"),
            head("x-amz-date that is none", with_date("yesterday"), 403, "AccessDenied"),
            head("x-amz-date that is empty", with_date(""), 403, "AccessDenied"),
            head("x-amz-date as an HTTP date", with_date(&http_date(now())), 403, "AccessDenied"),
            head("an old Date", dated(present - 3600, &http_date(present - 3600)), 403, "RequestTimeTooSkewed"),
            head("a port that a proxy adds", at_host(&path, "localhost:443", "localhost"), 200, ""),
            head("port 80", at_host(&path, "localhost:80", "localhost"), 200, ""),
            head("the same port signed", at_host(&path, "localhost:80", "localhost:80"), 200, ""),
            head("another port", at_host(&path, "localhost:9000", "localhost"), 403, "SignatureDoesNotMatch"),
            head("another host", at_host(&path, "elsewhere", "localhost"), 403, "SignatureDoesNotMatch"),
            head("a virtual host in capitals", at_host("/plain", &capitals, &capitals), 200, ""),
            head("signed in small letters", at_host("/plain", &capitals, &virtual_host), 200, ""),
            head("with a port", at_host("/plain", &format!("{capitals}:443"), &virtual_host), 200, ""),
        ],
    );
    let url = |expires: u64, time: u64| Request { time, ..Request::new("GET", &path) }.presigned(expires);
    check(
        &server,
        vec![
            head("a URL that lives", url(100, now()), 200, ""),
            head("a URL without a life", url(0, now()), 403, "AccessDenied").with("X-Amz-Expires", "0"),
            head("a URL at its end", url(100, now() - 101), 403, "AccessDenied").with("Message", "Request has expired"),
        ],
    );
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    let framed =
        Request { content_sha256: Some(String::from("STREAMING-UNSIGNED-PAYLOAD-TRAILER")), ..Request::new("PUT", &path) };
    let framed = framed.header("x-amz-decoded-content-length", "5").header("content-length", "15");
    for (coding, kept) in
        [("AWS-CHUNKED", None), ("gzip, Aws-Chunked", Some("gzip")), ("aws-chunkedish", Some("aws-chunkedish"))]
    {
        let framed = framed.clone().header("content-encoding", coding);
        assert_eq!(request(server.address(), &framed.signed().0, body).status, 200, "{coding}");
        assert_eq!(signed(&server, &Request::new("HEAD", &path)).header("content-encoding"), kept, "{coding}");
    }
    server.stop();
}

#[test]
fn who_asks_is_told_before_anything_is_read() {
    let server = Server::start();
    let delete = "<Delete><Object><Key>a</Key></Object></Delete>";
    let nonsense = |method: &str, path: &str, query: &str| Request::new(method, path).query(query).body("no XML");
    let bucket = format!("/{BUCKET}");
    let object = format!("/{BUCKET}/private");
    let stranger = |asked: &Request| Request { secret: String::from("wrong"), ..asked.clone() };
    for asked in [
        nonsense("POST", &bucket, "delete"),
        nonsense("PUT", &bucket, "policy"),
        nonsense("PUT", "/another-bucket", ""),
        nonsense("POST", &object, "uploadId=0123456789abcdef0123456789abcdef"),
        nonsense("PUT", &object, "tagging"),
        Request::new("POST", &bucket).query("delete").body(delete),
        Request::new("PUT", &object).header("content-md5", "nonsense").body("x"),
        Request::new("PUT", &object).header("x-amz-acl", "nonsense").body("x"),
    ] {
        let (case, anonymous) = (format!("{} {}", asked.method, asked.query), asked.anonymous());
        for (who, head, code) in
            [("anonymous", &anonymous, "AccessDenied"), ("wrong secret", &stranger(&asked).signed().0, "SignatureDoesNotMatch")]
        {
            // Nothing of the body is sent, and it is not waited for.
            let mut client = Client::connect(server.address());
            client.send(format!("{head}\r\nexpect: 100-continue\r\n\r\n").as_bytes());
            let answer = client.answer();
            let found = (answer.status, answer.element("Code").unwrap_or_default(), answer.header("connection"));
            assert_eq!(found, (403, code.to_owned(), Some("close")), "{case}, {who}: {}", answer.text());
        }
    }
    let known = nonsense("POST", &bucket, "delete");
    check(&server, vec![row("an owner is told more", &known, 400, "MalformedXML")]);
    let open = nonsense("POST", &format!("/{PUBLIC}"), "delete");
    let open = Row { head: open.anonymous(), ..row("a client that may by policy", &open, 400, "MalformedXML") };
    check(&server, vec![open]);
    server.stop();
}

#[test]
fn errors_say_what_they_are_about() {
    let server = Server::start();
    let object = format!("/{BUCKET}/missing");
    let get = |path: &str, query: &str| Request::new("GET", path).query(query);
    let stranger = Request { secret: String::from("wrong"), ..Request::new("GET", &object) };
    let (stranger_head, signature) = stranger.signed();
    let refused = request(server.address(), &stranger_head, b"");
    let canonical = refused.element("CanonicalRequest").expect("what was expected");
    let to_sign = refused.element("StringToSign").expect("what was to be signed");
    assert!(canonical.starts_with(&format!("GET\n{object}\n\nhost:localhost\n")), "{canonical}");
    assert!(to_sign.ends_with(&hex(&Sha256::digest(&canonical))), "{to_sign}");
    let bytes = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let mismatch = head("a wrong signature", stranger_head, 403, "SignatureDoesNotMatch");
    let nobody = Request { access_key: String::from("nobody"), ..Request::new("GET", &object) };
    let late = Request { time: now() - 3600, ..Request::new("GET", &object) };
    let added = format!("{}\r\nx-amz-meta-b: 1\r\nx-amz-meta-a: 1", Request::new("GET", &object).signed().0);
    let upload = "0123456789abcdef0123456789abcdef";
    let copy = Request::new("PUT", &object).header("x-amz-copy-source", "/nowhere/source");
    let copied = Request::new("PUT", &object).header("x-amz-copy-source", &format!("/{BUCKET}/source"));
    check(
        &server,
        vec![
            mismatch
                .with("AWSAccessKeyId", ACCESS_KEY)
                .with("SignatureProvided", signature)
                .with("StringToSignBytes", bytes(&to_sign))
                .with("CanonicalRequestBytes", bytes(&canonical)),
            row("an unknown key", &nobody, 403, "InvalidAccessKeyId").with("AWSAccessKeyId", "nobody"),
            row("another clock", &late, 403, "RequestTimeTooSkewed")
                .with("RequestTime", basic_time(late.time))
                .with("MaxAllowedSkewMilliseconds", "900000"),
            head("headers that are not signed", added, 403, "AccessDenied")
                .with("HeadersNotSigned", "x-amz-meta-a, x-amz-meta-b"),
            row("no key", &get(&object, ""), 404, "NoSuchKey").with("Key", "missing"),
            row("no version", &get(&object, "versionId=7"), 404, "NoSuchVersion").with("VersionId", "7").with("Key", "missing"),
            row("no bucket", &get("/nowhere", "versions"), 404, "NoSuchBucket").with("BucketName", "nowhere"),
            row("no bucket for an object", &get("/nowhere/key", ""), 404, "NoSuchBucket").with("BucketName", "nowhere"),
            row("no policy", &get(&format!("/{BUCKET}"), "policy"), 404, "NoSuchBucketPolicy").with("BucketName", BUCKET),
            row("no rules", &get(&format!("/{BUCKET}"), "cors"), 404, "NoSuchCORSConfiguration").with("BucketName", BUCKET),
            row("no upload", &get(&object, &format!("uploadId={upload}")), 404, "NoSuchUpload").with("UploadId", upload),
            row("no bucket to copy from", &copy, 404, "NoSuchBucket").with("BucketName", "nowhere"),
            row("nothing to copy", &copied, 404, "NoSuchKey").with("Key", "source"),
            row("an encoding", &get(&format!("/{BUCKET}"), "encoding-type=xml"), 400, "InvalidArgument")
                .with("ArgumentName", "encoding-type")
                .with("ArgumentValue", "xml"),
            row("a digest", &put("content-md5", "nonsense"), 400, "InvalidDigest").with("Content-MD5", "nonsense"),
            row("another digest", &put("content-md5", "AAAAAAAAAAAAAAAAAAAAAB=="), 400, "BadDigest"),
            row("a token", &get(&format!("/{BUCKET}"), "list-type=2&continuation-token=%2A"), 400, "InvalidArgument")
                .with("ArgumentName", "continuation-token"),
        ],
    );
    let unknown = request(server.address(), &nobody.signed().0, b"");
    assert_eq!(unknown.element("CanonicalRequest"), None, "nothing is told to an unknown client");
    assert!(!refused.text().contains(SECRET));
    server.stop();
}
